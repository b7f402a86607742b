"""What is known of a registered function, and how AgentScope describes one to a model."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol

from pydantic import BaseModel

from wieldy.core.filled_in import without_filled_in
from wieldy.core.schema import untitled
from wieldy.core.tool import Tool

from .message_blocks import ToolUseBlock
from .read_only import ReadOnlyDict, make_read_only
from .tool_response import ToolResponse, response_text

Postprocess = Callable[
    [ToolUseBlock, ToolResponse], ToolResponse | Awaitable[ToolResponse | None] | None
]
Schema = dict[str, Any]


class Link(NamedTuple):
    """How a registered function hangs together with its toolkit.

    `tool` is what the toolbox has, `plain` the same without the extended model, `given`
    the schema that a user wrote, and `refresh` what describes the tool anew when the
    groups have changed.
    """

    owner: "Owner"
    tool: Tool
    plain: Tool
    given: Schema | None = None
    refresh: Callable[[Tool], Tool] | None = None


class Owner(Protocol):
    """Who calls and changes the functions that are registered with it."""

    @property
    def call(self) -> Callable[[ToolUseBlock], AsyncIterator[ToolResponse]]:
        """Call a function of the toolkit."""

    def change(self, registered: "RegisteredToolFunction", fact: str, value: Any) -> None:
        """Change a registered function, or refuse and change nothing."""


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
    link: ClassVar[Link | None] = None
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
        """Call the function; gives its responses as they come, and prints them if asked."""
        if self.link is None:
            raise RuntimeError(f"the function {self.name!r} is not registered in a toolkit")
        sent = dict(arguments or {})
        block = ToolUseBlock(type="tool_use", id=self.name, name=self.name, input=sent)
        stream = self.link.owner.call(block)
        return _printed(stream) if stream_print else stream

    def keep(
        self, link: Link, schema: Schema, model: type[BaseModel] | None, gives_one: bool
    ) -> None:
        """Be what the toolkit has made of this function."""
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


async def _printed(stream: AsyncIterator[ToolResponse]) -> AsyncIterator[ToolResponse]:
    shown = ""
    async for response in stream:
        text = response_text(response)
        # The one place where a library prints: its users asked for it.
        print(text.removeprefix(shown), end="", flush=True)  # noqa: T201
        shown = text
        yield response


def function_schema(tool: Tool) -> Schema:
    """A tool as AgentScope describes it; what is empty is left out."""
    remote = tool.source.startswith("mcp")
    parameters = {"properties": {}, **tool.input_schema, "type": "object"}
    if not remote:
        parameters.pop("additionalProperties", None)
    if not parameters.get("required") and not remote:
        parameters.pop("required", None)
    described = {"description": tool.description} if tool.description else {}
    function = {"name": tool.name, **described, "parameters": parameters}
    return {"type": "function", "function": function}


def given_schema(tool: Tool, given: Schema) -> Schema:
    """A schema as its user gave it, less what is preset, under the tool's name and description."""
    function = given["function"]
    parameters = {"type": "object", "properties": {}, **function.get("parameters", {})}
    if tool.presets:
        parameters = without_filled_in(parameters, tool.presets)
    if not parameters.get("required"):
        parameters.pop("required", None)
    described = {"description": tool.description} if tool.description else {}
    return {
        **given,
        "function": {**function, "name": tool.name, **described, "parameters": parameters},
    }


def check_schema(json_schema: Any) -> Schema:
    """A schema that a user gave, or `TypeError` if it is none."""
    if not isinstance(json_schema, Mapping):
        raise TypeError(f"json_schema must be a dict, not {type(json_schema).__name__}")
    function = json_schema.get("function")
    if json_schema.get("type") != "function" or not isinstance(function, Mapping):
        raise TypeError('json_schema must be {"type": "function", "function": {…}}')
    parameters = function.get("parameters", {"type": "object"})
    fits = isinstance(parameters, Mapping) and parameters.get("type") == "object"
    if not isinstance(function.get("name"), str) or not fits:
        raise TypeError("json_schema needs a name, and parameters of type object")
    return dict(json_schema)


def extend_schema(name: str, json_schema: Schema, model: type[BaseModel]) -> Schema:
    """The schema with a model's fields joined to it; what is there already clashes."""
    function = json_schema["function"]
    own = function["parameters"]
    added: Schema = untitled(model.model_json_schema())
    joined = dict(own)
    for key, what in (("properties", "field"), ("$defs", "definition")):
        mine, theirs = own.get(key, {}), added.get(key, {})
        for each in mine.keys() & theirs.keys():
            if key == "properties" or untitled(mine[each]) != theirs[each]:
                raise ValueError(
                    f"The {what} `{each}` of {model.__name__} already exists in the original "
                    f"function schema of `{name}`: rename it."
                )
        if mine or theirs:
            joined[key] = {**mine, **theirs}
    needed = [*own.get("required", ()), *added.get("required", ())]
    if needed:
        joined["required"] = needed
    return {**json_schema, "function": {**function, "parameters": joined}}
