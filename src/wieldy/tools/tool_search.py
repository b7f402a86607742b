"""Tools with which a model finds and loads other tools, for toolboxes with very many."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from wieldy.core.choices import ProviderFormat
from wieldy.core.context import Context
from wieldy.core.discovery.parameter_names import visible_parameters
from wieldy.core.discovery.search_words import split_words
from wieldy.core.discovery.session_listing import (
    LOAD_TOOL,
    SEARCH_TOOL,
    SessionListing,
    listing_of,
)
from wieldy.core.errors import WieldyError
from wieldy.core.names import find_near_names, listed_names, provider_name
from wieldy.core.short_text import first_line
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line
from wieldy.toolbox import Toolbox
from wieldy.view import View
from wieldy.wire.cost import definition_tokens

_MAX_LINE = 160
_MAX_PARAMETERS = 12
_MAX_GUESSES = 10
# How many tools are held against the rules at a time.
_AT_ONCE = 100
_Name = Annotated[str, Field(max_length=500)]
_Names = Annotated[list[_Name], Field(max_length=100)]


def add_search_tools(
    box: Toolbox,
    budget: int = 10_000,
    always: Iterable[str] | str = (),
    *,
    provider: ProviderFormat = "openai",
    sessions: int = 1_000,
) -> list[Tool]:
    """Add tools with which a model finds and loads the others, so that it sees only a few.

    From then on `box.view(session=…)` lists `search_tools`, `load_tools`, the tools of `always`,
    and behind them what the session has loaded. The toolbox itself still lists all. A tool that
    is not loaded can be called by its name, with its permission. With a store, what a session has
    loaded is there in every process and after a restart.

    Args:
        box: The toolbox.
        budget: How many tokens the definitions that a session is shown may take together, as
            `cost` estimates them. Tools that don't fit are refused until others are unloaded.
        always: Names, or patterns such as "files_*", of tools that every session is shown.
        provider: The format in which the tokens are counted.
        sessions: How many sessions are remembered in memory. Without a store, the one that was
            used least recently starts again.

    Returns:
        The tools that were added.

    Raises:
        NameTaken: The toolbox has a tool of one of these names.
        ValueError: The budget is too small for the tools that are always shown, or a number is
            not above 0.

    Example:
        `add_search_tools(box, budget=8_000, always=["web_search"])`
    """
    for name, number in (("budget", budget), ("sessions", sessions)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} is a whole number from 1 up, not {number!r}")
    tools = _SearchTools(box, budget, _Pinned(listed_names(always)), provider, sessions)
    added = [box.add(tools.search, SEARCH_TOOL, read_only=True)]
    try:
        added.append(box.add(tools.load, LOAD_TOOL, read_only=True, idempotent=True))
        tools.check_budget()
        box.use_session_list(tools.listing)
    except (WieldyError, ValueError):
        for tool in added:
            box.remove(tool.name)
        raise
    return added


class _Pinned:
    """The names of the tools that are always shown: the search tools, then those given."""

    def __init__(self, always: Sequence[str]) -> None:
        self._always = (SEARCH_TOOL, LOAD_TOOL, *always)

    def find(self, tools: Mapping[str, Tool]) -> list[str]:
        """Those of the tools, in the order in which they were given."""
        found: list[str] = []
        for pattern in self._always:
            if pattern in tools:
                found.append(pattern)
            elif "*" in pattern or "?" in pattern:
                found += [name for name in tools if fnmatchcase(name, pattern)]
        return found


@dataclass(slots=True)
class _LoadReport:
    """The result for each name, as the model is told."""

    budget: int
    loaded: list[str] = field(default_factory=list)
    already_loaded: list[str] = field(default_factory=list)
    unloaded: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    tokens: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The report without what is empty."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value}


class _SearchTools:
    def __init__(
        self, box: Toolbox, budget: int, pinned: _Pinned, provider: str, sessions: int
    ) -> None:
        self._box = box
        self._budget = budget
        self._pinned = pinned
        self._provider = provider
        keeper = box.store.loaded_tools if box.recorded else None
        self.listing = SessionListing(pinned.find, self._choose_fitting, sessions, keeper)

    def check_budget(self) -> None:
        """Refuse a budget that the tools which are always shown use up."""
        needed = self._sum_tokens(self.listing.arrange_names(self._tools_by_name(), ()))
        if needed > self._budget:
            raise ValueError(
                f"The tools that are always shown take {needed:,} tokens, and the budget is "
                f"{self._budget:,}. Raise it, or name fewer tools in always."
            )

    async def search(
        self,
        query: Annotated[str, Field(max_length=2_000)],
        context: Context,
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> dict[str, Any]:
        """Find tools that are not shown yet, by what they do. Then load those you need.

        Args:
            query: what the tool should do, in a few words, such as "close an issue"
            limit: how many to show
        """
        if not split_words(query):
            raise ValueError(
                "There is nothing to search for. Say in a few words what the tool should do, "
                'such as "close an issue".'
            )
        view = self._box.calling_view()
        found = await _find_tools(view, query, limit)
        if not found:
            return {"tools": [], "hint": "No tool fits. Try other words for what it should do."}
        return {"tools": [_summarize_tool(tool) for tool in found]}

    async def load(
        self, names: _Names, context: Context, unload: _Names | None = None
    ) -> dict[str, Any]:
        """Load tools that search_tools found, so that they can be called from now on.

        Args:
            names: the names of the tools
            unload: names of tools that are not needed any more, to make room for others
        """
        session = listing_of(context.scope)
        if session is None:
            raise ValueError(
                "There is no session to load tools for. Call them by name, or make the calls in "
                'a session: box.view(session="…").'
            )
        view = self._box.calling_view()
        found, refused = await _look_up(view, names)
        # Definitions are worked out before a store's transaction, which others wait for.
        wanted = [tool for tool in found if self._describe(tool, refused)]
        dropped = [name for each in unload or () if (name := self._find_name(view, each))]

        def change(shown: Sequence[str]) -> tuple[Sequence[str], _LoadReport]:
            report = _LoadReport(self._budget, refused=dict(refused))
            return self._load(shown, wanted, dropped, report), report

        return (await self.listing.change(session, change)).to_dict()

    def _load(
        self, shown: Sequence[str], wanted: Sequence[Tool], unload: Sequence[str], told: _LoadReport
    ) -> Sequence[str]:
        """The names that a session is shown after a load; `told` gets what became of each."""
        tools = self._tools_by_name()
        pinned = set(self._pinned.find(tools))
        # A tool that is gone keeps its place, and takes nothing while it is gone.
        whole = list(dict.fromkeys((*shown, *self._pinned.find(tools))))
        dropped = set(unload) & set(whole) - pinned - {tool.name for tool in wanted}
        after = [name for name in whole if name not in dropped]
        told.unloaded = [provider_name(name) for name in whole if name in dropped]
        told.tokens = self._sum_tokens(tools[name] for name in after if name in tools)
        for tool in wanted:
            name = provider_name(tool.name)
            if tool.name in after:
                told.already_loaded.append(name)
            elif (reason := self._find_obstacle(tool, told)) is not None:
                told.refused[name] = reason
            else:
                after.append(tool.name)
                told.loaded.append(name)
        # A session that is shown only what all are shown needs no list.
        return after if told.loaded or told.unloaded else shown

    def _choose_fitting(self, listed: Sequence[Tool], pinned: Collection[str]) -> list[Tool]:
        """The tools that there is room for: definitions may have grown since they were loaded."""
        if len(listed) == len(pinned):
            return list(listed)
        sizes = {tool.name: self._count_tokens(tool) for tool in listed}
        left = self._budget - sum(sizes[name] for name in pinned if name in sizes)
        kept: list[Tool] = []
        for tool in listed:
            loaded = tool.name not in pinned
            if loaded and sizes[tool.name] > left:
                continue
            left -= sizes[tool.name] if loaded else 0
            kept.append(tool)
        return kept

    def _count_tokens(self, tool: Tool) -> int:
        """The tokens of a definition; of one that can't be described, more than there are."""
        return definition_tokens(tool, self._provider) if self._describe(tool, {}) else self._budget

    def _find_name(self, view: View, name: str) -> str | None:
        """The name under which a tool is listed; one that is gone may be unloaded too."""
        tool = view.find_tool(name)
        if tool is None:
            return name if self._box.find_tool(name) is None else None
        return tool.name

    def _describe(self, tool: Tool, refused: dict[str, str]) -> bool:
        """Whether a tool can be described; otherwise the reason is told."""
        try:
            definition_tokens(tool, self._provider)
        except Exception as error:
            # A schema that is computed late is other people's code.
            refused[provider_name(tool.name)] = f"It can't be described: {error!s:.200}"
            return False
        return True

    def _find_obstacle(self, tool: Tool, told: _LoadReport) -> str | None:
        """Why a tool can't be loaded; if it can, its tokens are counted."""
        needed = definition_tokens(tool, self._provider)
        left = self._budget - told.tokens
        if needed > left:
            return (
                f"It takes {needed:,} tokens, and {max(left, 0):,} of {self._budget:,} are left. "
                f"Name tools that you don't need any more in unload, or call it by its name."
            )
        told.tokens += needed
        return None

    def _tools_by_name(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self._box.all_tools()}

    def _sum_tokens(self, tools: Iterable[Tool]) -> int:
        return sum(definition_tokens(tool, self._provider) for tool in tools)


