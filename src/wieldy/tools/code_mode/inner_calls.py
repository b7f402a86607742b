"""The calls that a program makes: each is made once, and found again when the program runs anew."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from wieldy.core.active_call import Extras
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.canonical import digest_of
from wieldy.core.context import Context
from wieldy.core.errors import CallUnknown, KeyTaken
from wieldy.core.limits.spending import current_spending
from wieldy.toolbox import Toolbox
from wieldy.view import View

from .program_errors import ProgramFailed

if TYPE_CHECKING:
    from wieldy.store.ledger_writes import Record

_REMEMBERED = 1_000
_MAX_OUTER = 400
Foretold = Callable[[Outcome], None]
_ADVICE = "The tools may have changed. Run the program anew, and mind that"


class InnerCalls(Protocol):
    """Makes the calls of one program, or finds what became of them."""

    started_at: float

    async def make(
        self, index: int, tool: str, arguments: Mapping[str, Any], foretold: Foretold | None = None
    ) -> Outcome:
        """The outcome of the call at this index, which is made unless it was made before.

        `foretold` may be told the outcome before it is durable.
        """

    def count_known(self) -> int:
        """How many calls the program had made, up to the last, when it was run before."""


def inner_id(outer: str, index: int | str) -> str:
    """The id of a program's call, which depends on nothing but its place."""
    # An id that somebody chose may be as long as ids can be.
    return f"{outer if len(outer) <= _MAX_OUTER else digest_of(outer)}.{index}"


@dataclass(slots=True)
class RecordedCalls:
    """The calls of a program whose toolbox has a store.

    The id of each says where it belongs, so that any process finds it again.
    """

    view: View
    box: Toolbox
    context: Context
    started_at: float
    known: frozenset[str]

    @classmethod
    async def find(cls, view: View, box: Toolbox, context: Context) -> "RecordedCalls":
        """What the program whose call this is has done so far."""
        record: Record | None = getattr(context._run, "record", None)
        if record is not None and record.is_new and context.attempt == 1:
            # Nothing can have been recorded for a call that has just been given its id.
            return cls(view, box, context, record.proposed_at, frozenset())
        outer = context.call_id
        entry = await box.ledger.get(outer)
        known = await box.ledger.ids(inner_id(outer, ""), limit=None)
        started_at = time.time() if entry is None else entry.proposed_at
        return cls(view, box, context, started_at, frozenset(known))

    async def make(
        self, index: int, tool: str, arguments: Mapping[str, Any], foretold: Foretold | None = None
    ) -> Outcome:
        """The outcome of the call at this index, which is made unless it was made before."""
        call_id = inner_id(self.context.call_id, index)
        if call_id not in self.known:
            call = Call(tool, arguments, id=call_id, idempotency_key=call_id)
            return await self.view.call_equipped(call, Extras(self.context.deps, foretold=foretold))
        # A call that was made before has been counted, and is not refused now.
        token = current_spending.set(None)
        try:
            return await self._find_again(call_id, index, tool, arguments)
        finally:
            current_spending.reset(token)

    def count_known(self) -> int:
        """How many calls the program had made, up to the last, when it was run before."""
        # The calls of a program that this one runs have a longer place.
        own = inner_id(self.context.call_id, "")
        places = (each.removeprefix(own) for each in self.known)
        return max((int(place) + 1 for place in places if place.isdecimal()), default=0)

    async def _find_again(
        self, call_id: str, index: int, tool: str, arguments: Mapping[str, Any]
    ) -> Outcome:
        entry = await self.box.ledger.get(call_id)
        if entry is not None and entry.call.idempotency_key is None:
            # It was refused before it began, and has no key.
            if entry.call.tool != tool:
                raise differs(index, tool)
            return entry.outcome()
        call = Call(tool, arguments, idempotency_key=call_id)
        outcome = await self.view.call(call, deps=self.context.deps)
        if isinstance(outcome.error, KeyTaken):
            raise differs(index, tool)
        if outcome.status is Status.UNKNOWN:
            # A crash cut it off. It runs again if that does no harm.
            outcome = await self.box.rerun_call(call_id, Extras(self.context.deps))
        if outcome.status is Status.UNKNOWN:
            raise CallUnknown(
                tool,
                f"the program called it when its process went down. Find out what became of the "
                f"call {call_id} and settle it, or recover it by its id; then recover this call",
            )
        return outcome


@dataclass(slots=True)
class _Made:
    """A call of a program that is remembered: what it was, and how it stood."""

    tool: str
    digest: str
    outcome: Outcome


@dataclass(slots=True)
class RememberedCalls:
    """The calls of a program whose toolbox has no store."""

    view: View
    box: Toolbox
    context: Context
    started_at: float = field(default_factory=time.time)
    made: dict[int, _Made] = field(default_factory=dict)

    async def make(
        self, index: int, tool: str, arguments: Mapping[str, Any], foretold: Foretold | None = None
    ) -> Outcome:
        """The outcome of the call at this index, which is made unless it was made before."""
        digest, before = digest_of(arguments), self.made.get(index)
        if before is None:
            call = Call(tool, arguments, id=inner_id(self.context.call_id, index))
            outcome = await self.view.call(call, deps=self.context.deps)
        elif (before.tool, before.digest) != (tool, digest):
            raise differs(index, tool)
        elif before.outcome.status is Status.PENDING:
            outcome = await self.box.outcome(before.outcome.call.id)
        else:
            return before.outcome
        self.made[index] = _Made(tool, digest, outcome)
        return outcome

    def count_known(self) -> int:
        """How many calls the program had made, up to the last, when it was run before."""
        return max(self.made, default=-1) + 1


class PausedPrograms:
    """The inner calls of paused programs, by outer call, in a toolbox without a store."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, RememberedCalls] = OrderedDict()

    def take(self, view: View, box: Toolbox, context: Context) -> RememberedCalls:
        """What the program whose call this is has done so far."""
        calls = RememberedCalls(view, box, context)
        if context.answers is None:
            if context.call_id in self._kept:
                # The calls of both programs would have the same ids.
                raise ProgramFailed(
                    f"Another program has paused under the id {context.call_id} of this call. "
                    "Give each call an id of its own."
                )
            return calls
        kept = self._kept.pop(context.call_id, None)
        if kept is None:
            raise ProgramFailed(
                "It is no longer known what this program has done. Run it anew, and mind that "
                "calls have been made: those before its pause, and those that were approved since."
            )
        calls.started_at, calls.made = kept.started_at, kept.made
        return calls

    def keep(self, calls: RememberedCalls) -> None:
        """Keep what a program has done that waits now."""
        self._kept[calls.context.call_id] = calls
        while len(self._kept) > _REMEMBERED:
            self._kept.popitem(last=False)


def differs(index: int, tool: str) -> ProgramFailed:
    """The error of a program that does not do again what it did before."""
    return ProgramFailed(
        f"The program was run again after a pause, and its call {index + 1}, of {tool}, is not "
        f"the call that it made there before. {_ADVICE} the calls before this one have been made."
    )


def ended_early(begun: int, known: int) -> ProgramFailed:
    """The error of a program that ends without calls that it made before."""
    return ProgramFailed(
        f"The program was run again after a pause, and ended after {begun} of the {known} calls "
        f"that it had made before. {_ADVICE} all of these calls have been made."
    )
