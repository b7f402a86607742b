"""Read sources into one toolbox: Python, `mcpServers` files, OpenAPI documents and URLs."""

import asyncio
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from wieldy.core.choices import ChangePolicy
from wieldy.core.errors import WieldyError, describe_exception
from wieldy.core.permission.rules import rules_concerning
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line
from wieldy.toolbox import Toolbox
from wieldy.view import View

from . import environment, exits, screen
from .document_kind import kind_of_address, kind_of_file
from .extra_imports import import_extra
from .module import SourceError, load_box

if TYPE_CHECKING:
    from wieldy.agent.served_agent import ServedAgent

_ADDRESSES = ("http://", "https://")
_DOCUMENTS = (".json", ".yaml", ".yml")
_GATEWAY = ".toml"
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that could not be read, or a server or a tool in it."""

    source: str
    error: str
    server: str | None = None
    tool: str | None = None

    def __str__(self) -> str:
        if self.tool is not None:
            return f"{self.source}: {self.server}: {visible_line(self.tool, 80)}: {self.error}"
        named = self.source.partition(":")[0] in self.error
        return self.error if named else f"{self.source}: {self.error}"

    def to_dict(self) -> dict[str, str | None]:
        """The facts, for programs."""
        facts = {"source": self.source, "server": self.server, "error": self.error}
        return facts if self.tool is None else {**facts, "tool": self.tool}


class NothingLoaded(SourceError):
    """No source could be read at all."""

    def __init__(self, failed: Sequence[Failure]) -> None:
        super().__init__("\n".join(map(str, failed)))
        self.failed = list(failed)


class LoadedSources:
    """The tools of one or more sources, the origin of each, and what could not be read."""

    def __init__(self, box: View, made: bool = False) -> None:
        self.box = box
        # Whether the command has made the box, because no source has one.
        self.made = made
        # Every source that was given. One without tools may still bring rules, a store or a lock.
        self.sources: list[str] = []
        self.origins: dict[str, str] = {}
        self.failed: list[Failure] = []
        # Tools that a server lists but that can't be offered.
        self.refused: list[Failure] = []
        self.agents: list[ServedAgent] = []
        # The tools that sources other than agents have, also if an agent uses them too.
        self.given: set[str] = set()
        # Whether the toolbox itself is a source, so that all of its tools are meant.
        self.whole = True
        self._offer: View | None = None

    @property
    def meant(self) -> View:
        """The tools that the sources mean: all except those that agents have for themselves."""
        if self.whole or not self.agents:
            return self.box
        return self.box.view(where=lambda tool, scope: not self._is_for_agents(tool))

    @property
    def offer(self) -> View:
        """The tools that clients of a server see."""
        return self.meant if self._offer is None else self._offer

    @offer.setter
    def offer(self, view: View) -> None:
        self._offer = view

    @property
    def toolbox(self) -> Toolbox:
        """The toolbox, which holds the waiting calls; `SourceError` if the source is a view."""
        if isinstance(self.box, Toolbox):
            return self.box
        raise SourceError(
            "Calls are approved in a toolbox, and this source is a view. Name the toolbox."
        )

    @property
    def kept(self) -> bool:
        """Whether calls are kept in a store."""
        return has_store(self.box)

    def _is_for_agents(self, tool: Tool) -> bool:
        return tool.name not in self.given and any(each.hides(tool) for each in self.agents)

    def note(self, source: str, before: set[str], is_agent: bool = False) -> None:
        """Record this source as the origin of the tools that are new in the box."""
        new = [name for name in self.box.names if name not in before]
        self.origins.update(dict.fromkeys(new, source))
        if not is_agent:
            self.given.update(new)

    def exit_code(self, code: int) -> int:
        """The exit code of a command, given that some sources may have failed."""
        return exits.PARTLY if self.failed and code == exits.OK else code


def has_store(box: View) -> bool:
    """Whether this is a toolbox that keeps its calls in a store."""
    return isinstance(box, Toolbox) and box.recorded


def uses_store(box: View, url: str) -> bool:
    """Whether a toolbox keeps its calls in the store of this address."""
    if not isinstance(box, Toolbox) or not box.recorded:
        return False
    return _whole_address(box.store.address) == _whole_address(url)


def _whole_address(url: str) -> str:
    file = url.removeprefix(_SQLITE)
    return url if file == url else f"{_SQLITE}{Path(file).resolve()}"


def is_python(source: str) -> bool:
    """Whether a source is a Python file or module, by its form."""
    others = (*_DOCUMENTS, _GATEWAY)
    return not source.startswith(_ADDRESSES) and not source.lower().endswith(others)


def is_servers_file(source: str) -> bool:
    """Whether a source is an `mcpServers` file that can be read here."""
    if is_python(source) or source.startswith(_ADDRESSES):
        return False
    try:
        return kind_of_file(Path(source)) == "mcp"
    except SourceError:
        return False


def is_gateway(sources: Sequence[str] | None) -> TypeGuard[Sequence[str]]:
    """Whether the sources are one gateway's file."""
    return sources is not None and len(sources) == 1 and sources[0].lower().endswith(_GATEWAY)


