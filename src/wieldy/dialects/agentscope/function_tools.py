"""Make the engine's tools from registered functions."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from wieldy.core.block import to_blocks
from wieldy.core.context import Context
from wieldy.core.schema.annotations import signature_of, written_annotations
from wieldy.core.schema.json_schema import arguments_validator
from wieldy.core.schema.signature import is_async, unwrap_partial
from wieldy.core.short_text import first_line
from wieldy.core.tool import Tool, own_name
from wieldy.core.work import call_by_place

from .function_schema import Schema, extend_schema
from .mcp_function import MCPToolFunction
from .tool_response import Accumulated, ToolResponse, to_response

_SOURCE = "agentscope"
_KINDS = inspect.Parameter
_BY_PLACE = (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)


def name_bound(func: Any) -> tuple[Any, dict[str, Any]]:
    """The function inside a partial, and the arguments that the partial binds, by name.

    A partial that binds more positional arguments than the function has names is returned as
    it is.
    """
    inner, first, named = unwrap_partial(func)
    if not first:
        return inner, named
    listed = signature_of(inner).parameters.values()
    names = [parameter.name for parameter in listed if parameter.kind in _BY_PLACE]
    if len(first) > len(names):
        return func, named
    return inner, {**dict(zip(names, first, strict=False)), **named}


def make_tool(
    func: Any,
    name: str | None,
    presets: Mapping[str, Any],
    description: str | None,
    given: Schema | None,
    long_description: bool,
    variadic: tuple[bool, bool],
) -> Tool:
    """The tool of a function; `variadic` says whether `*args` and `**kwargs` are described."""
    name = name or (given["function"]["name"] if given else None)
    if isinstance(func, MCPToolFunction):
        tool = func.tool.replace(name=name or func.name, presets=presets)
    else:
        tool = Tool(func, name=name or own_name(func), presets=presets, source=_SOURCE)
    if given is not None:
        tool = with_schema(tool, given)
    elif not isinstance(func, MCPToolFunction):
        if not long_description:
            tool = tool.replace(description=first_line(tool.description))
        tool = _with_variadic(tool, *variadic)
    return tool if description is None else tool.replace(description=description)


def with_schema(tool: Tool, given: Schema) -> Tool:
    """The tool with the schema that the user gave."""
    function = given["function"]
    parameters = function.get("parameters", {"type": "object", "properties": {}})
    described = function.get("description", "")
    return tool.replace(input_schema=parameters, description=described)


def gives_one(func: Any) -> bool:
    """Whether a function certainly returns one response, so that there is nothing to stream."""
    called = func if inspect.isroutine(func) else type(func).__call__
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        return False
    return written_annotations(called).get("return") in (ToolResponse, "ToolResponse")


def extend_tool(plain: Tool, schema: Schema, model: type[BaseModel]) -> Tool:
    """The tool with a model's fields as additional arguments, returned as `response_msg`."""
    parameters = extend_schema(plain.name, schema, model)["function"]["parameters"]
    call = _own_call(plain)
    # An MCP server accepts only the arguments that it has listed.
    takes_all = not plain.source.startswith("mcp") and _variadic_names(plain)[1] is not None
    fields = model.model_json_schema().get("properties", {})
    hidden = sorted(fields.keys() & plain.presets.keys())
    if hidden:
        raise ValueError(f"The fields {hidden} of {model.__name__} are presets: rename them.")

    def finish(wieldy_context_: Context, **arguments: Any) -> Any:
        sent = {name: value for name, value in arguments.items() if name in fields}
        checked = model.model_validate(sent).model_dump(mode="json", by_alias=True)
        own = {name: value for name, value in arguments.items() if name not in fields}
        value = call(wieldy_context_, **own, **(checked if takes_all else {}))
        return _answer_value(value, checked)

    return plain.replace(
        function=_of_kind(plain.function, finish), input_schema=parameters, output_schema=None
    )


