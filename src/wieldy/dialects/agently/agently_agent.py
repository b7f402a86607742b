"""Agently's agents, whose model comes from the settings and whose tools are shared."""

import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from wieldy.agent.default_agent import Agent
from wieldy.agent.extensions.tools import ToolNamed
from wieldy.core.names import listed_names
from wieldy.core.tool import Tool
from wieldy.models.model import Model

from .agently_request import AgentlyRequest
from .agently_session import SessionExtension
from .configured_agent import ConfiguredAgent
from .tool_manager import known_tags

if TYPE_CHECKING:
    from .main import AgentlyMain

F = TypeVar("F", bound=Callable[..., Any])


class AgentlyAgent(SessionExtension, Agent, ConfiguredAgent):
    """An agent whose model comes from the settings, and which shares its tools with all agents.

    As in Agently, registering a name again replaces the tool.
    """

    def __init__(
        self, main: "AgentlyMain", name: str | None = None, model: str | Model | None = None
    ) -> None:
        super().__init__(model, name=name, toolbox=main.tool.toolbox, parent=main.settings)
        self.tool = main.tool

    def create_request(
        self,
        *,
        name: str | None = None,
        inherit_agent_prompt: bool = True,
        inherit_extension_handlers: bool = True,
    ) -> AgentlyRequest:
        """A separate request, besides the one that is being written on the agent.

        Args:
            name: Who asks; by default the agent.
            inherit_agent_prompt: Whether it says what all requests of the agent say.
            inherit_extension_handlers: Whether it has the agent's tools and handlers.
        """
        return AgentlyRequest(
            self.settings,
            self.toolbox,
            name=self.name if name is None else name,
            prompt=self.agent_prompt if inherit_agent_prompt else None,
            agent=self if inherit_extension_handlers else None,
            model=self._given_model[0],
        )

    def create_temp_request(self) -> AgentlyRequest:
        """A request that shares only the settings with the agent."""
        return self.create_request(
            name=f"{self.name}-Temp-{uuid.uuid4().hex}",
            inherit_agent_prompt=False,
            inherit_extension_handlers=False,
        )

    async def async_streaming_print(self) -> None:
        """Send the request, and print the answer while it arrives."""
        _print_text("\n")
        async for delta in self.get_async_generator("delta"):
            _print_text(delta)
        _print_text("\n")

    def streaming_print(self) -> None:
        """The same from blocking code."""
        _print_text("\n")
        for delta in self.get_generator("delta"):
            _print_text(delta)
        _print_text("\n")

    def set_action_results(self, results: Any) -> Self:
        """Put the results of actions into the prompt of every request."""
        self.agent_prompt.replace("action_results", results)
        return self

    def add_action_results(self, action: str, result: Any) -> Self:
        """Add the result of one action to the prompt of every request."""
        self.agent_prompt.append("action_results", {action: result})
        return self

    def reset_action_results(self) -> Self:
        """Remove the results of actions from the prompt of every request."""
        self.agent_prompt.remove("action_results")
        return self

    def register_tool(
        self,
        name: str,
        desc: str | None,
        kwargs: Mapping[str, Any] | None,
        func: Callable[..., Any],
        returns: Any = None,
    ) -> Self:
        """Register a function that is described by hand, for this agent."""
        self.tool.register(name, desc, kwargs, func, returns, self.tag)
        return self

    def tool_func(self, func: F) -> F:
        """Register a function, as a decorator. Its signature describes it and is not enforced."""
        self.tool.tool_func(func)
        self._tag(self._find(func))
        return func

    async def async_use_mcp(
        self, transport: Any, tags: Iterable[str] | str | None = None, **options: Any
    ) -> Self:
        """Use the tools of an MCP server, which several agents can share."""
        if options:
            # Agently has no approvals, unless somebody asks for them here.
            options = {"permission": "auto", **options}
            return await super().async_use_mcp(transport, tags=listed_names(tags), **options)
        await self.tool.async_use_mcp(transport, (*listed_names(tags), self.tag))
        return self

    def _find(self, named: ToolNamed) -> Tool:
        if isinstance(named, str | Tool) or not callable(named):
            return super()._find(named)
        if not self.toolbox.tools_of(named):
            self.tool.tool_func(named)
        return self.toolbox.tools_of(named)[0]

    def _tag(self, tool: Tool) -> None:
        if self.toolbox.get(tool.name) is tool:
            # The manager keeps the description with which the tool was registered.
            self.tool.tag(tool.name, self.tag)
        else:
            self._add(tool)

    def _add(self, tool: Tool) -> None:
        known = known_tags(self.toolbox, tool.name)
        super()._add(tool.replace(tags=(*known, *tool.tags)))

    def _may_replace(self, tool: Tool) -> bool:
        return True


def _print_text(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