@dataclass(frozen=True, slots=True)
class Own:
    """The options for a toolbox that the command creates because no source has one."""

    store: str | None = None
    lock: str | None = None
    on_change: ChangePolicy | None = None

    def box(self) -> Toolbox:
        """The toolbox."""
        store = self.store or environment.default_store()
        if self.lock is None and self.on_change is not None:
            raise SourceError("--on-change needs a lock. Name the lock file with --lock.")
        return Toolbox(store=store, lock=self.lock, on_change=self.on_change or "block")


@contextmanager
def loaded_tools(
    runner: asyncio.Runner,
    given: list[str] | None,
    own: "Own | None" = None,
    locked: bool = True,
) -> Iterator[LoadedSources]:
    """Load the tools of the sources, and close them on exit.

    Sources that can't be read are reported; if none can be read, `NothingLoaded` is raised.
    Without `locked`, the lock that a gateway's file names holds back nothing.
    """
    named, own = environment.sources(given), own or Own()
    if is_gateway(named):
        if own != Own():
            raise SourceError(f"{named[0]} says itself which store and lock it has.")
        load_file = import_extra("wieldy.cli.live_gateway", "load_file", "server")
        found: LoadedSources = runner.run(load_file(Path(named[0]), locked))
    else:
        found = runner.run(load_sources(named, own))
    try:
        yield found
    finally:
        if isinstance(found.box, Toolbox):
            runner.run(found.box.close())


async def load_sources(
    sources: Sequence[str], own: "Own", base: Toolbox | None = None
) -> LoadedSources:
    """Read the sources, in order, into one box.

    With a `base`, that takes in all tools. Otherwise, if the only source is a Python file, its
    toolbox is used as it is, and of several toolboxes the first takes in the tools of the others.
    """
    failed: list[Failure] = []
    kinds, views, agents = await _read(sources, failed)
    alone = len(kinds) + len(failed) == 1
    found = _begin(views, alone, own, agents) if base is None else LoadedSources(base, made=True)
    found.agents = list(agents.values())
    found.whole = found.box in [view for each, view in views.items() if each not in agents]
    for source, kind in kinds.items():
        if views.get(source) is not found.box and (source in views or kind != "python"):
            before = set(found.box.names)
            try:
                await _take_in(found, source, kind, agents.get(source) or views.get(source))
            except WieldyError as error:
                failed.append(Failure(source, str(error)))
            failed += _failed_servers(source, views.get(source, found.box), failed)
            found.refused += _refused_tools(source, views.get(source, found.box), found.refused)
            found.note(source, before, source in agents)
    unread = {each.source for each in failed if each.server is None}
    if base is None and len(unread) == len(set(sources)):
        if isinstance(found.box, Toolbox):
            # It holds the servers that were tried.
            await found.box.close()
        raise NothingLoaded(failed)
    for source in (source for source, view in views.items() if view is found.box):
        failed += _failed_servers(source, found.box, failed)
        found.refused += _refused_tools(source, found.box, found.refused)
    found.failed = failed
    found.sources = list(dict.fromkeys(sources))
    for each in (*failed, *found.refused):
        screen.fail(each)
    return found


async def _read(
    sources: Sequence[str], failed: list[Failure]
) -> "tuple[dict[str, str], dict[str, View], dict[str, ServedAgent]]":
    """Find the kind of each source, the toolboxes of Python sources, and the agents among them."""
    kinds: dict[str, str] = {}
    views: dict[str, View] = {}
    agents: dict[str, ServedAgent] = {}
    for source in dict.fromkeys(sources):
        try:
            kinds[source] = await _source_kind(source)
            if kinds[source] == "python":
                views[source], served = load_box(source)
                if served is not None:
                    agents[source] = served
        except WieldyError as error:
            failed.append(Failure(source, str(error)))
    return kinds, views, agents


def _begin(
    views: dict[str, View], alone: bool, own: "Own", agents: Container[str]
) -> LoadedSources:
    """The box that takes in the other tools: that of a source, or a new one."""
    if alone and views:
        [box] = views.values()
    else:
        boxes = [view for view in views.values() if isinstance(view, Toolbox)]
        box = boxes[0] if boxes else own.box()
    found = LoadedSources(box)
    found.made = box not in views.values()
    for source in (source for source, view in views.items() if view is box):
        found.note(source, set(), source in agents)
    if own.store is not None and box in views.values() and not uses_store(box, own.store):
        said = "has a store of its own" if found.kept else 'has none, so write Toolbox(store="…")'
        raise SourceError(
            f"--store can't change the store of a toolbox in a Python source. The toolbox {said}."
        )
    if own.lock is not None and box in views.values():
        raise SourceError(
            "--lock can't change the lock of a toolbox in a Python source. "
            'Write Toolbox(lock="…") there.'
        )
    return found


