"""Tools as each provider wants them described."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from wieldy.core.names import provider_name
from wieldy.core.schema.result_check import promised_result
from wieldy.core.tool import Tool

from .schema.lowering import lower_schema
from .schema.provider_limits import AnthropicBudget, anthropic_reason
from .schema.sanitize import sanitize_schema
from .schema.schema_change import Lowered, SchemaChange
from .schema.target import gemini_name, target_of

__all__ = ["Definition", "lowered_schema", "lowered_tools", "tool_definitions"]

Definition = dict[str, Any]


def tool_definitions(
    tools: Iterable[Tool], provider: str, strict: bool = False
) -> list[Definition]:
    """The tools' definitions for one provider, in order; a tool more only appends.

    With `strict`, a tool is held to its schema where the provider can do that;
    one that can't be is described as without.
    """
    target_of(provider, strict)
    describe = _DESCRIBE[provider]
    pairs = lowered_tools(tools, provider, strict)
    return [describe(tool, lowered, strict) for tool, lowered in pairs]


def lowered_tools(
    tools: Iterable[Tool], provider: str, strict: bool = False
) -> Iterator[tuple[Tool, Lowered]]:
    """Each tool with its schema for one provider, with what a whole request may hold."""
    budget = AnthropicBudget()
    for tool in tools:
        lowered = _lowered(tool, provider, strict)
        if provider == "anthropic" and lowered.strict and not budget.take(lowered.schema):
            loose = _lowered(tool, provider, False)
            change = SchemaChange("", "strict", "was left off", anthropic_reason(), True)
            lowered = Lowered(loose.schema, (change, *loose.changes))
        yield tool, lowered


def lowered_schema(tool: Tool, provider: str) -> Mapping[str, Any]:
    """The tool's input schema as a provider gets it, worked out once per tool."""
    return _lowered(tool, provider, False).schema


def _lowered(tool: Tool, provider: str, strict: bool) -> Lowered:
    """The schema for a provider, worked out once per tool; an unchanged one is the tool's own."""

    def work_out(tool: Tool) -> Lowered:
        lowered = lower_schema(tool.input_schema, provider, strict)
        same = lowered.schema == tool.input_schema
        return replace(lowered, schema=tool.input_schema) if same else lowered

    found: Lowered = tool.once(("lowered", provider, strict), work_out)
    return found


def _openai(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    function: Definition = {
        "name": provider_name(tool.name),
        "description": tool.description,
        "parameters": lowered.schema,
    }
    if strict:
        function["strict"] = lowered.strict
    return {"type": "function", "function": function}


def _openai_responses(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    # Said in any case: without it the API decides for itself.
    return {
        "type": "function",
        "name": provider_name(tool.name),
        "description": tool.description,
        "parameters": lowered.schema,
        "strict": lowered.strict,
    }


def _anthropic(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    definition: Definition = {
        "name": provider_name(tool.name),
        "description": tool.description,
        "input_schema": lowered.schema,
    }
    return {**definition, "strict": True} if lowered.strict else definition


def _gemini(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    return {
        "name": gemini_name(tool.name),
        "description": tool.description,
        "parametersJsonSchema": lowered.schema,
    }


def _gemini_openapi(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    definition: Definition = {"name": gemini_name(tool.name), "description": tool.description}
    # An object without properties is refused; a function without parameters has none.
    if lowered.schema["properties"]:
        definition["parameters"] = lowered.schema
    return definition


def _mcp(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    definition: Definition = {
        "name": provider_name(tool.name),
        "description": tool.description,
        "inputSchema": lowered.schema,
    }
    annotations = _annotations(tool)
    if annotations:
        definition["annotations"] = annotations
    promise = promised_result(tool)
    if promise is not None:
        definition["outputSchema"] = sanitize_schema(promise.schema, [])
    return definition


def _annotations(tool: Tool) -> dict[str, Any]:
    """What the tool's server said of it, and what was said here; nothing that nobody said.

    To a client, a hint that is absent and one that is false are not the same.
    """
    said = {_HINTS[trait]: holds for trait, holds in tool.traits.items() if holds is not None}
    return {**tool.hints, **said}


_HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
_DESCRIBE: dict[str, Callable[[Tool, Lowered, bool], Definition]] = {
    "openai": _openai,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "gemini-openapi": _gemini_openapi,
    "mcp": _mcp,
}
