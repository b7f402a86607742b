"""An agent as a tool: each call is a run of its own, which a later attempt goes on with."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, get_args

from pydantic import BaseModel, Field, ValidationError

from wieldy.agent.nested_data import merge_values
from wieldy.agent.prompt import Prompt
from wieldy.agent.request import Decider, Request
from wieldy.agent.response import Response
from wieldy.agent.runs.resumption import State
from wieldy.core.active_call import current_call
from wieldy.core.call import nested_run_id
from wieldy.core.context import Context
from wieldy.core.errors import CallUnknown
from wieldy.core.limits.budget import Budget
from wieldy.core.limits.spending import Spending, current_spending
from wieldy.core.permission.decisions import RunDeps
from wieldy.core.permission.waiting_calls import CallsNeeded
from wieldy.core.run_errors import RunBusy, RunCancelled, RunInterrupted
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox

from .agent_event import AgentEvent
from .nesting import Nesting, OuterRun, current_outer

SessionKind = Literal["own", "shared"]
# The provider's own events are for programs that talk to that provider.
_UNSHARED = ("original_delta",)


class SubagentInput(BaseModel):
    """What a subagent is asked, unless its user says otherwise."""

    query: str = Field(description="What the agent should do, with all that it needs to know.")


class InnerAgent(Protocol):
    """An agent, as a call that runs it needs it."""

    name: str
    agent_prompt: Prompt

    @property
    def toolbox(self) -> Toolbox:
        """The toolbox that makes its calls and keeps its runs."""

    def _session(self) -> str | None: ...

    def _make_request(
        self, slots: dict[str, Any], decide: Decider | None = None, deps: Any = None
    ) -> Request: ...

    def _begin(self, request: Request) -> Response: ...

    def _go_on(self, request: Request, run: State) -> Response: ...


@dataclass(frozen=True, slots=True)
class Subagent:
    """The function of a tool that asks an agent.

    Attributes:
        agent: The agent.
        input_model: What a call of it says.
        session: Whether its calls are made in a session of their own, or in that of its caller.
        max_depth: How many subagents may be nested in one another for it to be asked.
        find_deps: What gives the `deps` of a run, by its id, where the call has none.
        running: The runs under way, by the ids of their calls.
    """

    agent: Any
    input_model: type[BaseModel]
    session: SessionKind
    max_depth: int
    find_deps: RunDeps | None = None
    running: dict[str, Response] = field(default_factory=dict, repr=False, compare=False)

    def leave(self, call_id: str) -> bool:
        """Leave the run of a call to another process, if it is under way here and stored."""
        response = self.running.pop(call_id, None)
        if response is None or not self.agent.toolbox.recorded:
            return False
        response.hand_over()
        return True

    async def __call__(self, /, **arguments: Any) -> Any:
        """Ask the agent, or go on where an earlier attempt of the same call stopped."""
        active = current_call.get()
        assert active is not None
        call = _SubagentCall(self, Context(active), self.read_input(arguments))
        while True:
            try:
                return await call.run()
            except RunBusy as busy:
                # Somebody goes on with this run by its id; its end is ours too.
                runs = self.agent.toolbox.store.runs
                await runs.until(busy.run_id, lambda stored: stored.state != "running")

    def read_input(self, arguments: dict[str, Any]) -> Any:
        """What the agent is asked: text, or the fields of the input."""
        try:
            given = self.input_model.model_validate(arguments)
        except ValidationError as error:
            raise ValueError(
                f"the agent {self.agent.name!r} can't be asked this: {error}"
            ) from None
        data = given.model_dump(mode="json")
        only = next(iter(data.values())) if len(data) == 1 else None
        return only if isinstance(only, str) else data


class _SubagentCall:
    """One call of a subagent's tool."""

    def __init__(self, subagent: Subagent, ctx: Context, asked: Any) -> None:
        self._subagent = subagent
        self._agent: InnerAgent = subagent.agent
        self._ctx = ctx
        self._asked = asked
        self._around = around = current_outer.get()
        # A call that has waited for others may be run again before the run that made it goes on.
        self._outer = None if around is None or around.run_id != ctx.scope.run else around
        self._run_id = nested_run_id(ctx.call_id)
        self._deps = ctx.deps

    async def run(self) -> Any:
        """Run the agent to its answer, and show what happens on the way."""
        response = await self._open_run()
        running, call_id = self._subagent.running, self._ctx.call_id
        running[call_id] = response
        with self._keep_limits():
            try:
                async with aclosing(response.get_async_generator("all")) as events:
                    await self._show_events(events)
                return await response.async_get_data()
            except RunInterrupted as error:
                state = {"run": error.state, "left": _budget_left(), "spent": response.spent}
                raise CallsNeeded(response.waits_for, state) from None
            except RunCancelled as error:
                if running.get(call_id) is response:
                    raise
                reason = "its process ended; the run goes on where its agent is served again"
                raise CallUnknown(self._ctx.tool, reason) from error
            finally:
                running.pop(call_id, None)
                spent = response.spent
                self._ctx.report(run={"id": self._run_id, **({"spent": spent} if spent else {})})

    @contextmanager
    def _keep_limits(self) -> Iterator[None]:
        """Keep to what the runs around have left, also where none of them counts."""
        state = self._ctx.state
        if self._outer is not None or not state:
            yield
            return
        known, left = {"below": {self._run_id: state["spent"]}}, state["left"]
        # The run that made the call counts it when it goes on, and those around that one with it.
        limits = None if left is None else Spending(Budget(**left), None, known)
        token = current_spending.set(limits)
        try:
            yield
        finally:
            current_spending.reset(token)

    async def _open_run(self) -> Response:
        """The run of this call: the one that was begun before, or a new one."""
        box, state = self._agent.toolbox, self._ctx.state
        if box.recorded:
            begun = await box.store.runs.get(self._run_id)
            pointer: State | None = None if begun is None else self._run_id
        else:
            pointer = None if state is None else state["run"]
        find_deps = self._subagent.find_deps
        if self._deps is None and find_deps is not None:
            self._deps = await find_deps(self._run_id)
        if pointer is not None:
            return self._agent._go_on(self._make_request({}), pointer)
        nesting = self._nest_run()
        return self._agent._begin(
            replace(self._make_request(self._prompt_slots()), nesting=nesting)
        )

    def _make_request(self, slots: dict[str, Any]) -> Request:
        # If somebody is there to decide, the run around asks them, so this one does not.
        around = None if self._around is None else self._around.request
        request = self._agent._make_request(slots, None, self._deps)
        if self._subagent.session == "shared":
            # The turns of that session are its caller's.
            request = replace(request, session=None)
        if request.prices is None and around is not None:
            request = replace(request, prices=around.prices)
        return request

    def _prompt_slots(self) -> dict[str, Any]:
        """What the agent is told: its own prompt, and what this call asks."""
        slots: dict[str, Any] = merge_values(
            self._agent.agent_prompt.values(), {"input": self._asked}
        )
        if self._subagent.session == "shared" and self._outer is not None:
            slots["chat_history"] = self._outer.request.prompt.get("chat_history") or []
        return slots

    def _nest_run(self) -> Nesting:
        depth = _depth_of(self._outer) + 1
        most = self._subagent.max_depth
        if depth > most:
            raise RecursionError(
                f"agents may be nested {most} deep, and {self._agent.name!r} would be one deeper; "
                "answer without it"
            )
        scope = self._ctx.scope
        own = self._agent._session() or self._run_id
        session = own if self._subagent.session == "own" else scope.session
        return Nesting(self._run_id, scope.run, depth, session)

    async def _show_events(self, events: AsyncGenerator[Any]) -> None:
        async for event, data in events:
            if event == "subagent":
                # One of a subagent of this one, which names the agent and the call itself.
                inner = (data[name] for name in ("agent", "run_id", "call_id", "event", "data"))
                await self._ctx.emit(AgentEvent(*inner))
            elif event not in _UNSHARED:
                called = self._agent.name, self._run_id, self._ctx.call_id
                await self._ctx.emit(AgentEvent(*called, event, data))


