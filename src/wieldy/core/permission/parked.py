"""Parked calls: the calls that wait for a decision, and the decisions on them."""

import asyncio
import copy
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

from wieldy.core.active_call import ActiveCall
from wieldy.core.arguments.private_copy import private_copy
from wieldy.core.block import to_text
from wieldy.core.bounded_json import copy_json, parse_json
from wieldy.core.call import Call, Decision, Outcome, Scope, Status
from wieldy.core.canonical import digest_of
from wieldy.core.errors import AlreadyDecided, CallNotFound
from wieldy.core.limits.held_size import held_bytes
from wieldy.core.timestamps import iso_time

from .waiting_calls import describe_waiting, waited_calls, waiting_facts

_REMEMBERED = 1000
_REMEMBERED_BYTES = 32 * 1024 * 1024


class Parked:
    """A call that waits for a person.

    The decision on it is valid for this tool definition and these arguments only.

    Attributes:
        call: The call.
        reason: Why it waits.
        at: When it was parked, in seconds since the epoch.
        expires_at: When it is denied if nobody decides, or None.
        repairs: What was changed in the arguments that the model sent.
        requests: The questions of a tool that asked for input, by name, or None.
        state: The state that such a tool keeps for itself.
        covered: The arguments with their secrets covered, or None if there are none.
        fingerprint: The fingerprint of the tool's definition.
        digest: The digest of the arguments.
        deps: What the caller passed as `deps=`.
        begun: When the tool was started before it asked for input.
        given: The answers that came so far, if a tool asked for several.
        claims: Digests, by name, of the claims of the caller that the call depends on.

    Example:
        `for parked in await box.pending(): print(parked.tool, parked.shown)`
    """

    __slots__ = (
        "at",
        "begun",
        "call",
        "claims",
        "covered",
        "deps",
        "digest",
        "expires_at",
        "fingerprint",
        "given",
        "reason",
        "repairs",
        "requests",
        "state",
        "token",
    )

    def __init__(
        self,
        call: Call,
        fingerprint: str,
        *,
        reason: str | None = None,
        at: float | None = None,
        expires_at: float | None = None,
        repairs: Sequence[dict[str, Any]] = (),
        deps: Any = None,
        requests: Mapping[str, Any] | None = None,
        state: Any = None,
        covered: Mapping[str, Any] | None = None,
        begun: float | None = None,
        given: Mapping[str, Any] | None = None,
        claims: Mapping[str, str] | None = None,
    ) -> None:
        self.claims: Mapping[str, str] = claims or {}
        self.begun = begun
        self.given: Mapping[str, Any] = given or {}
        # Copies share the token; a call that asks again gets another one.
        self.token = object()
        self.call = call
        self.covered = covered
        self.digest = digest_of(call.arguments)
        self.fingerprint = fingerprint
        self.reason = reason
        self.at = time.time() if at is None else at
        self.expires_at = expires_at
        self.repairs = tuple(repairs)
        self.deps = deps
        self.requests = requests
        self.state = state

    def copy(self) -> "Parked":
        """The same parked call with data of its own, which its holder may change."""
        other = copy.copy(self)
        other.call = self.call.replace(arguments=private_copy(self.call.arguments))
        for name in ("covered", "given", "repairs", "requests", "state"):
            setattr(other, name, private_copy(getattr(self, name)))
        return other

    @property
    def id(self) -> str:
        """The call's id, as `approve` and `deny` take it."""
        return self.call.id

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.call.tool

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments as they would run. They may hold secrets: show people `shown`."""
        sent = self.call.arguments
        return sent if isinstance(sent, Mapping) else {}

    @property
    def shown(self) -> Mapping[str, Any]:
        """The arguments with their secrets covered, as a person may see them."""
        return self.arguments if self.covered is None else self.covered

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The ids of the calls that have to end before this one can go on."""
        return waited_calls(self.requests)

    @property
    def scope(self) -> Scope:
        """On whose behalf the call is made."""
        return self.call.scope

    def to_dict(self) -> dict[str, Any]:
        """Convert the receipt for logs, pages and programs.

        Returns:
            Plain JSON, with every secret covered.
        """
        return {
            "call_id": self.id,
            "tool": self.tool,
            "arguments": _plain_json(self.shown),
            "reason": self.reason,
            "requests": None if self.waits_for else _plain_json(self.requests),
            **({"waits_for": list(self.waits_for)} if self.waits_for else {}),
            "repairs": _plain_json(self.repairs),
            **self.scope.to_dict(),
            "proposed_at": iso_time(self.at),
            "expires_at": iso_time(self.expires_at),
            **({"claims": dict(self.claims)} if self.claims else {}),
        }

    def concerns(self, agent: str | None, session: str | None) -> bool:
        """Whether the call is made for this agent and in this session.

        Args:
            agent: The agent, or None for any.
            session: The session, or None for any.
        """
        return agent in (None, self.scope.agent) and session in (None, self.scope.session)

    def expired(self) -> bool:
        """Whether the time to decide is over."""
        return self.expires_at is not None and time.time() >= self.expires_at

    def __repr__(self) -> str:
        return f"Parked({self.call!r})"


