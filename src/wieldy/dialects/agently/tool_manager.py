"""Agently's ToolManager: functions by name and tag, with errors returned as text."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from wieldy.agent.mcp_transport import declared_tags, transport_source
from wieldy.agent.outcome_words import tell_outcome, tool_info
from wieldy.agent.output.data_formatter import DataFormatter
from wieldy.agent.output.kwargs_schema import kwargs_schema
from wieldy.core.arguments.private_copy import private_copy
from wieldy.core.arguments.read_only import ReadOnlyDict, make_read_only
from wieldy.core.call import Outcome
from wieldy.core.names import listed_names
from wieldy.core.schema.annotations import signature_of, written_annotations
from wieldy.core.schema.signature import bound_keywords, type_hints, unwrap_partial
from wieldy.core.sync import blocking_border
from wieldy.core.tool import Tool, own_name
from wieldy.toolbox import Toolbox, own_box

from .shifter import FunctionShifter

P = ParamSpec("P")
R = TypeVar("R")
Info = dict[str, Any]
Names = str | Iterable[str]
_SOURCE = "agently"


class AgentlyToolManager:
    """Registers functions, finds them by tag and calls them by name.

    `kwargs` tell the model what to send: `{name: (type, description)}`. They are
    not enforced; the function gets what was sent.
    """

    def __init__(self, toolbox: Toolbox | None = None) -> None:
        self.toolbox = own_box() if toolbox is None else toolbox
        # Each tool as it was registered here, which shows whether its name was taken over since.
        self._known: dict[str, tuple[Tool, Info]] = {}

    @property
    def tool_funcs(self) -> dict[str, Callable[..., Any]]:
        """Name to function, to be read."""
        funcs = {tool.name: self._function_of(tool) for tool in self.toolbox}
        return ReadOnlyDict(funcs)

    @property
    def tool_info(self) -> dict[str, Info]:
        """Name to `{name, desc, kwargs, returns?}`, to be read; `get_tool_info` gives a copy."""
        infos: dict[str, Info] = make_read_only(self.get_tool_info())
        return infos

    @property
    def tag_mappings(self) -> dict[str, set[str]]:
        """Tag to the names of its tools, to be read."""
        mappings: dict[str, set[str]] = {}
        for tool in self.toolbox:
            for tag in tool.tags:
                mappings.setdefault(tag, set()).add(tool.name)
        read_only: dict[str, set[str]] = make_read_only(mappings)
        return read_only

    def register(
        self,
        name: str,
        desc: str | None,
        kwargs: Mapping[str, Any] | None,
        func: Callable[..., Any],
        returns: Any = None,
        tags: Names | None = None,
    ) -> None:
        """Register a function. It replaces a tool of the same name and keeps that tool's tags."""
        if not isinstance(name, str) or not name:
            raise ValueError(f"a tool needs a name, not {name!r}")
        info: Info = {"name": name, "desc": desc or "", "kwargs": dict(kwargs or {})}
        if returns is not None:
            info["returns"] = returns
        tool = Tool(
            func,
            name=name,
            description=info["desc"],
            input_schema=kwargs_schema(info["kwargs"], func),
            tags=(*known_tags(self.toolbox, name), *listed_names(tags)),
            validation="describe",
            source=_SOURCE,
        )
        self._known[name] = (self.toolbox.add(tool, on_conflict="override"), info)

    def tag(self, tool_names: Names, tags: Names) -> None:
        """Add tags to registered tools; an unknown name raises `RuntimeError`."""
        found = [(name, self.toolbox.get(name)) for name in listed_names(tool_names)]
        for name, tool in found:
            if tool is None:
                raise RuntimeError(f"Can not find tool named '{name}'")
        for _, tool in found:
            assert tool is not None
            tagged = tool.replace(tags=(*tool.tags, *listed_names(tags)))
            self.toolbox.add(tagged, on_conflict="override")
            if self._is_known(tool):
                self._known[tool.name] = (tagged, self._known[tool.name][1])

    def tool_func(self, func: Callable[P, R]) -> Callable[P, R]:
        """Register a function described by its signature, as a decorator that returns it as is."""
        name, inner = _name_and_inner(func)
        hints = _type_hints(name, inner if hasattr(inner, "__name__") else type(inner).__call__)
        returns = None
        if "return" in hints:
            returns = DataFormatter.sanitize(hints["return"], remain_type=True)
        desc = inspect.getdoc(inner) or name
        self.register(name, desc, _kwargs_of(func, hints), func, returns)
        return func

    def get_tool_info(self, tags: Names | None = None) -> dict[str, Info]:
        """The information about all tools, or about those with any of the tags."""
        wanted = None if tags is None else set(listed_names(tags))
        return {
            tool.name: self._info_of(tool)
            for tool in self.toolbox
            if wanted is None or wanted.intersection(tool.tags)
        }

    def get_tool_list(self, tags: Names | None = None) -> list[Info]:
        """The same as a list."""
        return list(self.get_tool_info(tags).values())

    def get_tool_func(
        self, name: str, shift: Literal["sync", "async"] | None = None
    ) -> Callable[..., Any] | None:
        """The tool's own function, or a form of it for blocking or async code; None if missing.

        Calling it is a plain function call. Rules, approvals, limits and the ledger apply only
        to `call_tool` and `async_call_tool`. A tool of an MCP server always goes through them.
        """
        if shift not in (None, "sync", "async"):
            raise ValueError(f"shift must be 'sync', 'async' or None, not {shift!r}")
        tool = self.toolbox.get(name)
        if tool is None:
            return None
        function = self._function_of(tool)
        if shift == "sync":
            return FunctionShifter.syncify(function)
        return FunctionShifter.asyncify(function) if shift == "async" else function

    def call_tool(self, name: str, kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call a tool. A missing tool or an exception gives a string; nothing is raised."""
        return self._tell_result(self.toolbox.call_sync(name, kwargs))

    async def async_call_tool(self, name: str, kwargs: Mapping[str, Any] | None = None) -> Any:
        """The same without blocking the event loop."""
        return self._tell_result(await self.toolbox.call(name, kwargs))

    async def async_use_mcp(self, transport: Any, tags: Names | None = None) -> None:
        """Register the tools of an MCP server, with the server's tags and the given ones.

        A tool that replaces another one of the same name also gets that tool's tags.
        """
        given = listed_names(tags)
        servers = self.toolbox.mcp
        before = [server for server in servers.values() if server.tools]
        await self.toolbox.add_mcp(
            transport_source(transport),
            tags=lambda definition: [
                *known_tags(self.toolbox, definition["name"]),
                *declared_tags(definition),
                *given,
            ],
            on_conflict="override",
            # Agently has no approvals.
            permission="auto",
        )
        for server in before:
            # A server without tools has been replaced, for example by using it again.
            if not server.tools and servers.get(server.name) is server:
                await self.toolbox.remove_mcp(server.name)

    def use_mcp(self, transport: Any, tags: Names | None = None) -> None:
        """The same from blocking code."""
        blocking_border().wait(lambda home: self.async_use_mcp(transport, tags))

    def _tell_result(self, outcome: Outcome) -> Any:
        return tell_outcome(outcome, self.toolbox.get(outcome.call.tool))

    def _is_known(self, tool: Tool) -> bool:
        known = self._known.get(tool.name)
        return known is not None and known[0] is tool

    def _info_of(self, tool: Tool) -> Info:
        """The information that was registered here, or for any other tool that of its schema."""
        if self._is_known(tool):
            info: Info = private_copy(self._known[tool.name][1])
            return info
        return tool_info(tool)

    def _function_of(self, tool: Tool) -> Callable[..., Any]:
        if not tool.source.startswith("mcp"):
            return tool.function
        return functools.partial(_call_remote, self, tool.name)


def known_tags(toolbox: Toolbox, name: str) -> tuple[str, ...]:
    """The tags of the tool that has this name now, if there is one."""
    tool = toolbox.find_tool(name)
    return () if tool is None else tool.tags


async def _call_remote(tools: AgentlyToolManager, name: str, /, **kwargs: Any) -> Any:
    return await tools.async_call_tool(name, kwargs)


def _name_and_inner(func: Any) -> tuple[str, Any]:
    """The function's name, and the object that has its docstring."""
    inner = unwrap_partial(func)[0]
    if not callable(inner):
        raise TypeError(f"a function is needed, not {type(func).__name__}")
    return own_name(inner), inner


def _type_hints(name: str, inner: Any) -> dict[str, Any]:
    try:
        return get_type_hints(inner, include_extras=True)
    except Exception:
        # Annotations that can't be resolved are used as they were written, if Python has their
        # text; if not, the error says which one it is.
        return written_annotations(inner) or type_hints(name, inner)


def _kwargs_of(func: Callable[..., Any], hints: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    bound = bound_keywords(func)
    return {
        name: _kwarg_pair(hints.get(name, parameter.annotation), parameter.default)
        for name, parameter in signature_of(func).parameters.items()
        if name not in bound
    }


def _kwarg_pair(annotation: Any, default: Any) -> tuple[Any, str]:
    texts: list[str] = []
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
        texts = [extra for extra in extras if isinstance(extra, str)]
    if default is not inspect.Parameter.empty:
        texts.append(f"Default: {default}")
    return annotation, ";".join(texts)
