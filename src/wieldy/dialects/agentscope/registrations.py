"""The functions that were registered through one toolkit, and their tools in its toolbox."""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel

from wieldy.core.arguments.read_only import ReadOnlyDict, make_read_only
from wieldy.core.choices import ConflictPolicy
from wieldy.core.errors import NameTaken
from wieldy.core.registry import CONFLICTS
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox

from .function_schema import (
    Schema,
    check_given_schema,
    extend_schema,
    function_schema,
    given_schema,
)
from .function_tools import extend_tool, gives_one, with_schema
from .message_blocks import ToolUseBlock
from .tool_response import ToolResponse, response_text

Postprocess = Callable[
    [ToolUseBlock, ToolResponse], ToolResponse | Awaitable[ToolResponse | None] | None
]
_SUBAGENTS = "subagents"
_log = logging.getLogger("wieldy")


class ClientLink(NamedTuple):
    """The link between a registered function and its toolkit.

    `tool` is the tool in the toolbox, `plain` the same tool without the extended model, `given`
    the schema that the user wrote, and `refresh` a function that describes the tool again after
    the groups have changed.
    """

    owner: "Registrations"
    tool: Tool
    plain: Tool
    given: Schema | None = None
    refresh: Callable[[Tool], Tool] | None = None


@dataclass
class RegisteredToolFunction:
    """A function as it was registered, and its schema.

    On a function of a toolkit `group`, `json_schema`, `preset_kwargs`, `extended_model`,
    `postprocess_func` and `async_execution` may be assigned, which takes effect at once.
    """

    name: str
    group: str
    source: str
    original_func: Callable[..., Any]
    json_schema: Schema
    preset_kwargs: dict[str, Any] = field(default_factory=dict)
    original_name: str | None = None
    extended_model: type[BaseModel] | None = None
    mcp_name: str | None = None
    postprocess_func: Postprocess | None = None
    async_execution: bool = False
    link: ClassVar[ClientLink | None] = None
    gives_one: ClassVar[bool] = False

    @property
    def extended_json_schema(self) -> Schema:
        """The schema with the fields of the extended model."""
        if self.extended_model is None:
            return self.json_schema
        return extend_schema(self.name, self.json_schema, self.extended_model)

    def call(
        self, *, arguments: Mapping[str, Any] | None = None, stream_print: bool | None = None
    ) -> AsyncIterator[ToolResponse]:
        """Call the function; yields its responses as they arrive, and prints them if asked."""
        if self.link is None:
            raise RuntimeError(f"the function {self.name!r} is not registered in a toolkit")
        sent = dict(arguments or {})
        block = ToolUseBlock(type="tool_use", id=self.name, name=self.name, input=sent)
        stream = self.link.owner.call(block)
        return _print_responses(stream) if stream_print else stream

    def keep(
        self, link: ClientLink, schema: Schema, model: type[BaseModel] | None, gives_one: bool
    ) -> None:
        """Take over what the toolkit has made of this function."""
        self.__dict__.update(
            link=link,
            gives_one=gives_one,
            name=link.tool.name,
            group=link.tool.group,
            json_schema=make_read_only(schema),
            preset_kwargs=ReadOnlyDict(link.tool.presets),
            extended_model=model,
        )

    def __getstate__(self) -> dict[str, Any]:
        # A copy is a plain record, which belongs to no toolkit.
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    def __setattr__(self, fact: str, value: Any) -> None:
        if self.link is None:
            super().__setattr__(fact, value)
        else:
            self.link.owner.change(self, fact, value)