class ParkedFilter(NamedTuple):
    """Which parked calls to read; `after` is the time and the id of one, and `limit` how many."""

    agent: str | None = None
    session: str | None = None
    caller: str | None = None
    call_id: str | None = None
    after: tuple[float, str] | None = None
    limit: int | None = None

    def choose(self, parked: "Iterable[Parked]") -> "list[Parked]":
        """Those that match, the oldest first."""
        found = [
            each
            for each in parked
            if each.concerns(self.agent, self.session)
            and self.caller in (None, each.scope.caller)
            and self.call_id in (None, each.id)
            and (self.after is None or (each.at, each.id) > self.after)
        ]
        return sorted(found, key=lambda each: (each.at, each.id))[: self.limit]


class Edited(NamedTuple):
    """Arguments that a person edited, as they were accepted."""

    arguments: Mapping[str, Any]
    repairs: Sequence[dict[str, Any]]
    secrets: tuple[str, ...]


class Approvals(Protocol):
    """A place that keeps parked calls. Each change of state is made by exactly one caller."""

    async def park(self, parked: Parked, secrets: tuple[str, ...] = ()) -> bool:
        """Keep a call until it is decided; False if its id is taken."""

    async def suspend(self, parked: Parked, active: ActiveCall) -> bool:
        """Keep a call whose tool asked for input; False if another process has the call."""

    async def pending(self, wanted: ParkedFilter) -> list[Parked]:
        """The calls that wait, the oldest first: undecided, or approved and not yet run."""

    async def find(self, call_id: str) -> Parked:
        """The parked call of this id, decided or not; `CallNotFound` otherwise."""

    async def find_call(self, call_id: str) -> Call:
        """The call of this id, parked or not, as far as calls are kept; or `CallNotFound`."""

    async def approve(
        self, parked: Parked, decision: Decision, edited: Edited | None, here: bool
    ) -> Call:
        """Record an approval and return the call as decided; the first decision holds.

        `here` says that the caller has the tool and will run it. The decision is about the call as
        it was found: if the call has run and asked again since, this raises `AlreadyDecided`.
        """

    async def note_answers(self, parked: Parked, answers: Mapping[str, Any]) -> None:
        """Keep some of the answers that a call waits for, if it still waits for them."""

    async def refuse(self, parked: Parked, outcome: Outcome) -> bool:
        """Record a denial with its outcome; returns whether this decision is the one that holds."""

    async def claim(self, call_id: str) -> bool:
        """Whether the caller is the one who runs this approved call."""

    async def abandon(self, outcome: Outcome) -> bool:
        """End an approved call that nobody has claimed; returns whether this ended it."""

    async def finish(self, call_id: str, outcome: Outcome) -> None:
        """Record how an approved call ended."""

    async def outcome(self, call_id: str) -> Outcome:
        """How a call ended, or its receipt if nobody runs it; waits while it is running."""

    async def watch(self, call_id: str) -> Outcome | None:
        """Wait until the call has ended; None if it is approved and nobody runs it."""

    async def find_end(self, call_id: str) -> Outcome | None:
        """How a call ended, or None while it is open; `CallNotFound` if nothing is known of it."""


