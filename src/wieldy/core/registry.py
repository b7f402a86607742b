"""The tools and groups of one toolbox, in the order in which they were added."""

import inspect
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, get_args

from .call import Scope
from .choices import ConflictPolicy
from .errors import DefinitionError, NameTaken, ToolNotFound
from .names import find_near_names, listed_names, provider_name
from .tool import Review, Tool

BASIC = "basic"
CONFLICTS = get_args(ConflictPolicy)
# Whether a tool is shown to whoever has a scope.
Predicate = Callable[[Tool, Scope], bool]
_log = logging.getLogger("wieldy")


class SessionList(Protocol):
    """The choice of tools that a session is shown, if it is not shown all."""

    def arrange(self, tools: Mapping[str, Tool], session: str) -> list[Tool]:
        """Those of the tools that the session is shown, in its order."""

    async def refresh(self, session: str) -> None:
        """Read what other processes have loaded for the session."""

    def watch(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Have a function called with each session whose list changes."""


@dataclass(repr=False)
class Group:
    """A named set of tools that is switched on and off together.

    A change of a toolbox's group takes effect at once, and the watchers of the toolbox are
    told. A copy is a plain record.
    """

    name: str
    active: bool
    description: str
    notes: str | None = None
    # Called after each change. It is typed as Any, because a function would become a method.
    _changed: ClassVar[Any] = None

    def keep(self, changed: Callable[[], None] | None) -> None:
        """Have a function called after each change; None ends that."""
        self.__dict__["_changed"] = changed

    def switch(self, active: bool) -> None:
        """Switch the group on or off without telling the watchers."""
        self.__dict__["active"] = active

    def __setattr__(self, fact: str, value: Any) -> None:
        if self._changed is not None and (fact == "name" or self.name == BASIC):
            raise AttributeError(f"The {fact} of the group {self.name!r} can't be changed.")
        super().__setattr__(fact, value)
        if self._changed is not None:
            self._changed()

    def __reduce__(self) -> tuple[Any, ...]:
        return Group, (self.name, self.active, self.description, self.notes)

    def __repr__(self) -> str:
        return f"Group({self.name!r}, {'active' if self.active else 'inactive'})"


class Registry:
    """The tools by name. Readers see a consistent order; writers take turns.

    A review, if there is one, sees each tool before anybody else does.
    """

    def __init__(self, review: Review | None = None) -> None:
        self.review = review
        self._tools: dict[str, Tool] = {}
        self._shown: dict[str, str] = {}
        self._groups = {BASIC: Group(BASIC, True, "Always available.")}
        self._groups[BASIC].keep(self._tell_many)
        self._lock = threading.RLock()
        self._watchers: list[Callable[[str | None], None]] = []
        self.session_list: SessionList | None = None
        self._list_watchers: list[Callable[[str], None]] = []

    def watch(self, told: Callable[[str | None], None]) -> Callable[[], None]:
        """Have a function called after each change, with the tool's name or, for more, with None.

        Returns a function that ends the watch.
        """
        self._watchers.append(told)
        return lambda: self._watchers.remove(told)

    def use_session_list(self, session_list: SessionList) -> None:
        """List for each session what it is shown; `ValueError` if that is done already."""
        if self.session_list is not None:
            raise ValueError("This toolbox has search tools already.")
        self.session_list = session_list
        session_list.watch(self._tell_list)

    def watch_lists(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Have a function called with each session whose list changes.

        Returns a function that ends the watch.
        """
        self._list_watchers.append(told)
        return lambda: self._list_watchers.remove(told)

    def announce(self) -> None:
        """Tell the watchers of another change, such as a new rule."""
        self._tell_watchers(None)

    def add(self, tool: Tool, on_conflict: str = "raise") -> Tool:
        """Register a tool; returns the tool that now has the name."""
        if on_conflict not in CONFLICTS:
            raise DefinitionError(tool.name, f"on_conflict must be one of {', '.join(CONFLICTS)}")
        with self._lock:
            if tool.group not in self._groups:
                raise DefinitionError(
                    tool.name,
                    f"there is no group {tool.group!r}. "
                    f"Create it first: box.groups.create({tool.group!r}, …)",
                )
            holder = self._find_holder(tool.name)
            if holder is not None:
                if on_conflict == "skip":
                    return self._tools[holder]
                if on_conflict == "raise":
                    raise NameTaken(tool.name, holder)
                if on_conflict == "rename":
                    tool = self._rename_tool(tool)
                if on_conflict == "override":
                    tool.know_like(self._tools[holder])
            tool = self._review_tool(tool)
            if on_conflict == "override" and holder not in (None, tool.name):
                self._drop_tool(holder)
            self._tools[tool.name] = tool
            self._shown[provider_name(tool.name)] = tool.name
        self._tell_watchers(tool.name)
        return tool

    def add_all(self, tools: Iterable[Tool], on_conflict: str = "raise") -> list[Tool]:
        """Register all of these tools, or none if one can't be registered."""
        added: list[Tool] = []
        with self._lock:
            try:
                added.extend(self.add(tool, on_conflict) for tool in tools)
            except DefinitionError:
                for tool in added:
                    self.remove(tool.name)
                raise
        return added

    def remove(self, name: str) -> Tool:
        """Take a tool out; `ToolNotFound` if it is not here."""
        with self._lock:
            tool = self.find(name)
            if tool is None:
                raise ToolNotFound(name, find_near_names(name, self._tools))
            self._drop_tool(tool.name)
        self._tell_watchers(tool.name)
        return tool

    def find(self, name: str) -> Tool | None:
        """The tool of this name, or of this name as a provider sees it."""
        tool = self._tools.get(name)
        if tool is None:
            tool = self._tools.get(self._shown.get(name, ""))
        return tool

    def find_unchanged(self, name: str, fingerprint: str | None) -> Tool | None:
        """The tool of this name if it can be called and is defined as it was, else None."""
        tool = self.find(name)
        if tool is None or not self.active(tool) or tool.fingerprint != fingerprint:
            return None
        return tool

    def active(self, tool: Tool) -> bool:
        """Whether the tool's group is switched on, and nothing holds the tool back."""
        group = self._groups.get(tool.group)
        offered = tool.hold is None or tool.hold.asks
        return offered and group is not None and group.active

    def names(self) -> list[str]:
        """All names, in order."""
        return list(self._tools)

    def tools(self) -> list[Tool]:
        """All tools, in order, active or not."""
        return list(self._tools.values())

    def list_for(self, session: str | None) -> list[Tool]:
        """The tools that a session is shown, in its order; without a session all tools."""
        if self.session_list is None or session is None:
            return self.tools()
        return self.session_list.arrange(self._tools.copy(), session)

    async def refresh_list(self, session: str | None) -> list[Tool]:
        """The same, with what other processes have loaded for the session."""
        if self.session_list is not None and session is not None:
            await self.session_list.refresh(session)
        return self.list_for(session)

    def group(self, name: str) -> Group | None:
        """The group of this name."""
        return self._groups.get(name)

    def groups(self) -> list[Group]:
        """All groups, in order."""
        return list(self._groups.values())

    def add_group(self, group: Group) -> None:
        """Register a group; `ValueError` if the name is taken."""
        with self._lock:
            if group.name in self._groups:
                raise ValueError(f"There is a group {group.name!r} already.")
            self._groups[group.name] = group
            group.keep(self._tell_many)
        self._tell_watchers(None)

    def switch(self, name: str, active: bool) -> None:
        """Switch a group on or off."""
        with self._lock:
            self._known_group(name).switch(active)
        self._tell_watchers(None)

    def switch_to(self, active: Collection[str]) -> None:
        """Switch these groups on and all others off; `ValueError` if one is not here."""
        with self._lock:
            for name in active:
                self._known_group(name)
            for group in self._groups.values():
                group.switch(group.name == BASIC or group.name in active)
        self._tell_watchers(None)

    def remove_group(self, name: str) -> None:
        """Take a group out, and its tools with it."""
        with self._lock:
            self._known_group(name).keep(None)
            del self._groups[name]
            gone = [tool.name for tool in self._tools.values() if tool.group == name]
            for tool in gone:
                self._drop_tool(tool)
        for tool in gone:
            self._tell_watchers(tool)
        self._tell_watchers(None)

    def _review_tool(self, tool: Tool) -> Tool:
        if self.review is None:
            return tool
        hold = self.review(tool)
        return tool if hold is None and tool.hold is None else tool.replace(hold=hold)

    def _known_group(self, name: str) -> Group:
        if name == BASIC:
            raise ValueError("The group 'basic' is always there and always active.")
        group = self._groups.get(name)
        if group is None:
            known = ", ".join(map(repr, self._groups))
            raise ValueError(f"There is no group {name!r}; there are {known}.")
        return group

    def _find_holder(self, name: str) -> str | None:
        if name in self._tools:
            return name
        return self._shown.get(provider_name(name)) or self._shown.get(name)

    def _rename_tool(self, tool: Tool) -> Tool:
        """The tool under a free name; rules against its original name still hold."""
        known = (*tool.original_names, tool.name)
        return tool.replace(name=self._free_name(tool.name), original_names=known)

    def _free_name(self, name: str) -> str:
        number = 2
        while self._find_holder(f"{name}_{number}") is not None:
            number += 1
        return f"{name}_{number}"

    def _drop_tool(self, name: str) -> None:
        del self._tools[name]
        self._shown.pop(provider_name(name), None)

    def _tell_list(self, session: str) -> None:
        for told in tuple(self._list_watchers):
            told(session)

    def _tell_many(self) -> None:
        self._tell_watchers(None)

    def _tell_watchers(self, name: str | None) -> None:
        for told in tuple(self._watchers):
            told(name)


class Groups:
    """The groups of a toolbox, as its users see them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def create(
        self, name: str, description: str = "", *, active: bool = False, notes: str | None = None
    ) -> Group:
        """Make a group.

        Args:
            name: The group's name.
            description: What its tools are for.
            active: Whether its tools can be called from the start.
            notes: Text that tells a model how to use the tools.

        Returns:
            The group.

        Raises:
            ValueError: The name is empty, or another group has it.

        Example:
            `box.groups.create("files", "Read and write files.", active=True)`
        """
        if not isinstance(name, str) or not name:
            raise ValueError("A group needs a name.")
        group = Group(name, active, description, notes)
        self._registry.add_group(group)
        return group

    def activate(self, *names: str) -> None:
        """Switch groups on: their tools are described and can be called."""
        for name in names:
            self._registry.switch(name, True)

    def deactivate(self, *names: str) -> None:
        """Switch groups off."""
        for name in names:
            self._registry.switch(name, False)

    def activate_only(self, *names: str) -> None:
        """Switch these groups on and all others off, at once."""
        self._registry.switch_to(names)

    def remove(self, *names: str) -> None:
        """Take groups out, and their tools with them."""
        for name in names:
            self._registry.remove_group(name)

    def get(self, name: str) -> Group | None:
        """The group of this name, or None."""
        return self._registry.group(name)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._registry.groups())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._registry.group(name) is not None


class Selection:
    """A filter. Within one criterion one match is enough; each further criterion narrows.

    `where` is asked for each tool and scope. A tool that it fails on is not shown.
    """

    __slots__ = ("_above", "_failed", "_where", "groups", "names", "tags")

    def __init__(
        self,
        names: Iterable[str] | str | None = None,
        tags: Iterable[str] | str | None = None,
        groups: Iterable[str] | str | None = None,
        where: "Predicate | None" = None,
        above: "Selection | None" = None,
    ) -> None:
        if where is not None and not callable(where):
            raise TypeError(f"where is a function of (tool, scope), not {where!r}")
        self._where = where
        self._failed = False
        self.names = _name_set(names)
        self.tags = _name_set(tags)
        self.groups = _name_set(groups)
        self._above = above

    def shows(self, tool: Tool, scope: Scope) -> bool:
        """Whether the tool is among those selected, for whoever has this scope."""
        if self.names is not None and self.names.isdisjoint((tool.name, provider_name(tool.name))):
            return False
        if self.tags is not None and self.tags.isdisjoint(tool.tags):
            return False
        if self.groups is not None and tool.group not in self.groups:
            return False
        if self._above is not None and not self._above.shows(tool, scope):
            return False
        return self._where is None or self._predicate_agrees(self._where, tool, scope)

    def _predicate_agrees(self, where: "Predicate", tool: Tool, scope: Scope) -> bool:
        try:
            agreed = where(tool, scope)
            if inspect.iscoroutine(agreed):
                agreed.close()
                raise TypeError("where must answer at once: it can't be async")
            return bool(agreed)
        except Exception:
            # Other people's code. What nobody can say to be visible is not shown.
            if not self._failed:
                self._failed = True
                _log.exception("The predicate of a view failed on %r, which is hidden", tool)
            return False


def _name_set(criterion: Iterable[str] | str | None) -> frozenset[str] | None:
    return None if criterion is None else frozenset(listed_names(criterion))
