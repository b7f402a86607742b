"""Resume a run that was interrupted or crashed, from its last stored step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wieldy.agent.request import Request
from wieldy.agent.run_state import RunState, Step
from wieldy.agent.strategies.strategy import Strategy
from wieldy.core.bounded_json import MAX_WRAPPED, parse_json
from wieldy.core.run_errors import NotPending, StateRefused

from .given_decisions import GivenDecision
from .resumed_calls import ResumedCalls
from .run_journal import WAITING, Journal, MemoryJournal, StoreJournal
from .run_record import VERSION, read_request, read_state

if TYPE_CHECKING:
    from wieldy.store.runs import StoredRun

State = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Resumption:
    """The information for resuming a run: which run, and the decisions made meanwhile."""

    run_id: str
    state: Mapping[str, Any] | None
    decisions: Mapping[str, GivenDecision]
    by: str | None
    find_strategy: Callable[[str], Strategy]
    # Whether a run that was cancelled or has failed is left as it is.
    only_left: bool = False
    # Whether a person resumes it, and not a process by itself.
    by_hand: bool = False

    async def open(self, request: Request) -> "ReopenedRun":
        """Find where the run stopped. If this raises, nothing has been changed."""
        if request.box.recorded:
            return await self._open_stored(request)
        return await self._open_state(request)

    async def _open_stored(self, request: Request) -> "ReopenedRun":
        runs = request.box.store.runs
        stored, claim = await runs.take(self.run_id, self.only_left, self.by_hand)
        try:
            check_agent(stored.id, stored.agent, request.agent)
            steps = await runs.steps(stored.id)
            run = self._read_run(request, steps)
            if claim is None:
                return self._give_recorded(run, stored)
            await run.calls.check_decisions()
        except BaseException:
            if claim is not None:
                await runs.leave(claim, _state_before(stored), stored.error)
            raise
        state = run.state
        run.journal = StoreJournal(
            runs,
            self.run_id,
            claim,
            len(steps),
            planned=bool(state.turns),
            turns=len(state.turns),
            logs=len(state.logs),
        )
        return run

    async def _open_state(self, request: Request) -> "ReopenedRun":
        state = self.state
        if state is None:
            raise StateRefused(
                f"Run {self.run_id} is not kept: the agent has no store. Pass the state that "
                'RunInterrupted had, or give the agent a store="sqlite:///wieldy.db".'
            )
        check_agent(self.run_id, state["agent"], request.agent)
        WAITING.open(state)
        try:
            run = self._read_run(request, [state["run"]])
            await run.calls.check_decisions()
        except BaseException:
            WAITING.put_back(state)
            raise
        return run

    def _read_run(self, request: Request, steps: list[Any]) -> "ReopenedRun":
        asked = next(body["request"] for body in reversed(steps) if "request" in body)
        strategy = self.find_strategy(asked["strategy"])
        request = read_request(self.run_id, asked, request, strategy)
        state = read_state(steps)
        calls = ResumedCalls(request.box, self.run_id, state, self.decisions, self.by)
        return ReopenedRun(request, state, calls, MemoryJournal(self.run_id))

    def _give_recorded(self, run: "ReopenedRun", stored: "StoredRun") -> "ReopenedRun":
        """The state of a run that has ended."""
        for call_id in self.decisions:
            raise NotPending(self.run_id, call_id)
        run.state.step, run.state.text = Step.DONE, stored.answer["text"]
        run.meta = stored.answer["meta"]
        return run


@dataclass(slots=True)
class ReopenedRun:
    """The state in which a run stopped; `meta` is set if the run has ended."""

    request: Request
    state: RunState
    calls: ResumedCalls
    journal: Journal
    meta: dict[str, Any] | None = None


def read_pointer(given: State) -> tuple[str, Mapping[str, Any] | None]:
    """The id of the run, and its state if the pointer contains it."""
    if isinstance(given, str) and not given.lstrip().startswith("{"):
        if not given:
            raise StateRefused("resume() takes the id of a run, or RunInterrupted.state.")
        return given, None
    state = _read_json(given) if isinstance(given, str) else given
    if not isinstance(state, Mapping):
        raise StateRefused(f"The state of a run is an object, not {type(state).__name__}.")
    version, run_id = state.get("version"), state.get("run_id")
    if not isinstance(run_id, str) or not run_id or not isinstance(state.get("agent"), str):
        raise StateRefused("This is no state of a run: pass RunInterrupted.state, or a run id.")
    if isinstance(version, int) and version > VERSION:
        raise StateRefused(
            f"The state of run {run_id} is of version {version}, and this version of Wieldy "
            f"reads up to {VERSION}. Upgrade Wieldy."
        )
    if version != VERSION:
        raise StateRefused(f"The state of run {run_id} has no version that was ever written.")
    return run_id, state


def check_agent(run_id: str, theirs: str, ours: str) -> None:
    """Raise if a run belongs to another agent."""
    if theirs != ours:
        raise StateRefused(
            f"Run {run_id} is of the agent {theirs!r}, and this is {ours!r}. Resume it with that "
            'agent; Agent(name="…") gives one the same name in every process.'
        )


def _state_before(stored: "StoredRun") -> str:
    """The state of a run before it was claimed, as far as it is known."""
    return "crashed" if stored.state == "running" else stored.state


def _read_json(text: str) -> Any:
    try:
        return parse_json(text, MAX_WRAPPED)
    except ValueError:
        raise StateRefused("The state of a run is JSON, and this is not.") from None