class _Decided:
    """A parked call after its decision: the call as decided, and how it ended."""

    __slots__ = ("call", "claimed", "ended", "parked", "size")

    def __init__(self, parked: Parked, call: Call) -> None:
        self.parked = parked
        self.call = call
        # A denied call must not run.
        self.claimed = call.decision is None or not call.decision.approved
        self.ended: Future[Outcome] = Future()
        self.size = 0

    def end(self, outcome: Outcome) -> None:
        """Note the end of the call, and drop its `deps`, which are kept only while it waits."""
        self.parked.deps = None
        self.size = held_bytes((self.parked, self.call, outcome), _REMEMBERED_BYTES)
        self.ended.set_result(outcome)


class MemoryApprovals:
    """The parked calls of one process, in memory.

    Ended calls are kept until there are too many, or they hold too much memory; then the oldest
    are dropped. The call that ended last is always kept.
    """

    def __init__(self) -> None:
        self._parked: dict[str, Parked] = {}
        self._decided: OrderedDict[str, _Decided] = OrderedDict()
        self._watched: dict[str, list[Future[_Decided]]] = {}
        self._lock = threading.Lock()

    async def park(self, parked: Parked, secrets: tuple[str, ...] = ()) -> bool:
        """Keep a call until it is decided; False if its id is taken."""
        with self._lock:
            if parked.id in self._parked or parked.id in self._decided:
                return False
            self._parked[parked.id] = parked.copy()
            return True

    async def suspend(self, parked: Parked, active: ActiveCall) -> bool:
        """Keep a call that has run and asked for input."""
        with self._lock:
            if parked.id in self._parked:
                return False
            before = self._decided.pop(parked.id, None)
            self._parked[parked.id] = parked.copy()
        if before is not None:
            before.ended.set_result(make_receipt(parked))
        return True

    async def pending(self, wanted: ParkedFilter) -> list[Parked]:
        """The calls that wait, the oldest first: undecided, or approved and not yet run."""
        with self._lock:
            unclaimed = [known.parked for known in self._decided.values() if not known.claimed]
            waiting = [*unclaimed, *self._parked.values()]
        return [parked.copy() for parked in wanted.choose(waiting)]

    async def find(self, call_id: str) -> Parked:
        """The parked call of this id, decided or not; `CallNotFound` otherwise."""
        with self._lock:
            parked = self._parked.get(call_id)
            return (self._known_decision(call_id).parked if parked is None else parked).copy()

    async def find_call(self, call_id: str) -> Call:
        """The call of this id that was parked here; `CallNotFound` otherwise."""
        return (await self.find(call_id)).call

    async def approve(
        self, parked: Parked, decision: Decision, edited: Edited | None, here: bool
    ) -> Call:
        """Record an approval and return the call as decided; the first decision holds."""
        call, _ = self._decide_parked(parked, decision, edited)
        return call

    async def note_answers(self, parked: Parked, answers: Mapping[str, Any]) -> None:
        """Keep some of the answers that a call waits for, if it still waits for them."""
        with self._lock:
            kept = self._parked.get(parked.id)
            if kept is not None and kept.token is parked.token:
                kept.given = {**kept.given, **answers}

    async def refuse(self, parked: Parked, outcome: Outcome) -> bool:
        """Record a denial with its outcome; returns whether this decision is the one that holds."""
        decision = outcome.call.decision
        assert decision is not None
        _, first = self._decide_parked(parked, decision, None)
        if first:
            await self.finish(outcome.call.id, outcome)
        return first

    async def claim(self, call_id: str) -> bool:
        """Whether the caller is the one who runs this approved call."""
        with self._lock:
            known = self._known_decision(call_id)
            first, known.claimed = not known.claimed, True
            return first

    async def abandon(self, outcome: Outcome) -> bool:
        """End an approved call that nobody has claimed; returns whether this ended it."""
        free = await self.claim(outcome.call.id)
        if free:
            await self.finish(outcome.call.id, outcome)
        return free

    async def finish(self, call_id: str, outcome: Outcome) -> None:
        """Record how an approved call ended."""
        with self._lock:
            known = self._known_decision(call_id)
            known.claimed = True
        if not known.ended.done():
            known.end(outcome)
            with self._lock:
                self._forget_some(known)

    async def outcome(self, call_id: str) -> Outcome:
        """How a call ended, or its receipt if nobody runs it; waits while it is running."""
        with self._lock:
            if call_id in self._parked:
                return make_receipt(self._parked[call_id].copy())
            known = self._known_decision(call_id)
            if not known.claimed:
                return Outcome(known.call, Status.PENDING)
        return await asyncio.wrap_future(known.ended)

    async def watch(self, call_id: str) -> Outcome | None:
        """Wait until the call has ended; None if it is approved and nobody runs it."""
        with self._lock:
            waiting: Future[_Decided] = Future()
            if call_id in self._parked:
                self._watched.setdefault(call_id, []).append(waiting)
            else:
                waiting.set_result(self._known_decision(call_id))
        # The entry is passed on, because it may be dropped before this task continues.
        known = await asyncio.wrap_future(waiting)
        if not known.claimed:
            return None
        return await asyncio.wrap_future(known.ended)

    async def find_end(self, call_id: str) -> Outcome | None:
        """How a call ended, or None while it is open; `CallNotFound` if nothing is known of it."""
        with self._lock:
            if call_id in self._parked:
                return None
            ended = self._known_decision(call_id).ended
        return ended.result() if ended.done() else None

    def _decide_parked(
        self, seen: Parked, decision: Decision, edited: Edited | None
    ) -> tuple[Call, bool]:
        """The call as decided, and whether this decision is the one that holds."""
        call_id = seen.id
        with self._lock:
            parked = self._parked.get(call_id)
            if parked is not None:
                if parked.token is not seen.token:
                    raise went_on(seen)
                del self._parked[call_id]
                held = parked.call.arguments if edited is None else edited.arguments
                call = parked.call.replace(arguments=held, decision=decision)
                known = self._decided[call_id] = _Decided(parked, call)
                self._forget_some(known)
                watchers = self._watched.pop(call_id, [])
            else:
                known = self._known_decision(call_id)
                call, watchers = known.call, []
        for each in watchers:
            if each.set_running_or_notify_cancel():
                each.set_result(known)
        check_agreement(call, decision)
        return call.replace(arguments=private_copy(call.arguments)), parked is not None

    def _known_decision(self, call_id: str) -> _Decided:
        known = self._decided.get(call_id)
        if known is None:
            raise CallNotFound(call_id)
        return known

    def _forget_some(self, newest: _Decided) -> None:
        """Keep the memory of ended calls bounded, in number and in what they hold."""
        ended = [known for known in self._decided.values() if known.ended.done()]
        surplus = len(self._decided) - _REMEMBERED
        held = sum(known.size for known in ended)
        for known in ended:
            if surplus <= 0 and held <= _REMEMBERED_BYTES:
                return
            if known is not newest:
                del self._decided[known.call.id]
                surplus, held = surplus - 1, held - known.size