def _budget_left() -> dict[str, float | None] | None:
    """What the runs around may still use up; None if nobody counts."""
    spending = current_spending.get()
    return None if spending is None else {**spending.left(), "repeats": spending.repeats}


def check_subagent(model: Any, session: Any, max_depth: Any) -> None:
    """Raise what is wrong with the settings of a subagent."""
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        raise ValueError(f"input is a pydantic model, such as a class Question, not {model!r:.200}")
    if session not in get_args(SessionKind):
        raise ValueError(f"session is 'own' or 'shared', not {session!r:.200}")
    if isinstance(max_depth, bool) or not isinstance(max_depth, int) or max_depth < 1:
        raise ValueError(f"max_depth is a whole number from 1 on, not {max_depth!r:.200}")


def subagent_tool(subagent: Subagent, name: str | None, description: str | None) -> Tool:
    """The tool that asks an agent."""
    agent = subagent.agent
    return Tool(
        subagent,
        name=name or agent.name,
        description=description or _describe_agent(agent),
        input_schema=subagent.input_model.model_json_schema(),
        source="agent",
        resumable=True,
    )


def _describe_agent(agent: InnerAgent) -> str:
    role = agent.agent_prompt.get("system.your_role")
    what = f" It is: {role}" if isinstance(role, str) and role else ""
    return f"Ask the agent {agent.name}, and get its answer.{what}"


def _depth_of(outer: OuterRun | None) -> int:
    nesting = None if outer is None else outer.request.nesting
    return 0 if nesting is None else nesting.depth
