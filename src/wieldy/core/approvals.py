"""Parked calls: who waits for a decision, and what was decided."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from .call import Call, Decision, Outcome, Scope
from .canonical import digest
from .errors import AlreadyDecided, CallNotFound

_REMEMBERED = 1000


class Parked:
    """A call that waits for a person, as the person should see it.

    `call.arguments` are the arguments as they would run, after repairs. The
    decision on it holds for this tool definition and these arguments only.
    """

    __slots__ = ("at", "call", "deps", "digest", "expires_at", "fingerprint", "reason", "repairs")

    def __init__(
        self,
        call: Call,
        fingerprint: str,
        *,
        reason: str | None = None,
        expires_at: float | None = None,
        repairs: Sequence[dict[str, Any]] = (),
        deps: Any = None,
    ) -> None:
        self.call = call
        self.digest = digest(call.arguments)
        self.fingerprint = fingerprint
        self.reason = reason
        self.at = time.time()
        self.expires_at = expires_at
        self.repairs = tuple(repairs)
        self.deps = deps

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
        """The arguments as they would run."""
        sent = self.call.arguments
        return sent if isinstance(sent, Mapping) else {}

    @property
    def scope(self) -> Scope:
        """On whose behalf the call is made."""
        return self.call.scope

    def expired(self) -> bool:
        """Whether its time to be decided is over."""
        return self.expires_at is not None and time.time() >= self.expires_at

    def __repr__(self) -> str:
        return f"Parked({self.call!r})"


class _Decided:
    """A parked call after its decision: the call as decided, and how it ended."""

    __slots__ = ("call", "claimed", "ended", "parked")

    def __init__(self, parked: Parked, call: Call) -> None:
        self.parked = parked
        self.call = call
        self.claimed = False
        self.ended: Future[Outcome] = Future()


class Approvals:
    """The parked calls of one process, in memory."""

    def __init__(self) -> None:
        self._parked: dict[str, Parked] = {}
        self._decided: OrderedDict[str, _Decided] = OrderedDict()
        self._lock = threading.Lock()

    async def park(self, parked: Parked) -> bool:
        """Keep a call until it is decided. False means that its id is taken."""
        with self._lock:
            if parked.id in self._parked or parked.id in self._decided:
                return False
            self._parked[parked.id] = parked
            return True

    async def pending(self) -> list[Parked]:
        """The calls that wait, the oldest first: undecided, or approved and not yet run."""
        with self._lock:
            unclaimed = [known.parked for known in self._decided.values() if not known.claimed]
            return [*unclaimed, *self._parked.values()]

    async def find(self, call_id: str) -> Parked:
        """The parked call of this id, decided or not; `CallNotFound` otherwise."""
        with self._lock:
            parked = self._parked.get(call_id)
            return self._known(call_id).parked if parked is None else parked

    async def decide(self, call_id: str, decision: Decision, arguments: Any) -> Call:
        """Record a decision, once, and give the call as decided; the first decision holds."""
        with self._lock:
            parked = self._parked.pop(call_id, None)
            if parked is not None:
                call = parked.call.replace(arguments=arguments, decision=decision)
                self._decided[call_id] = _Decided(parked, call)
                self._forget_some()
                return call
            earlier = self._known(call_id).call
        assert earlier.decision is not None
        if earlier.decision.approved != decision.approved:
            verdict = "approved" if earlier.decision.approved else "denied"
            raise AlreadyDecided(call_id, verdict, earlier.decision.by)
        return earlier

    async def claim(self, call_id: str) -> bool:
        """Whether the caller is the one who runs this decided call."""
        with self._lock:
            known = self._known(call_id)
            first, known.claimed = not known.claimed, True
            return first

    async def finish(self, call_id: str, outcome: Outcome) -> None:
        """Record how a decided call ended."""
        with self._lock:
            known = self._known(call_id)
        if not known.ended.done():
            # What a call came with is kept only while it waits.
            known.parked.deps = None
            known.ended.set_result(outcome)

    async def outcome(self, call_id: str) -> Outcome:
        """How a decided call ended; waits while it is still running."""
        with self._lock:
            known = self._known(call_id)
        return await asyncio.wrap_future(known.ended)

    def _known(self, call_id: str) -> _Decided:
        known = self._decided.get(call_id)
        if known is None:
            raise CallNotFound(call_id)
        return known

    def _forget_some(self) -> None:
        """Keep the memory of ended calls bounded."""
        spare = len(self._decided) - _REMEMBERED
        for call_id in [i for i, known in self._decided.items() if known.ended.done()][
            : max(0, spare)
        ]:
            del self._decided[call_id]
