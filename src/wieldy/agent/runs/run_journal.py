"""Write the steps of a run to the store, or nowhere if there is none."""

import hashlib
import hmac
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from wieldy.agent.request import Request
from wieldy.agent.run_state import RunState, Step
from wieldy.core.active_call import current_call
from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.errors import StoreError
from wieldy.core.forking import at_fork
from wieldy.core.run_errors import StateRefused

from .run_record import VERSION, StepWriter

if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.store.runs import RunClaim, Runs

# A step that is being written.
Settling = Coroutine[Any, Any, None]
_STATES = {Step.INTERRUPTED: "interrupted", Step.DONE: "done"}
_MAX_WAITING = 100_000


class Journal(Protocol):
    """The place where the steps of a run are written."""

    @property
    def recorded(self) -> bool:
        """Whether the run and its calls are in a store."""

    def settle(self, request: Request, state: RunState, answer: Any = None) -> Settling:
        """Write the step that the run has just taken; awaited, it is durable."""

    async def leave(self, state: str, error: str | None = None) -> None:
        """Say that nobody carries the run on any more."""

    def leave_soon(self, state: str) -> None:
        """The same where nothing can be awaited."""

    def pointer(self, request: Request, state: RunState) -> dict[str, Any]:
        """The JSON data with which the run can be resumed later."""


class StoreJournal(StepWriter):
    """A run in a store: one row, and one more for each step.

    `turns` and `logs` say how many a resumed run has written before.
    """

    recorded = True

    def __init__(
        self,
        runs: "Runs",
        run_id: str,
        claim: "RunClaim | None" = None,
        number: int = 0,
        planned: bool = False,
        parent: str | None = None,
        turns: int = 0,
        logs: int = 0,
    ) -> None:
        super().__init__(turns, logs)
        self._runs = runs
        self._id = run_id
        self._claim = claim
        self._number = number
        self._planned = planned
        self._parent = parent
        self._resumed = claim is not None
        # The call that the run is made in, until the run has taken a step here.
        around = current_call.get()
        self._call = None if around is None else around.call.id

    def settle(self, request: Request, state: RunState, answer: Any = None) -> Settling:
        """Write the step that the run has just taken."""
        # Handlers may change the request until its first turns have been made.
        body, asked = self.write(request, state, whole_request=not self._planned)
        self._planned = self._planned or bool(state.turns)
        number, self._number = self._number, self._number + 1
        if self._claim is None:
            assert asked is not None
            return self._begin(request, asked, body)
        kept = _STATES.get(state.step, "running")
        call, self._call = self._call, None
        claim, resumed = self._claim, self._resumed
        return self._runs.save(claim, number, body, kept, answer, call=call, resumed=resumed)

    async def _begin(self, request: Request, asked: str, body: str) -> None:
        call, self._call = self._call, None
        self._claim = await self._runs.begin(
            self._id,
            request.agent,
            asked,
            body,
            session=request.call_session,
            parent=self._parent,
            call=call,
        )

    async def leave(self, state: str, error: str | None = None) -> None:
        """Say that nobody carries the run on any more."""
        if self._claim is not None:
            # If this fails, the owner is found dead later.
            with suppress(StoreError):
                await self._runs.leave(self._claim, state, error)

    def leave_soon(self, state: str) -> None:
        """The same where nothing can be awaited."""
        if self._claim is not None:
            self._runs.leave_soon(self._claim, state)

    def pointer(self, request: Request, state: RunState) -> dict[str, Any]:
        """The id of the run. The state is in its row."""
        return {"version": VERSION, "run_id": self._id, "agent": request.agent}


class _Waiting:
    """The waiting runs of this process that have no store, by the marks of their last states."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Forget all runs, because a forked child has none of its parent's runs."""
        self._lock = threading.Lock()
        self._key = os.urandom(32)
        self.process = hashlib.sha256(self._key).hexdigest()[:16]
        self._marks: OrderedDict[str, str] = OrderedDict()

    def seal(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state with a digest that only this process can compute."""
        mark = uuid.uuid4().hex
        sealed = {**state, "process": self.process, "mark": mark}
        with self._lock:
            self._marks[state["run_id"]] = mark
            self._marks.move_to_end(state["run_id"])
            if len(self._marks) > _MAX_WAITING:
                self._marks.popitem(last=False)
        return {**sealed, "digest": self._state_digest(sealed)}

    def open(self, state: Mapping[str, Any]) -> None:
        """Accept a state, but only once; `StateRefused` says why it is not accepted."""
        run_id = state["run_id"]
        if state.get("process") != self.process:
            raise StateRefused(
                f"Run {run_id} was interrupted in another process, and without a store its calls "
                'wait there. Give the agent a store, such as store="sqlite:///wieldy.db".'
            )
        unsigned = {name: value for name, value in state.items() if name != "digest"}
        digest = state.get("digest")
        if not isinstance(digest, str) or not hmac.compare_digest(
            digest.encode("utf-8", "replace"), self._state_digest(unsigned).encode()
        ):
            raise StateRefused(
                f"The state of run {run_id} was changed since it was given out. "
                "Pass it to resume() as RunInterrupted.state had it."
            )
        with self._lock:
            if self._marks.get(run_id) != state["mark"]:
                raise StateRefused(
                    f"This state of run {run_id} was resumed before. A state can be used once; "
                    "the next RunInterrupted has the next one."
                )
            del self._marks[run_id]

    def put_back(self, state: Mapping[str, Any]) -> None:
        """Allow a state to be opened again that was opened and not used."""
        with self._lock:
            self._marks[state["run_id"]] = state["mark"]

    def _state_digest(self, state: Mapping[str, Any]) -> str:
        try:
            text = dump_json(state, MAX_WRAPPED, sort_keys=True)
        except (TypeError, ValueError):
            raise StateRefused("The state of a run is JSON, as RunInterrupted.state is.") from None
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()


WAITING = _Waiting()
at_fork(WAITING.renew)


class MemoryJournal:
    """A run without a store: nothing is written, and the pointer contains the whole state."""

    recorded = False

    def __init__(self, run_id: str) -> None:
        self._id = run_id

    async def settle(self, request: Request, state: RunState, answer: Any = None) -> None:
        """There is nowhere to write to."""

    async def leave(self, state: str, error: str | None = None) -> None:
        """There is nowhere to write to."""

    def leave_soon(self, state: str) -> None:
        """There is nowhere to write to."""

    def pointer(self, request: Request, state: RunState) -> dict[str, Any]:
        """The whole state, with a digest."""
        body = parse_json(StepWriter().write(request, state, whole_request=True).body, MAX_WRAPPED)
        named = {"version": VERSION, "run_id": self._id, "agent": request.agent}
        return WAITING.seal({**named, "run": body})