async def _take_in(
    found: LoadedSources, source: str, kind: str, taken: "View | ServedAgent | None"
) -> None:
    box = found.box
    assert isinstance(box, Toolbox)
    if taken is not None:
        if isinstance(taken, View):
            _adopt_tools(found, source, taken)
        else:
            _move_in(found, source, taken)
        return
    try:
        if kind == "openapi":
            await box.add_openapi(source)
        else:
            # The SDK is an extra, and slow to import.
            from wieldy.mcp import pass_to_client  # noqa: PLC0415

            await box.add_mcp(source, on_sample=pass_to_client)
    except (ImportError, WieldyError) as error:
        raise SourceError(str(error)) from error
    except Exception as error:
        # A server or a document can fail in any way; the other sources are still used.
        raise SourceError(describe_exception(error)) from error


def _move_in(found: LoadedSources, source: str, agent: "ServedAgent") -> None:
    """Have an agent called in the box of the other sources."""
    try:
        agent.join(found.toolbox)
    except ValueError:
        advice = (
            "Leave its toolbox and store out: here it has those of the gateway"
            if found.made
            else f"Name {source} first, or give the agent the same toolbox: Agent(…, toolbox=box)"
        )
        other = "the gateway" if found.made else "the first source"
        said = f"{source}: its agent has another toolbox or store than {other}"
        raise SourceError(f"{said}. {advice}.") from None
    # Tools that came with the agent belong to the agent.
    found.whole = False


def _adopt_tools(found: LoadedSources, source: str, view: View) -> None:
    """Add another box's visible tools to this one, each with the rules that apply to it."""
    box = found.toolbox
    if not found.made:
        screen.say(
            f"{source}: these tools run in the first toolbox, under their own rules. The "
            f"permission mode, middleware, approver, limits on calls and store of {source} are "
            "not used.",
            "yellow",
        )
    names: dict[str, str] = {}
    for tool in view:
        _adopt_group(box, view, tool.group)
        added = box.add(tool, on_conflict="rename")
        names[tool.name] = added.name
        found.given.add(added.name)
        if added.name != tool.name:
            screen.say(
                f"{source}: {tool.name} is renamed to {added.name}, because the name is taken.",
                "yellow",
            )
        if isinstance(view, Toolbox):
            _adopt_rules(box, view, tool, added.name)
    _adopt_code_mode(box, names)


def _adopt_code_mode(box: Toolbox, names: dict[str, str]) -> None:
    """Have the programs of code mode make their calls in this box, where others decide on them."""
    # Loaded with the first tools of a box, for the commands that have none.
    from wieldy.tools.code_mode.code_tool import move_code_mode  # noqa: PLC0415

    for name in names.values():
        tool = box.get(name)
        moved = None if tool is None else move_code_mode(tool, box, names)
        if moved is not None:
            box.add(moved, on_conflict="override")


def _adopt_group(box: Toolbox, view: View, name: str) -> None:
    if name not in box.groups:
        group = view.groups.get(name) if isinstance(view, Toolbox) else None
        described = ("", None) if group is None else (group.description, group.notes)
        box.groups.create(name, described[0], active=True, notes=described[1])


def _adopt_rules(box: Toolbox, view: Toolbox, tool: Tool, name: str) -> None:
    # The name becomes a pattern, so wildcards in it have to be escaped.
    exactly = re.sub(r"([*?[])", r"[\1]", name)
    own = [rule.copy_with(pattern=exactly) for rule in rules_concerning(view.rules, tool)]
    box.rules.replace([*box.rules, *own])


async def _source_kind(source: str) -> str:
    """The kind of a source, from its form and, for documents and URLs, from its content."""
    if source.lower().endswith(_GATEWAY):
        raise SourceError(f"{source}: a gateway's file is named alone, without other sources.")
    if is_python(source):
        return "python"
    if source.startswith(_ADDRESSES):
        return await kind_of_address(source)
    return kind_of_file(Path(source))


def _refused_tools(source: str, view: View, known: Sequence[Failure]) -> list[Failure]:
    """The tools in a source that a server lists but that can't be offered."""
    if not isinstance(view, Toolbox):
        return []
    told = {failure.server for failure in known}
    return [
        Failure(source, error, server, tool)
        for server, refused in view.refused_tools.items()
        for tool, error in refused.items()
        if server not in told
    ]


def _failed_servers(source: str, view: View, known: Sequence[Failure]) -> list[Failure]:
    """The servers in a source that could not be read."""
    if not isinstance(view, Toolbox):
        return []
    told = {failure.server for failure in known}
    return [
        Failure(source, str(error), name)
        for name, error in view.server_errors.items()
        if name not in told
    ]