def _with_variadic(tool: Tool, positional: bool, keyword: bool) -> Tool:
    """The tool with `*args` described as a list and `**kwargs` as a dict, each if asked for."""
    args, kwargs = _variadic_names(tool)
    added: Schema = {}
    if positional and args is not None:
        added[args] = {"type": "array", "items": {}}
    if keyword and kwargs is not None:
        added[kwargs] = {"type": "object", "additionalProperties": True}
    if not added:
        return tool
    call = _own_call(tool)

    def spread(wieldy_context_: Context, **arguments: Any) -> Any:
        rest = arguments.pop(args, ()) if args in added else ()
        extra = arguments.pop(kwargs, {}) if kwargs in added else {}
        return call(wieldy_context_, *rest, **arguments, **extra)

    # The schema lists the presets too: the engine hides them, including presets added later.
    own = tool.replace(presets={}).input_schema
    schema = {**own, "properties": {**own["properties"], **added}}
    return tool.replace(function=_of_kind(tool.function, spread), input_schema=schema)


def _own_call(tool: Tool) -> Callable[..., Any]:
    """The tool's function for plain arguments, which are converted to the declared types."""
    function, signature = tool.function, tool.signature
    validate = None
    if tool.own_schema is None:
        validate = arguments_validator(tool.name, signature).validate_python
    listed = signature_of(function).parameters.values()
    by_place = [parameter.name for parameter in listed if parameter.kind in _BY_PLACE]

    def call(context: Context, *rest: Any, **arguments: Any) -> Any:
        preset = {name: value for name, value in arguments.items() if name in tool.presets}
        values = {name: value for name, value in arguments.items() if name not in preset}
        if validate is not None:
            values = validate(values)[1]
        values.update(preset)
        if signature.context is not None:
            values[signature.context] = context
        names = by_place if rest else signature.positional
        return call_by_place(function, values, names, rest)

    return call


def _of_kind(function: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call as a coroutine function if the function is async, so that it runs on the loop."""
    if not is_async(function):
        return call

    async def call_here(wieldy_context_: Context, **arguments: Any) -> Any:
        return call(wieldy_context_, **arguments)

    return call_here


def _variadic_names(tool: Tool) -> tuple[str | None, str | None]:
    """The names of `*args` and `**kwargs`."""
    listed = signature_of(tool.function, tool.name).parameters
    kinds = {each.kind: name for name, each in listed.items()}
    return kinds.get(_KINDS.VAR_POSITIONAL), kinds.get(_KINDS.VAR_KEYWORD)


def _answer_value(value: Any, checked: dict[str, Any]) -> Any:
    """The result of a function of any kind, with the validated fields in its metadata."""
    if inspect.isawaitable(value):
        return _answer_later(value, checked)
    if isinstance(value, Generator):
        return _answer_each(value, checked)
    if isinstance(value, AsyncGenerator):
        return _answer_each_later(value, checked)
    return replace(_mark_response(to_response(value), checked), is_last=True)


async def _answer_later(value: Any, checked: dict[str, Any]) -> Any:
    return _answer_value(await value, checked)


def _answer_each(stream: Generator[Any, Any, Any], checked: dict[str, Any]) -> Iterator[Any]:
    so_far = Accumulated()
    with closing(stream):
        for item in stream:
            yield _next_response(so_far, item, checked)


async def _answer_each_later(
    stream: AsyncGenerator[Any, Any], checked: dict[str, Any]
) -> AsyncIterator[Any]:
    so_far = Accumulated()
    async with aclosing(stream):
        async for item in stream:
            yield _next_response(so_far, item, checked)


def _next_response(so_far: Accumulated, item: Any, checked: dict[str, Any]) -> ToolResponse:
    if isinstance(item, ToolResponse):
        return _mark_response(item, checked)
    for block in to_blocks(item):
        so_far.add(block)
    return _mark_response(so_far.last or to_response(None), checked)


def _mark_response(response: ToolResponse, checked: dict[str, Any]) -> ToolResponse:
    return replace(response, metadata={**(response.metadata or {}), "response_msg": checked})
