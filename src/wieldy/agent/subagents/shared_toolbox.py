"""The toolbox of an agent, which it may come to share with the agents that it works with."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from wieldy.core.permission.rules import Rule
from wieldy.core.schema.signature import is_same_function
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox
from wieldy.view import View

_SQLITE = "sqlite:///"


class Housed(Protocol):
    """An agent, as far as its toolbox is concerned."""

    id: str
    name: str
    _home: "AgentHome"

    @property
    def tag(self) -> str:
        """The tag of this agent's tools."""


class AgentHome:
    """A toolbox, and the agents that have their tools in it.

    Attributes:
        box: The toolbox.
        owner: The id of the agent that made the toolbox, and closes it; None if it was given.
        members: The agents.
    """

    __slots__ = ("__weakref__", "_views", "box", "members", "owner")

    def __init__(self, box: Toolbox, agent: Any, owned: bool) -> None:
        self.box = box
        self.owner: str | None = agent.id if owned else None
        # The agents hold their home, and a home that held them would keep the toolbox alive.
        self.members: WeakSet[Any] = WeakSet([agent])
        self._views: dict[str, View] = {}

    def find_view(self, name: str, tag: str) -> View:
        """The tools of the agent of this name; a view is live, so that one serves all requests."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self.box.view(tags=tag, agent=name)
        return view


def share_toolbox(outer: Housed, inner: Housed) -> None:
    """Let an agent and one that it calls have one toolbox, so that one place knows all calls.

    Whichever of the two has a toolbox of its own making moves; those that share it move with it.

    Raises:
        ValueError: Both were given toolboxes, or they have different stores.
    """
    here, there = outer._home, inner._home
    if here is there or here.box is there.box:
        return
    if there.owner is not None and _can_move(there.box, here.box):
        _move_in(there, here)
    elif here.owner is not None and _can_move(here.box, there.box):
        _move_in(here, there)
        # A program closes the agent that it asks.
        there.owner = there.owner and outer.id
    else:
        raise ValueError(
            f"The agents {outer.name!r} and {inner.name!r} have different toolboxes or stores, and "
            "one of them calls the other. Give both the same: "
            "box = Toolbox(store=…), Agent(…, toolbox=box)."
        )


def join_toolbox(agent: Housed, box: Toolbox) -> None:
    """Let an agent have its tools in a toolbox that was given.

    Raises:
        ValueError: The agent was given another, or has another store.
    """
    home = agent._home
    if home.box is box:
        return
    if home.owner is None or not _can_move(home.box, box):
        raise ValueError(
            f"The agent {agent.name!r} has another toolbox or store than the tool that calls it. "
            "Give both the same: Agent(…, toolbox=box)."
        )
    _move_in(home, AgentHome(box, agent, False))


def own_tool_name(agent: str, tool: str) -> str:
    """The name of an agent's tool in a toolbox where another agent's has the name already."""
    return f"{agent}__{tool}"


def _can_move(box: Toolbox, to: Toolbox) -> bool:
    """Whether the tools of a box are as good in another: no store and no mode is left behind."""
    if box.permission_mode != "ask":
        return False
    return not box.recorded or (to.recorded and _name_store(box) == _name_store(to))


def _name_store(box: Toolbox) -> str:
    """The address of a store, with the path of a file as it is found from any folder."""
    address = box.store.address
    file = address.removeprefix(_SQLITE)
    return address if file == address else str(Path(file).absolute())


def _move_in(home: AgentHome, new: AgentHome) -> None:
    agents, box = list(home.members), home.box
    for group in box.groups:
        if group.name not in new.box.groups:
            new.box.groups.create(
                group.name, group.description, active=group.active, notes=group.notes
            )
    for tool in box.all_tools():
        _move_tool(tool, new.box, agents)
    new.box.rules.replace([*new.box.rules, *_rules_for(agents, box.rules)])
    new.box.close_with(_FormerBox(box))
    for agent in agents:
        agent._home = new
        new.members.add(agent)


def _move_tool(tool: Tool, box: Toolbox, agents: Iterable[Housed]) -> None:
    present = box.get(tool.name)
    if present is None:
        box.add(tool)
    elif is_same_function(present.function, tool.function):
        shared = present.replace(tags=(*present.tags, *tool.tags))
        box.add(shared, on_conflict="override")
    else:
        users = [agent.name for agent in agents if agent.tag in tool.tags]
        name = own_tool_name(users[0] if users else next(iter(agents)).name, tool.name)
        box.add(tool.replace(name=name, original_names=(*tool.original_names, tool.name)))


def _rules_for(agents: Iterable[Housed], rules: Iterable[Rule]) -> list[Rule]:
    """The rules of a toolbox, for the agents in it and nobody else."""
    names = [agent.name for agent in agents]
    return [
        rule if rule.agent is not None else rule.copy_with(agent=name)
        for rule in rules
        for name in (names if rule.agent is None else names[:1])
    ]


class _FormerBox:
    """A toolbox that nobody uses any more, except for its connections; closed with the new one."""

    kind = None
    # If the new toolbox is dropped, this one is dropped too, and releases what it holds itself.
    held = False

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    async def close(self) -> None:
        await self._box.close()
