"""Keep the tools of one server in a toolbox in step with the server's list."""

import logging
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypedDict

import mcp_types as types

from wieldy.core.errors import DefinitionError, NameTaken
from wieldy.core.limits.limits import Limits
from wieldy.core.registry import Registry
from wieldy.core.schema.result_check import compile_schema
from wieldy.core.tool import Permission, Tool

from .server_source import Headers
from .tool_proxy import Asks, Proxy

# Tags for all tools, or a function from a tool's definition in MCP's JSON shape to its tags.
Tags = tuple[str, ...] | Callable[[Mapping[str, Any]], Iterable[str]]
# A server that hangs must not block its caller for ever.
DEFAULT_LIMITS = Limits(timeout=300)
# The characters that providers accept in names, and a length that leaves room for a prefix.
PREFIX = re.compile(r"[A-Za-z0-9_-]{1,40}")
_log = logging.getLogger("wieldy.mcp")


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which a server's tools are added to a toolbox."""

    tags: Tags = ()
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS
    trusted: bool = False
    permission: Permission | None = None
    headers: Headers | None = None
    # The treatment of a name that is taken; by default the server's name is put before it.
    on_conflict: str | None = None
    # Whether results are checked against the output schemas.
    check_output: bool = True
    # The prefix of the server's names here.
    prefix: str = ""

    def admits(self, name: str) -> bool:
        """Whether a tool with this name may be added."""
        allowed = self.allow is None or _any_matches(self.allow, name)
        return allowed and not _any_matches(self.deny, name)

    def tags_of(self, definition: types.Tool) -> Iterable[str]:
        """The tags of a tool. A server's own tags are used only if the user's function says so."""
        if not callable(self.tags):
            return self.tags
        return self.tags(definition.model_dump(by_alias=True, mode="json", exclude_none=True))


class _Traits(TypedDict):
    """The traits of a tool; None if unknown."""

    read_only: bool | None
    idempotent: bool | None
    destructive: bool | None
    open_world: bool | None


