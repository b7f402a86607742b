"""The tools that one caller sees: listed, described, counted and searched."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from wieldy.core.call import NO_SCOPE, Scope
from wieldy.core.choices import ProviderFormat
from wieldy.core.discovery.tool_index import Index
from wieldy.core.registry import Registry, Selection, SessionList
from wieldy.core.schema.signature import is_same_function
from wieldy.core.short_text import first_line
from wieldy.core.tool import Review, Tool

if TYPE_CHECKING:
    from wieldy.wire.cost import Cost, Counter


class VisibleTools:
    """The tools of a toolbox that a selection leaves, as whoever has a scope sees them.

    Where search tools were added, a scope with a session lists what that session is shown. The
    other tools can be found, looked up and called all the same.
    """

    def __init__(
        self,
        registry: Registry,
        index: Index,
        selection: Selection | None = None,
        scope: Scope = NO_SCOPE,
    ) -> None:
        self._registry = registry
        self._index = index
        self._selection = selection
        self._scope = scope

    def schemas(
        self,
        provider: ProviderFormat = "openai",
        strict: bool = False,
        *,
        defer: Iterable[str] | str | None = None,
    ) -> list[dict[str, Any]]:
        """Describe the visible tools in a provider's format.

        `wieldy check` reports what a format loses or changes.

        Args:
            provider: The provider's format.
            strict: Whether the provider is asked to hold the model to each schema, where it can.
            defer: Names, or patterns such as "github_*", of tools that the provider shows its
                model only when the model searches for them. Anthropic and OpenAI's responses can.

        Returns:
            The definitions, ready for the provider's request.

        Raises:
            ValueError: There is no such format, or it has no search of its own.

        Example:
            `client.chat.completions.create(..., tools=box.schemas("openai"))`
        """
        # Loaded when tools are first described, to keep `import wieldy` light.
        from wieldy.wire.definitions import tool_definitions  # noqa: PLC0415

        if defer is None:
            return tool_definitions(self, provider, strict)
        from wieldy.wire.deferred_loading import deferred_definitions  # noqa: PLC0415

        return deferred_definitions(self, provider, strict, defer)

    def cost(
        self,
        provider: ProviderFormat = "openai",
        strict: bool = False,
        count: "Counter | None" = None,
    ) -> "Cost":
        """Estimate how many tokens the visible tools take in each request.

        Args:
            provider: The provider's format.
            strict: Whether the definitions are the strict ones.
            count: A function that counts the tokens of a text, such as the provider's tokenizer.

        Returns:
            The tokens per tool, per group and in total.

        Example:
            `box.cost("anthropic").total`
        """
        # Loaded when first asked for, to keep `import wieldy` light.
        from wieldy.wire.cost import tool_cost  # noqa: PLC0415

        return tool_cost(self, provider, strict, count)

    def search(self, query: str, limit: int = 8) -> list[Tool]:
        """Find the visible tools that fit some words best.

        Args:
            query: The words.
            limit: The most tools to return.

        Returns:
            The tools, the best first.

        Example:
            `box.search("send a mail")`
        """
        return list(islice(self.search_all(query), limit))

    def search_all(self, query: str) -> Iterator[Tool]:
        """Find all visible tools that share words with a text, one after the other.

        Args:
            query: The words.

        Returns:
            The tools, the best first.
        """
        found = (self.get(name) for name in self._index.search(query))
        return (tool for tool in found if tool is not None)

    def all_visible(self) -> list[Tool]:
        """List every tool that can be looked up and called here, whatever a session is shown.

        Returns:
            The tools, in order.
        """
        return [each for each in self._registry.tools() if self._shows(each)]

    def all_tools(self) -> list[Tool]:
        """List every tool of this view, including those of inactive groups and those held back.

        Returns:
            The tools, in order.
        """
        return [each for each in self._registry.tools() if self._selects_tool(each)]

    def changed_tools(self) -> list[tuple[Tool, str]]:
        """List the tools that differ from the lock, also those that are called nevertheless.

        Returns:
            Each tool, and what differs.
        """
        differing: dict[str, str] = getattr(self.review, "differing", {})
        tools = self.all_tools() if differing else ()
        return [(tool, differing[tool.name]) for tool in tools if tool.name in differing]

    def tools_of(self, function: Callable[..., Any]) -> list[Tool]:
        """Find the tools of this view that run a function, active or not.

        Args:
            function: The function.

        Returns:
            The tools, in order.
        """
        return [tool for tool in self.all_tools() if is_same_function(tool.function, function)]

    def get(self, name: str) -> Tool | None:
        """Find a visible tool.

        Args:
            name: The tool's name, here or as a provider sees it.

        Returns:
            The tool, or None if no visible tool has this name.
        """
        tool = self._registry.find(name)
        return tool if tool is not None and self._shows(tool) else None

    def find_tool(self, name: str) -> Tool | None:
        """Find a tool of this view, in an active group or not.

        Args:
            name: The tool's name, here or as a provider sees it.

        Returns:
            The tool, or None if no tool of this view has this name.
        """
        tool = self._registry.find(name)
        return tool if tool is not None and self._selects_tool(tool) else None

    def use_session_list(self, session_list: SessionList) -> None:
        """List for each session only what it is shown; see `add_search_tools`.

        Args:
            session_list: What says which tools that are.

        Raises:
            ValueError: The toolbox has one already.
        """
        self._registry.use_session_list(session_list)

    @property
    def has_session_lists(self) -> bool:
        """Whether search tools were added, so that each session has a list of its own."""
        return self._registry.session_list is not None

    async def refresh_list(self) -> None:
        """Read from the store which tools other processes have loaded for this view's session.

        Agents and servers do this themselves.
        """
        await self._registry.refresh_list(self._scope.session)

    def watch_lists(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Have a function called after each change of what a session is shown.

        Args:
            told: A function that gets the session.

        Returns:
            A function that ends the watch.
        """
        return self._registry.watch_lists(told)

    def watch(self, told: Callable[[str | None], None]) -> Callable[[], None]:
        """Have a function called after each change of the tools, groups and rules.

        Args:
            told: A function that gets the name of the tool that changed, or None for a change of
                several tools, of groups or of rules. It runs on the thread that makes the change.

        Returns:
            A function that ends the watch.
        """
        return self._registry.watch(told)

    @property
    def review(self) -> Review | None:
        """The check of each tool before it is added, such as against a lock; see `lock=`."""
        return self._registry.review

    @property
    def names(self) -> list[str]:
        """The names of the visible tools, in order."""
        return [tool.name for tool in self]

    def __iter__(self) -> Iterator[Tool]:
        listed = self._registry.list_for(self._scope.session)
        return (tool for tool in listed if self._shows(tool))

    def _repr_html_(self) -> str:
        from wieldy.core.visible_text import html_table  # noqa: PLC0415

        rows = [(t.name, first_line(t.description), t.permission.value) for t in self]
        return html_table(("tool", "description", "permission"), rows)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        # A box without tools is still a box: `box or default` must not replace it.
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tools)"

    def _shows(self, tool: Tool, scope: Scope | None = None) -> bool:
        return self._registry.active(tool) and self._selects_tool(tool, scope)

    def _selects_tool(self, tool: Tool, scope: Scope | None = None) -> bool:
        return self._selection is None or self._selection.shows(tool, scope or self._scope)
