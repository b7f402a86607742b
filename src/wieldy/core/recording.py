"""The interface of a record of calls, which the store implements, and what is kept without one."""

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from .active_call import ActiveCall, Handler, Objection
from .bounded_json import parse_json
from .call import Call, Outcome
from .canonical import digest_of
from .errors import KeyTaken
from .permission.modes import ModeChange

_REMEMBERED = 10_000


class RecordLayers(Protocol):
    """The layers around a recorded call."""

    def once(self, proceed: Handler) -> Handler:
        """The outermost layer: return the first outcome of a call that was made before."""

    def start(self, proceed: Handler, objects: Objection) -> Handler:
        """The innermost layer: record durably that the function is about to be entered.

        `objects` returns the reason if a rule or mode made meanwhile forbids a call for which the
        record had to wait.
        """


class Recorder(Protocol):
    """Records how calls end, before anybody else is told."""

    def end(self, active: ActiveCall, outcome: Outcome) -> Awaitable[Outcome]:
        """Record the outcome durably and return it, or an outcome that says why that failed."""

    async def note_mode(self, change: ModeChange) -> None:
        """Make it durable that a permission mode was changed."""

    def end_soon(self, active: ActiveCall, outcome: Outcome) -> None:
        """Record the outcome without awaiting anything."""

    def late(self, active: ActiveCall, outcome: Outcome) -> None:
        """Record how an abandoned function ended. Called on any thread."""


class TakenIds:
    """The latest ids that programs gave to calls, each with a digest of its call.

    An id names one call alone. A store knows that of all its calls by itself.
    """

    def __init__(self) -> None:
        self._digests: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, call: Call) -> None:
        """Remember a call; `KeyTaken` if another one had its id."""
        digest = digest_of([call.tool, _plain_arguments(call)])
        with self._lock:
            known = self._digests.setdefault(call.id, digest)
            self._digests.move_to_end(call.id)
            if len(self._digests) > _REMEMBERED:
                self._digests.popitem(last=False)
        if known != digest:
            raise KeyTaken(call.tool, call.id)


def _plain_arguments(call: Call) -> Any:
    """The arguments of a call, read if they are JSON text."""
    sent = call.arguments
    if not isinstance(sent, str):
        return dict(sent) if isinstance(sent, Mapping) else sent or {}
    try:
        return parse_json(sent)
    except ValueError:
        return sent