class Shelf:
    """Keeps a registry in step with a server's list of tools. It is safe to use from any thread.

    A tool keeps the name that it got first. A tool that the user has removed or replaced in the
    toolbox is left alone.
    """

    def __init__(self, server: str, asks: Asks, registry: Registry, terms: Terms) -> None:
        self._server = server
        self._asks = asks
        # A weak reference, so that the connection's thread does not keep a dropped toolbox alive.
        self._home = weakref.ref(registry)
        self._terms = terms
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[types.Tool, Tool]] = {}
        self._open = True
        # The reasons why listed tools are not in the toolbox, by the server's names.
        self.refused: dict[str, str] = {}

    @property
    def _require_registry(self) -> Registry:
        registry = self._home()
        if registry is None:
            raise LookupError("the toolbox is gone")
        return registry

    @property
    def tools(self) -> list[Tool]:
        """The server's tools that are in the toolbox now."""
        found = (self._current_tool(tool) for _, tool in self._kept.values())
        return [tool for tool in found if tool is not None]

    def find_meta(self) -> dict[str, dict[str, Any]]:
        """The `_meta` of definitions, by the name of the tool in the toolbox.

        A tool that somebody else has put in the place of the server's is not the server's.
        """
        kept = list(self._kept.values())
        return {
            tool.name: dict(definition.meta)
            for definition, tool in kept
            if definition.meta and self._current_tool(tool) is not None
        }

    def fill(self, listed: Sequence[types.Tool]) -> None:
        """Apply the server's current list."""
        with self._lock:
            if self._open and self._home() is not None:
                self._put_tools(listed)

    def take_out_all(self) -> Callable[[], None]:
        """Remove all tools for a moment; gives what puts them back, under names anew."""
        with self._lock:
            before = [definition for definition, _ in self._kept.values()]
            for name in list(self._kept):
                self._take_out(name)

        def put_back() -> None:
            with self._lock:
                for definition in before if self._open else ():
                    if definition.name not in self._kept:
                        self._place_tool(definition)

        return put_back

    def clear(self) -> None:
        """Remove all tools permanently."""
        with self._lock:
            self._open = False
            for name in list(self._kept) if self._home() is not None else ():
                self._take_out(name)

    def _put_tools(self, listed: Sequence[types.Tool]) -> None:
        wanted: dict[str, types.Tool] = {}
        for each in listed:
            if not self._terms.admits(each.name):
                continue
            if each.name in wanted:
                _log.warning("%s lists %r twice; the first counts", self._server, each.name)
                continue
            wanted[each.name] = each
        for name in [name for name in self._kept if name not in wanted]:
            self._take_out(name)
        before, self.refused = self.refused, {}
        for each in wanted.values():
            try:
                self._place_tool(each)
            except DefinitionError as error:
                self._refuse_tool(each.name, error, before)
        self._tell_missing(wanted)

    def _place_tool(self, definition: types.Tool) -> None:
        known = self._kept.get(definition.name)
        if known is not None and known[0] == definition:
            return
        made = self._make_tool(definition)
        if known is None:
            added = self._add_tool(made)
            # If another tool keeps the name, this tool has not been added.
            if added.function is made.function:
                self._kept[definition.name] = (definition, added)
        elif self._current_tool(known[1]) is known[1]:
            renamed = made.replace(name=known[1].name)
            self._kept[definition.name] = (
                definition,
                self._require_registry.add(renamed, "override"),
            )

    def _refuse_tool(self, name: str, error: DefinitionError, before: Mapping[str, str]) -> None:
        """Leave out a tool that can't be offered, and remove it if it was offered before."""
        self.refused[name] = error.reason
        if before.get(name) != error.reason:
            _log.warning("%s: a tool can't be offered: %s", self._server, error)
        if name in self._kept:
            self._take_out(name)

    def _add_tool(self, tool: Tool) -> Tool:
        if self._terms.on_conflict is not None:
            return self._require_registry.add(tool, self._terms.on_conflict)
        try:
            return self._require_registry.add(tool)
        except NameTaken:
            return self._require_registry.add(
                tool.replace(name=f"{self._server}__{tool.name}"), "rename"
            )

    def _make_tool(self, definition: types.Tool) -> Tool:
        said = definition.annotations or types.ToolAnnotations()
        traits = _read_traits(said, self._terms.trusted)
        safe = bool(traits["read_only"] or traits["idempotent"])
        if not definition.name:
            raise DefinitionError("", "it has no name")
        output = self._output_schema(definition)
        proxy = Proxy(self._asks, definition.name, safe, output, self._terms.headers)
        limits = self._terms.limits
        made = Tool(
            proxy.function(),
            name=f"{self._terms.prefix}{definition.name}",
            original_names=(definition.name,),
            description=definition.description or definition.title or said.title or "",
            tags=self._terms.tags_of(definition),
            permission=self._terms.permission,
            # Only results of read-only tools may be cached.
            limits=limits if traits["read_only"] else replace(limits, cache=None),
            input_schema=definition.input_schema,
            output_schema=output,
            **traits,
            trusted=self._terms.trusted,
            cautious=True,
            hints=said.model_dump(by_alias=True, mode="json", exclude_none=True),
            check_output=self._terms.check_output,
            source=f"mcp:{self._server}",
        )
        try:
            compile_schema(definition.input_schema)
        except ValueError as error:
            reason = f"its input schema can't be used: {error}"
            raise DefinitionError(definition.name, reason) from error
        return made

    def _output_schema(self, definition: types.Tool) -> dict[str, Any] | None:
        schema = definition.output_schema
        if schema is None:
            return None
        try:
            compile_schema(schema)
        except ValueError as error:
            # An output schema that can't be checked is not promised to clients.
            _log.warning("%s: the output schema of %r: %s", self._server, definition.name, error)
            return None
        return schema

    def _take_out(self, name: str) -> None:
        _, tool = self._kept.pop(name)
        if self._current_tool(tool) is not None:
            self._require_registry.remove(tool.name)

    def _current_tool(self, tool: Tool) -> Tool | None:
        """The tool's current version in the toolbox, which may have other tags."""
        found = self._require_registry.find(tool.name)
        return found if found is not None and found.function is tool.function else None

    def _tell_missing(self, wanted: Iterable[str]) -> None:
        listed = set(wanted)
        for name in self._terms.allow or ():
            if name not in listed and not any(mark in name for mark in "*?["):
                _log.warning("%s has no tool %r, which is on the allow list", self._server, name)


def _read_traits(said: types.ToolAnnotations, trusted: bool) -> _Traits:
    """The traits of a tool according to its server's annotations.

    Any server can make a tool more restricted; only a trusted server can make it less. A missing
    annotation counts as the protocol's default, which is the more restricted one. A tool that
    is both read-only and destructive counts as destructive.
    """
    destructive = said.destructive_hint
    if not trusted:
        return {
            "read_only": None,
            "idempotent": None,
            "destructive": destructive or None,
            "open_world": None,
        }
    read_only = None if said.read_only_hint and destructive else said.read_only_hint
    return {
        "read_only": read_only,
        "idempotent": said.idempotent_hint,
        "destructive": destructive,
        "open_world": said.open_world_hint,
    }


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
