"""Let a result from outside in: marked, scanned, and remembered for its session."""

import asyncio
from typing import Any

from wieldy.core.block import Block, Progress, to_text
from wieldy.core.call import Outcome
from wieldy.core.run import Handler, Middleware, Run, Sink, current_run

from .untrusted_sessions import UntrustedSessions

_MAX_HEARD = 20_000


def mark_results(sessions: UntrustedSessions) -> Middleware:
    """A middleware around the function of a tool whose results come from outside.

    A reader sees what the function shows before there is a result, so the session counts as
    untrusted before the function is entered.
    """

    async def mark(run: Run, proceed: Handler) -> Outcome:
        said = run.come_from_outside()
        if run.sink is not None:
            run.sink = _Overheard(run.sink, said)
            await sessions.add(run.call)
        return await proceed(run)

    return mark


def mark_current_call() -> None:
    """Say that what the running call gives comes from outside, where no `Context` is at hand."""
    run = current_run.get()
    while run is not None and run.stopped:
        run = run.parent
    if run is not None:
        run.mark_untrusted()


async def admit_outcome(run: Run, outcome: Outcome, sessions: UntrustedSessions) -> None:
    """Before anybody gets an outcome from outside, taint the sessions it goes to, and scan it.

    The calls around this one get the result, so theirs are from outside too.
    """
    calls = {run.call.scope.session: run.call}
    for above in run.ancestors():
        above.come_from_outside()
        calls.setdefault(above.call.scope.session, above.call)
    try:
        for call in calls.values():
            await sessions.add(call)
    except asyncio.CancelledError as error:
        if not run.cancel_requested():
            raise
        for call in calls.values():
            sessions.add_soon(call)
        run.unwinding = error
    outcome.metadata["untrusted"] = True
    _note_suspicious(run, outcome)


def _note_suspicious(run: Run, outcome: Outcome) -> None:
    # The phrases are compiled when the first result from outside comes.
    from .result_scan import scan_outcome  # noqa: PLC0415

    try:
        found: Any = scan_outcome(outcome, "\n".join(run.outside or ()))
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
