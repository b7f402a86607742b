"""From a function, as it is registered, to the engine's tool and AgentScope's schema."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from wieldy.core.tool import Tool, own_name

from .entrance import entrance
from .finish import split_fields, splitting
from .mcp_function import MCPToolFunction, mcp_schema
from .registered import RegisteredToolFunction
from .response import ToolResponse
from .schema import function_schema, with_variadic

_SOURCE = "agentscope"


def function_tool(
    func: Callable[..., Any],
    presets: Mapping[str, Any],
    description: str | None,
    json_schema: dict[str, Any] | None,
    long_description: bool,
    variadic: tuple[bool, bool],
) -> tuple[Tool, dict[str, Any]]:
    """The tool of a function, and its schema."""
    inner = innermost(func)
    if isinstance(inner, MCPToolFunction):
        return _mcp_tool(inner, presets, description, json_schema)
    if json_schema is not None:
        given = json_schema["function"]
        told = description or given.get("description", "")
        parameters = given.get("parameters", {"type": "object", "properties": {}})
        tool = _made(entrance(func), given["name"], told, presets, parameters)
        return tool, json_schema
    tool = Tool(entrance(func), name=own_name(func), presets=presets, source=_SOURCE)
    told = tool.description if description is None else description
    if description is None and not long_description:
        told = told.partition("\n")[0]
    tool = tool.replace(description=told)
    parameters, args, kwargs = with_variadic(func, tool.input_schema, *variadic)
    if args or kwargs:
        called = splitting(tool, func, args, kwargs)
        tool = _made(entrance(func, called), tool.name, told, presets, parameters)
    return tool, function_schema(tool.name, told, parameters)


def innermost(func: Any) -> Callable[..., Any]:
    """What a partial wraps, or the function itself."""
    while isinstance(func, functools.partial):
        func = func.func
    inner: Callable[..., Any] = func
    return inner


def _mcp_tool(
    function: MCPToolFunction,
    presets: Mapping[str, Any],
    description: str | None,
    json_schema: dict[str, Any] | None,
) -> tuple[Tool, dict[str, Any]]:
    """The tool of an MCP server, with what was said about it here."""
    tool = function.tool
    if json_schema is not None:
        given = json_schema["function"]
        parameters = given.get("parameters", {"type": "object", "properties": {}})
        tool = tool.replace(name=given["name"], input_schema=parameters)
        description = description or given.get("description", "")
    if description is not None:
        tool = tool.replace(description=description)
    tool = tool.replace(presets=presets)
    return tool, mcp_schema(tool) if json_schema is None else json_schema


def extended_tool(tool: Tool, registered: RegisteredToolFunction) -> Tool:
    """The tool with its extended model's fields, or without them if it has none any more."""
    function: Any = tool.function
    plain: Tool = getattr(function, "plain_tool", tool)
    model = registered.extended_model
    if model is None:
        return plain
    parameters = registered.extended_json_schema["function"]["parameters"]
    original = registered.original_func
    takes_all = any(
        p.kind is p.VAR_KEYWORD for p in inspect.signature(original).parameters.values()
    )

    def call(**arguments: Any) -> Any:
        own, checked = split_fields(model, arguments, takes_all)
        return _answered(original(**own), checked)

    entry = entrance(original, call)
    entry.__dict__["plain_tool"] = plain
    described = (plain.description, plain.presets, parameters)
    return _made(entry, tool.name, *described).replace(group=tool.group)


def _made(
    entry: Callable[..., Any],
    name: str,
    description: str,
    presets: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> Tool:
    return Tool(
        entry,
        name=name,
        description=description,
        presets=presets,
        input_schema=parameters,
        source=_SOURCE,
    )


def _answered(value: Any, checked: dict[str, Any]) -> Any:
    """What a function gave, with the validated fields in its metadata."""
    if inspect.isawaitable(value):
        return _answered_later(value, checked)
    if isinstance(value, ToolResponse):
        value.metadata = {**(value.metadata or {}), "response_msg": checked}
        value.is_last = True
    return value


async def _answered_later(value: Any, checked: dict[str, Any]) -> Any:
    return _answered(await value, checked)