class Registrations:
    """Keeps AgentScope's data about each function with the tool that the engine runs."""

    def __init__(
        self, toolbox: Toolbox, call: Callable[[ToolUseBlock], AsyncIterator[ToolResponse]]
    ) -> None:
        self._toolbox = toolbox
        self.call = call
        self._known: dict[str, RegisteredToolFunction] = {}
        toolbox.watch(self._refresh_groups)

    def put(
        self,
        registered: RegisteredToolFunction,
        plain: Tool,
        given: Schema | None,
        refresh: Callable[[Tool], Tool] | None,
        model: type[BaseModel] | None = None,
        strategy: ConflictPolicy = "override",
    ) -> None:
        """Add a function to the toolbox, or update it."""
        plain = plain if refresh is None else refresh(plain)
        schema = _describe_tool(plain, given)
        tool = plain if model is None else extend_tool(plain, schema, model)
        added = self._add_tool(tool, strategy)
        if added is None:
            return
        if added.name != plain.name:
            registered.original_name = registered.original_name or plain.name
            plain = plain.replace(name=added.name)
            schema = _describe_tool(plain, given)
        link = ClientLink(self, added, plain, given, refresh)
        one = gives_one(registered.original_func) and plain.signature.context is None
        registered.keep(link, schema, model, one)
        self._known[added.name] = registered

    def of_tool(self, tool: Tool) -> RegisteredToolFunction | None:
        """The registered function of this tool, or None."""
        known = self._known.get(tool.name)
        here = known is not None and known.link is not None and known.link.tool is tool
        return known if here else None

    def registered(self, tool: Tool) -> RegisteredToolFunction:
        """The registered function, or one made from a tool that was added in another way."""
        known = self.of_tool(tool)
        if known is not None:
            return known
        kind, _, server = tool.source.partition(":")
        remote = kind == "mcp"
        source = "mcp_server" if remote else "function"
        shown = RegisteredToolFunction(tool.name, tool.group, source, tool.function, {})
        shown.mcp_name = server if remote else None
        shown.keep(ClientLink(self, tool, tool), function_schema(tool), None, False)
        return shown

    def need_group(self, name: str) -> None:
        """Check that a group exists; the group of subagents is created on first use."""
        if not isinstance(name, str):
            raise TypeError("the name of a group must be a string")
        if name not in self._toolbox.groups:
            if name != _SUBAGENTS:
                raise ValueError(f"Tool group '{name}' not found.")
            said = "Agents that do a part of the work."
            self._toolbox.groups.create(_SUBAGENTS, said, active=True)

    def _add_tool(self, tool: Tool, strategy: ConflictPolicy) -> Tool | None:
        if strategy not in CONFLICTS:
            known = ", ".join(CONFLICTS)
            raise ValueError(f"namesake_strategy must be one of {known}, not {strategy!r}")
        try:
            on_conflict = "raise" if strategy == "skip" else strategy
            return self._toolbox.add(tool, on_conflict=on_conflict)
        except NameTaken as error:
            if strategy == "skip":
                _log.warning("The function %r is registered already, so it is skipped", tool.name)
                return None
            raise name_taken(tool.name) from error

    def change(self, registered: RegisteredToolFunction, fact: str, value: Any) -> None:
        """Change a registered function, or refuse and change nothing."""
        link = registered.link
        if link is None or self.of_tool(link.tool) is not registered:
            raise AttributeError(f"{registered.name!r} was not registered here: no {fact} is set")
        if self._toolbox.find_tool(registered.name) is not link.tool:
            raise AttributeError(
                f"{registered.name!r} is not registered any more: no {fact} is set"
            )
        plain, given, model = link.plain, link.given, registered.extended_model
        match fact:
            case "postprocess_func" | "async_execution":
                registered.__dict__[fact] = value
                return
            case "group":
                self.need_group(value)
                plain = plain.replace(group=value)
            case "preset_kwargs":
                plain = plain.replace(presets=value)
            case "json_schema":
                given = check_given_schema(value)
                if given["function"]["name"] != registered.name:
                    raise ValueError(f"the schema must have the name {registered.name!r}")
                plain = with_schema(plain, given)
            case "extended_model":
                model = _check_model(value)
            case _:
                raise AttributeError(f"{fact} can't be changed: register the function again")
        self.put(registered, plain, given, link.refresh, model)

    def _refresh_groups(self, changed: str | None) -> None:
        """Describe the tools that depend on the groups again, after the groups have changed."""
        for registered in tuple(self._known.values()) if changed is None else ():
            link = registered.link
            if (
                link is not None
                and link.refresh
                and self._toolbox.find_tool(registered.name) is link.tool
            ):
                model = registered.extended_model
                self.put(registered, link.plain, link.given, link.refresh, model)


async def _print_responses(stream: AsyncIterator[ToolResponse]) -> AsyncIterator[ToolResponse]:
    shown = ""
    async for response in stream:
        text = response_text(response)
        # The one place where a library prints: its users asked for it.
        print(text.removeprefix(shown), end="", flush=True)  # noqa: T201
        shown = text
        yield response


def name_taken(name: str) -> ValueError:
    """The error for a name that another function has."""
    return ValueError(f"A function with name '{name}' is already registered in the toolkit.")


def _describe_tool(tool: Tool, given: Schema | None) -> Schema:
    return function_schema(tool) if given is None else given_schema(tool, given)


def _check_model(model: Any) -> type[BaseModel] | None:
    if model is not None and not (inspect.isclass(model) and issubclass(model, BaseModel)):
        raise TypeError(f"a pydantic model class or None is needed, not {model!r}")
    return model