def _plain_json(value: Any) -> Any:
    """A value as plain JSON; what JSON can't hold becomes text."""
    try:
        # A value that is JSON already is copied as it is, however deep it is.
        return copy_json(value)
    except (TypeError, ValueError):
        text = to_text(value)
    try:
        return value if isinstance(value, str) else parse_json(text)
    except ValueError:
        # The value can't be written as a whole.
        return text


def make_receipt(parked: Parked) -> Outcome:
    """The receipt that the caller gets for a call that waits."""
    metadata: dict[str, Any] = {"reason": parked.reason}
    if parked.requests is None:
        return Outcome(parked.call, Status.PENDING, metadata=metadata)
    metadata |= waiting_facts(parked.requests)
    said = describe_waiting(parked.call, parked.requests, parked.reason)
    return Outcome(parked.call, Status.PENDING, content=(said,), metadata=metadata)


def went_on(seen: Parked, by: str | None = None) -> AlreadyDecided:
    """The error for a decision on a call that has run and asked again since."""
    return AlreadyDecided(seen.id, "approved" if seen.requests is None else "answered", by)


def check_agreement(call: Call, decision: Decision) -> None:
    """Raise `AlreadyDecided` if the call was decided otherwise."""
    earlier = call.decision
    assert earlier is not None
    if earlier.approved != decision.approved:
        verdict = "approved" if earlier.approved else "denied"
        raise AlreadyDecided(call.id, verdict, earlier.by, earlier.reason)