async def _find_tools(view: View, query: str, limit: int) -> list[Tool]:
    """The tools that fit best, without those that the caller could never run."""
    ranked = view.search_all(query)
    found: list[Tool] = []
    while len(found) < limit and (some := list(islice(ranked, _AT_ONCE))):
        others = [tool for tool in some if tool.name not in (SEARCH_TOOL, LOAD_TOOL)]
        found += await view.permitted_tools(others)
    return found[:limit]


async def _look_up(view: View, names: Sequence[str]) -> tuple[list[Tool], dict[str, str]]:
    """The tools of these names that the caller may see, and what to say of the other names."""
    found = {name: view.get(name) for name in names}
    tools = list({tool.name: tool for tool in found.values() if tool is not None}.values())
    permitted = await view.permitted_tools(tools)
    seen = {tool.name for tool in permitted}
    unknown = [name for name, tool in found.items() if tool is None or tool.name not in seen]
    if not unknown:
        return permitted, {}
    others = await view.permitted_tools(view.all_visible())
    visible = [provider_name(tool.name) for tool in others]
    guessed = {name: find_near_names(name, visible) for name in unknown[:_MAX_GUESSES]}
    return permitted, {
        visible_line(name, _MAX_LINE): _tell_unknown(guessed.get(name, ())) for name in unknown
    }


def _tell_unknown(near: Sequence[str]) -> str:
    return "There is no such tool." + (f" Did you mean {' or '.join(near)}?" if near else "")


def _summarize_tool(tool: Tool) -> dict[str, Any]:
    line = visible_line(first_line(tool.description), _MAX_LINE)
    facts = {"name": provider_name(tool.name), "description": line}
    names = visible_parameters(tool)[:_MAX_PARAMETERS]
    return {**facts, "parameters": [visible_line(name, 60) for name in names]} if names else facts
