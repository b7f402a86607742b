"""All tools of a program, and the toolkits of its agents."""

import logging
from collections.abc import Iterable

from wieldy.core.names import listed_names
from wieldy.toolbox import Toolbox, own_box

from .call_subagent import CallSubagentTool
from .tool import BaseTool, engine_tool, need_tool
from .toolkit import AgentToolkit, BoxTool

_log = logging.getLogger("wieldy")


class ToolRegistry:
    """A library of tools, from which each agent gets its toolkit."""

    def __init__(self, toolbox: Toolbox | None = None) -> None:
        self.toolbox = own_box() if toolbox is None else toolbox
        self.tool_library: dict[str, BaseTool] = {}
        self.agent_toolkits: dict[str, AgentToolkit] = {}

    def register_tool_to_library(self, tool: BaseTool) -> None:
        """Add a tool; one of the same name is replaced."""
        need_tool(tool)
        self.tool_library[tool.name] = tool
        if isinstance(tool, CallSubagentTool):
            tool.attach(self.toolbox, self.agent_toolkits)
        self.toolbox.add(engine_tool(tool), on_conflict="override")

    def create_agent_toolkit(
        self, agent_name: str, tool_names: Iterable[str] | None = None
    ) -> AgentToolkit:
        """A toolkit with these tools; unknown names are left out with a warning."""
        toolkit = AgentToolkit(agent_name, self.toolbox)
        for name in listed_names(tool_names):
            tool = self._find_tool(name)
            if tool is None:
                _log.warning("There is no tool %r for the agent %r", name, agent_name)
            else:
                toolkit.add_tool(tool)
        self.agent_toolkits[agent_name] = toolkit
        return toolkit

    def get_agent_toolkit(self, agent_name: str) -> AgentToolkit | None:
        """The toolkit of an agent, or None."""
        return self.agent_toolkits.get(agent_name)

    def _find_tool(self, name: str) -> BaseTool | None:
        if name in self.tool_library:
            return self.tool_library[name]
        other = self.toolbox.get(name)
        return None if other is None else BoxTool(other, self.toolbox)
