"""Keep the results of a read-only tool for a while and reuse them."""

import copy
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any, NamedTuple

from wieldy.core.active_call import ActiveCall, Handler, Middleware
from wieldy.core.bounded_json import check_depth
from wieldy.core.call import Outcome, Status
from wieldy.core.canonical import canonical_json, digest_of

from .held_size import held_bytes

_MAX_ENTRIES = 256
_MAX_BYTES = 64 * 1024 * 1024
_OBJECT = '{"!":'


class _Kept(NamedTuple):
    """A result, until when it is reused, its bytes, and whether it came from outside."""

    until: float
    value: Any
    size: int
    outside: bool


def keep_results(seconds: float) -> Middleware:
    """A middleware that reuses a successful outcome of the same arguments for some seconds.

    A tool that takes a `Context` may depend on who calls: its results are kept
    per agent, session and caller, and not at all for a call with `deps`. A tool that reads
    context variables must take their values as arguments, because they are not compared.
    """
    kept: OrderedDict[str, _Kept] = OrderedDict()
    lock = threading.Lock()

    def find(key: str) -> _Kept | None:
        with lock:
            entry = kept.get(key)
            if entry is not None and entry.until <= time.monotonic():
                del kept[key]
                return None
            return entry

    def keep(key: str, value: Any, size: int, outside: bool) -> None:
        with lock:
            kept[key] = _Kept(time.monotonic() + seconds, value, size, outside)
            kept.move_to_end(key)
            held = sum(entry.size for entry in kept.values())
            while len(kept) > _MAX_ENTRIES or held > _MAX_BYTES:
                _, oldest = kept.popitem(last=False)
                held -= oldest.size

    async def reuse(active: ActiveCall, proceed: Handler) -> Outcome:
        key = None if active.deps is not None else _cache_key(active)
        if key is None:
            return await proceed(active)
        entry = find(key)
        if entry is not None:
            return _reuse_result(active, entry)
        outcome = await proceed(active)
        if outcome.status is Status.OK and not active.blocks and not active.streamed:
            size = held_bytes(outcome.value, _MAX_BYTES)
            # The value is other people's code; if it can't be copied, it is not kept.
            with suppress(Exception):
                check_depth(outcome.value)
                if size <= _MAX_BYTES:
                    keep(key, copy.deepcopy(outcome.value), size, active.outside is not None)
        return outcome

    return reuse


def _reuse_result(active: ActiveCall, entry: _Kept) -> Outcome:
    active.note("cached", True)
    if entry.outside:
        active.come_from_outside()
    return Outcome(active.call, Status.OK, copy.deepcopy(entry.value))


def _cache_key(active: ActiveCall) -> str | None:
    """What the result depends on; None if the arguments can't be compared reliably."""
    scope = active.call.scope
    caller = (scope.agent, scope.session, scope.caller) if active.tool.signature.context else ()
    text = canonical_json([active.arguments, caller])
    # An object is written as its `repr`, which may hide differences: secrets, long tables.
    return None if _OBJECT in text else digest_of(text)
