"""`call_subagent`: hand an instruction to another agent, by its name."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from wieldy.agent.agent import BaseAgent
from wieldy.agent.subagents.nesting import current_outer
from wieldy.agent.subagents.shared_toolbox import join_toolbox
from wieldy.agent.subagents.subagent import Subagent, SubagentInput
from wieldy.core.errors import InputNeeded
from wieldy.core.names import listed_names
from wieldy.toolbox import Toolbox

from .tool import BaseTool, ToolParameter, ToolResult

_MAX_DEPTH = 3


class CallSubagentTool(BaseTool):
    """`call_subagent(agent_name, instruction)`.

    Called by itself or through a toolkit, it checks the arguments and gives them back as data, by
    which a program routes. In the run of an agent it asks the subagent, and gives its answer.

    Args:
        agents: The agents by their names, or only the names. Those of a registry's toolkits are
            valid as well, where the tool is in its library.
    """

    resumable = True

    def __init__(self, agents: Mapping[str, BaseAgent] | Iterable[str] | None = None) -> None:
        super().__init__("call_subagent", "Call a subagent to do a part of the work.")
        given = agents if isinstance(agents, Mapping) else dict.fromkeys(listed_names(agents))
        self._agents: dict[str, BaseAgent | None] = dict(given)
        self._registered: list[Mapping[str, Any]] = []

    def register_agent(self, name: str, agent: BaseAgent | None = None) -> None:
        """Make a name valid; with an agent, runs of other agents are routed to it."""
        self._agents[name] = agent

    def known_names(self) -> list[str]:
        """The names that are valid."""
        named = (name for each in self._registered for name in each)
        return list(dict.fromkeys([*self._agents, *named]))

    def get_parameters(self) -> list[ToolParameter]:
        """What the tool takes."""
        names = ", ".join(self.known_names())
        which = f"Name of the subagent: {names}" if names else "Name of the subagent"
        what = "What the subagent should do, with all that it needs to know"
        return [
            ToolParameter("agent_name", "string", which),
            ToolParameter("instruction", "string", what),
        ]

    async def execute(self, agent_name: str, instruction: str) -> ToolResult:
        """Check the arguments, and give them back to be routed by."""
        known = self.known_names()
        if agent_name not in known:
            listed = f"Known agents: {', '.join(known)}." if known else "No agents are registered."
            return ToolResult(False, error=f"Unknown agent: '{agent_name}'. {listed}")
        if not instruction.strip():
            return ToolResult(False, error=f"The instruction for agent '{agent_name}' is empty")
        return ToolResult(True, data={"agent_name": agent_name, "instruction": instruction})

    @cached_property
    def body(self) -> Callable[..., Any]:
        """What the engine calls: routes to the agent in the run of another."""
        return self._route_call

    def attach(self, toolbox: Toolbox, registered: Mapping[str, Any] | None = None) -> None:
        """Have the agents work in the toolbox of the tool, and those names be valid."""
        for agent in self._agents.values():
            if agent is not None:
                join_toolbox(agent, toolbox)
        if registered is not None and not any(each is registered for each in self._registered):
            self._registered.append(registered)
            self.__dict__.pop("_declared", None)

    async def _route_call(self, agent_name: str, instruction: str) -> ToolResult:
        checked = await self.execute(agent_name, instruction)
        agent = self._agents.get(agent_name)
        if not checked.success or agent is None or current_outer.get() is None:
            return checked
        ask = Subagent(agent, SubagentInput, "own", _MAX_DEPTH)
        try:
            return ToolResult(True, data=await ask(query=instruction))
        except InputNeeded:
            # The subagent waits for a person, and so does this call.
            raise
        except Exception as error:
            # ArtifactFlow promises a result, whatever the agent raises.
            return ToolResult(False, error=f"Agent '{agent_name}' failed: {error}")
