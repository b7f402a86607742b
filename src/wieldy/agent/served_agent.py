"""An agent as a server offers it: a tool of its name, whose runs go on by themselves."""

import inspect
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from wieldy.core.errors import DefinitionError
from wieldy.core.permission.waiting_calls import RESUME_CALL
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox
from wieldy.view import View

from .extensions.tools import ToolExtension
from .runs.run_keeper import FindDeps, RunKeeper
from .subagents.shared_toolbox import AgentHome, share_toolbox
from .subagents.subagent import Subagent

_RESUME = {
    "type": "string",
    "description": "The id of an earlier call of this tool that said it waits, to get its answer.",
}


class ServedAgent:
    """An agent and its tool. The tool is in the agent's toolbox, and the agent does not see it.

    Args:
        agent: The agent. It needs a name.
        deps: A function, which may be async, that gives the `deps` of a run. It gets the run as
            it is stored; a run that begins has no steps yet.

    Raises:
        ValueError: The agent has no name, or its input has a field that the tool needs itself.

    Example:
        `served = ServedAgent(agent); await serve(served.box, view=served.view)`
    """

    def __init__(self, agent: ToolExtension, deps: FindDeps | None = None) -> None:
        self.agent = agent
        self._deps = deps
        made = agent.as_tool()
        subagent = made.function
        assert isinstance(subagent, Subagent)
        finding = None if deps is None else self.find_deps
        function = Subagent(
            agent, subagent.input_model, subagent.session, subagent.max_depth, finding
        )
        self._tool = made.replace(function=function, input_schema=_with_resume(made))
        # The agent's own tools are for the agent and not for clients.
        self._own = {tool.name for tool in agent.toolbox.all_tools()}
        self._add_tool()

    @property
    def box(self) -> Toolbox:
        """The toolbox in which the agent is called, and calls its tools."""
        return self.agent.toolbox

    @property
    def name(self) -> str:
        """The name of the agent's tool."""
        return self._tool.name

    @property
    def view(self) -> View:
        """The agent's tool, without the tools that the agent uses."""
        return self.box.view(where=lambda tool, scope: not self.hides(tool))

    def hides(self, tool: Tool) -> bool:
        """Whether a tool of the toolbox is there for the agent alone."""
        if tool.function == self._tool.function:
            return False
        return self.agent.tag in tool.tags or tool.name in self._own

    def join(self, box: Toolbox) -> None:
        """Have the agent called in another toolbox, to which its tools move.

        Raises:
            ValueError: The agent was given a toolbox, or has another store.
        """
        if box is self.box:
            self._own = set()
            return
        share_toolbox(_Host(box), self.agent)
        self._own = set()
        self._listen()

    def keep_runs(self, tell: Callable[[str], Any] | None = None) -> RunKeeper:
        """The keeper that continues the agent's runs by itself; `ValueError` without a store."""
        return RunKeeper(self.agent, self._deps, tell=tell)

    async def find_deps(self, run_id: str) -> Any:
        """The `deps` of a run; `LookupError` if it was given some that can't be found here."""
        runs = self.box.store.runs if self.box.recorded else None
        stored = None if runs is None else await runs.get(run_id)
        while runs is not None and stored is not None and stored.parent is not None:
            # A run inside another has the `deps` of that one.
            stored = await runs.get(stored.parent) or stored
        if self._deps is None:
            if stored is not None and stored.request.get("deps") is not False:
                raise LookupError(f"run {run_id} was given deps, which are not known here")
            return None
        found = self._deps(stored or _new_run(run_id, self.agent.name))
        return await found if inspect.isawaitable(found) else found

    def _add_tool(self) -> None:
        try:
            self.box.add(self._tool, on_conflict="raise")
        except DefinitionError as error:
            raise ValueError(
                f"The agent {self.agent.name!r} has a tool of its own name, which is also the name "
                'under which it is served. Give it another one: Agent(name="…").'
            ) from error
        self._listen()

    def _listen(self) -> None:
        """Let calls of the agent's runs have their `deps`, whoever decides on them."""
        before = self.box.desk.run_deps

        async def find(run_id: str) -> Any:
            run = await self.box.store.runs.get(run_id) if self.box.recorded else None
            ours = run is None or run.agent == self.agent.name or run.parent is not None
            return await (self.find_deps(run_id) if ours or before is None else before(run_id))

        self.box.desk.run_deps = find


class _Host:
    """A toolbox in the place of an agent that has it."""

    def __init__(self, box: Toolbox) -> None:
        self.id = self.name = self.tag = ""
        self._home = AgentHome(box, self, False)


def _with_resume(tool: Tool) -> dict[str, Any]:
    """The tool's schema, with the argument by which a client comes back to a call."""
    schema = dict(tool.input_schema)
    properties = dict(schema.get("properties", {}))
    if RESUME_CALL in properties:
        raise ValueError(
            f"The input of {tool.name!r} has a field {RESUME_CALL!r}, which the tool of a served "
            "agent needs itself. Rename the field."
        )
    return {**schema, "properties": {**properties, RESUME_CALL: _RESUME}}


def _new_run(run_id: str, agent: str) -> Any:
    # SQLAlchemy is imported only where a program reads runs.
    from wieldy.store.runs import StoredRun  # noqa: PLC0415

    now = time.time()
    facts = {"id": run_id, "agent": agent, "created_at": now, "changed_at": now}
    begun = {"state": "running", "steps": 0, "request": "{}"}
    empty = dict.fromkeys(("session", "parent", "answer", "error", "tries", "tried_step"))
    return StoredRun(SimpleNamespace(**facts, **begun, **empty))
