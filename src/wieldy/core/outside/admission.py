"""Let a result from outside in: marked, scanned, and remembered for its session."""

import asyncio
from typing import Any

from wieldy.core.active_call import ActiveCall, Handler, Middleware, Sink, current_call
from wieldy.core.block import Block, Progress, to_text
from wieldy.core.call import Outcome

from .untrusted_sessions import UntrustedSessions

_MAX_HEARD = 20_000


def mark_results(sessions: UntrustedSessions) -> Middleware:
    """A middleware around the function of a tool whose results come from outside.

    A reader sees what the function shows before there is a result, so the session counts as
    untrusted before the function is entered.
    """

    async def mark(active: ActiveCall, proceed: Handler) -> Outcome:
        said = active.come_from_outside()
        if active.sink is not None:
            active.sink = _Overheard(active.sink, said)
            await sessions.add(active.call)
        return await proceed(active)

    return mark


def mark_current_call() -> None:
    """Say that what the running call gives comes from outside, where no `Context` is at hand."""
    active = current_call.get()
    while active is not None and active.stopped:
        active = active.parent
    if active is not None:
        active.mark_untrusted()


async def admit_outcome(active: ActiveCall, outcome: Outcome, sessions: UntrustedSessions) -> None:
    """Before anybody gets an outcome from outside, taint the sessions it goes to, and scan it.

    The calls around this one get the result, so theirs are from outside too.
    """
    calls = {active.call.scope.session: active.call}
    for above in active.ancestors():
        above.come_from_outside()
        calls.setdefault(above.call.scope.session, above.call)
    try:
        for call in calls.values():
            await sessions.add(call)
    except asyncio.CancelledError as error:
        if not active.cancel_requested():
            raise
        for call in calls.values():
            sessions.add_soon(call)
        active.unwinding = error
    outcome.metadata["untrusted"] = True
    _note_suspicious(active, outcome)


def _note_suspicious(active: ActiveCall, outcome: Outcome) -> None:
    # The phrases are compiled when the first result from outside comes.
    from .result_scan import scan_outcome  # noqa: PLC0415

    try:
        found: Any = scan_outcome(outcome, "\n".join(active.outside or ()))
    except Exception as error:
        # The blocks and values are other people's code. What can't be scanned is suspicious.
        found = [{"place": "content", "kind": "unreadable", "passage": type(error).__name__}]
    if found:
        outcome.metadata["suspicious"] = found


class _Overheard:
    """A sink that also keeps the messages that a call shows on its way, to scan them."""

    def __init__(self, sink: Sink, said: list[str]) -> None:
        self._sink = sink
        self._said = said
        self._left = _MAX_HEARD
        self.live = sink.live
        self.room = sink.room

    def push(self, item: Block | Progress) -> None:
        """Take an item, and keep what it says."""
        if isinstance(item, Progress) and item.message and self._left > 0:
            self._said.append(to_text(item.message)[: self._left])
            self._left -= len(self._said[-1])
        self._sink.push(item)
