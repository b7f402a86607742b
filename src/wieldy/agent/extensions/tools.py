"""Tools of an agent: functions, MCP servers, and whatever its toolbox has."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from pydantic import BaseModel

from wieldy.agent.agent import STRATEGIES, BaseAgent
from wieldy.agent.mcp_transport import declared_tags, transport_source
from wieldy.agent.output.kwargs_schema import kwargs_schema
from wieldy.agent.strategies.strategy import Strategy
from wieldy.agent.subagents.shared_toolbox import share_toolbox
from wieldy.agent.subagents.subagent import (
    SessionKind,
    Subagent,
    SubagentInput,
    check_subagent,
    subagent_tool,
)
from wieldy.core.errors import NameTaken, ToolNotFound
from wieldy.core.names import find_near_names, listed_names
from wieldy.core.sync import blocking_border
from wieldy.core.tool import Tool

F = TypeVar("F", bound=Callable[..., Any])
ToolNamed = str | Callable[..., Any] | Tool | BaseAgent


class UnknownName(ToolNotFound, ValueError):
    """A name that an agent was given is not that of a tool. Agently's users know a `ValueError`."""


class ToolExtension(BaseAgent):
    """Tools that the model may use. Each has the agent's tag; other agents don't see them."""

    def register_tool(
        self,
        name: str,
        desc: str | None,
        kwargs: Mapping[str, Any] | None,
        func: Callable[..., Any],
        returns: Any = None,
    ) -> Self:
        """Register a function that is described by hand.

        The description is not enforced: the function gets the arguments that the model sent.

        Args:
            name: The tool's name.
            desc: The text for the model.
            kwargs: The parameters, as `{name: (type, text)}`.
            func: The function.
            returns: What the function returns. It is not used.

        Returns:
            The agent.

        Raises:
            ValueError: The name is empty or no text.
            NameTaken: Another agent's tool has the name.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"a tool needs a name, not {name!r}")
        schema = kwargs_schema(dict(kwargs or {}), func)
        self._add(
            Tool(
                func, name=name, description=desc or "", input_schema=schema, validation="describe"
            )
        )
        return self

    def tool_func(self, func: F) -> F:
        """Register the decorated function, which stays as it is.

        Args:
            func: The function.

        Returns:
            The function itself.

        Raises:
            DefinitionError: The function can't be described.
            NameTaken: Another agent's tool has the name.

        Example:
            `@agent.tool_func` above `def weather(city: str) -> str:`
        """
        self._add(Tool(func))
        return func

    def use_tools(self, tools: ToolNamed | Iterable[ToolNamed]) -> Self:
        """Use tools of the toolbox, functions whether they are registered or not, and agents.

        Args:
            tools: A name, a function, a `Tool` or an agent, or several of them. An agent is used
                as `as_tool()` makes it one, and shares its toolbox with this agent from then on.

        Returns:
            The agent.

        Raises:
            ToolNotFound: The toolbox has no tool of a name. It is a `ValueError` too.
            ValueError: An agent has another toolbox or store, which can't be shared.

        Example:
            `agent.use_tools(["search", weather])`
        """
        one = isinstance(tools, str | Tool | ToolExtension) or callable(tools)
        named: list[Any] = [tools] if one else list(tools)  # type: ignore[arg-type]
        found = [self._find(each) for each in named]
        for tool in found:
            self._tag(tool)
        return self

    def use_tool(self, tools: ToolNamed | Iterable[ToolNamed]) -> Self:
        """Do the same as `use_tools`.

        Args:
            tools: A name, a function or a `Tool`, or several of them.

        Returns:
            The agent.
        """
        return self.use_tools(tools)

    def as_tool(
        self,
        name: str | None = None,
        description: str | None = None,
        *,
        input: type[BaseModel] | None = None,
        session: SessionKind = "own",
        max_depth: int = 3,
    ) -> Tool:
        """Make a tool that asks this agent, for another agent's `use_tools`.

        Args:
            name: The tool's name; by default the agent's.
            description: The text for the model that calls it.
            input: A pydantic model of what a call says. By default the class's `InputModel`, or
                one text, `query`.
            session: "own" for a conversation and a session of its own, "shared" for those of the
                agent that calls it.
            max_depth: How many agents may be nested in one another for this one to be asked.

        Returns:
            The tool. Its calls are runs of this agent.

        Raises:
            ValueError: The agent was given no name, or an argument has a value that it can't have.

        Example:
            `writer.use_tools(researcher.as_tool(description="Find facts.", input=Question))`
        """
        if self.name == self.id[:7]:
            raise ValueError(
                "An agent that others call needs a name by which its runs are found again: "
                'Agent(name="researcher").'
            )
        model = input or getattr(self, "InputModel", None) or SubagentInput
        check_subagent(model, session, max_depth)
        return subagent_tool(Subagent(self, model, session, max_depth), name, description)

    async def async_use_mcp(self, transport: Any, **options: Any) -> Self:
        """Use the tools of an MCP server.

        Args:
            transport: The server: a source as `Toolbox.add_mcp` takes it, or a transport object.
            **options: The options of `Toolbox.add_mcp`.

        Returns:
            The agent.

        Raises:
            ServerUnavailable: The server can't be reached.
        """
        given = listed_names(options.pop("tags", None))
        await self.toolbox.add_mcp(
            transport_source(transport),
            tags=lambda definition: [*declared_tags(definition), *given, self.tag],
            **options,
        )
        return self

    def use_mcp(self, transport: Any, **options: Any) -> Self:
        """Use the tools of an MCP server, from blocking code.

        Args:
            transport: The server, as `async_use_mcp` takes it.
            **options: The options of `Toolbox.add_mcp`.

        Returns:
            The agent.
        """
        return blocking_border().wait(lambda home: self.async_use_mcp(transport, **options))

    def _make_strategy(self) -> Strategy:
        return STRATEGIES[self.tool_strategy](self.tools)

    def _find(self, named: ToolNamed) -> Tool:
        if isinstance(named, ToolExtension):
            return self._find_agent(named.as_tool())
        if isinstance(named, Tool):
            return self._find_agent(named)
        if isinstance(named, str):
            tool = self.toolbox.get(named)
            if tool is None:
                raise UnknownName(named, find_near_names(named, self.toolbox.names))
            return tool
        if not callable(named):
            raise TypeError(f"a tool is a name, a function or an agent, not {named!r:.200}")
        known = self.toolbox.tools_of(named)
        return known[0] if known else Tool(named)

    def _find_agent(self, tool: Tool) -> Tool:
        """The tool; one that asks an agent is the one that others have of it already."""
        if not isinstance(tool.function, Subagent):
            return tool
        share_toolbox(self, tool.function.agent)
        present = self.toolbox.get(tool.name)
        known = present is not None and present.function == tool.function
        return present if known and present is not None else tool

    def _tag(self, tool: Tool) -> None:
        present = self.toolbox.get(tool.name)
        if present is tool:
            if self.tag not in tool.tags:
                tagged = tool.replace(tags=(*tool.tags, self.tag))
                self.toolbox.add(tagged, on_conflict="override")
        else:
            self._add(tool)

    def _add(self, tool: Tool) -> None:
        """Register a tool with this agent's tag; another agent's is not replaced."""
        present = self.toolbox.get(tool.name)
        if present is not None and not self._may_replace(present):
            raise NameTaken(tool.name, present.name)
        self.toolbox.add(tool.replace(tags=(*tool.tags, self.tag)), on_conflict="override")

    def _may_replace(self, tool: Tool) -> bool:
        """Whether a tool is this agent's own and nobody else's."""
        return self.tag in tool.tags and not any(
            each.startswith("agent-") and each != self.tag for each in tool.tags
        )
