"""Describe tools in the format of each provider."""

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
    """The definitions of the tools for one provider, in order.

    A tool that is added at the end only appends a definition, so prompt caches stay valid.

    Args:
        tools: the tools, such as a `Toolbox`.
        provider: the provider's format.
        strict: ask the provider to enforce the schemas. A tool whose schema the provider
            can't enforce is described in the usual form.

    Returns:
        One definition per tool.

    Raises:
        ValueError: the provider is unknown.

    Example:
        `tools = tool_definitions(box, "openai", strict=True)`
    """
    target_of(provider, strict)
    describe = _DESCRIBE[provider]
    pairs = lowered_tools(tools, provider, strict)
    return [describe(tool, lowered, strict) for tool, lowered in pairs]


def lowered_tools(
    tools: Iterable[Tool], provider: str, strict: bool = False
) -> Iterator[tuple[Tool, Lowered]]:
    """Each tool with its schema for one provider, within the limits of one request."""
    budget = AnthropicBudget()
    for tool in tools:
        lowered = _lowered_schema(tool, provider, strict)
        if provider == "anthropic" and lowered.strict and not budget.take(lowered.schema):
            loose = _lowered_schema(tool, provider, False)
            change = SchemaChange("", "strict", "was left off", anthropic_reason(), True)
            lowered = Lowered(loose.schema, (change, *loose.changes))
        yield tool, lowered


def lowered_schema(tool: Tool, provider: str) -> Mapping[str, Any]:
    """The tool's input schema as a provider gets it, worked out once per tool."""
    return _lowered_schema(tool, provider, False).schema


def _lowered_schema(tool: Tool, provider: str, strict: bool) -> Lowered:
    """The schema for a provider, computed once per tool; if nothing changes, the tool's own."""

    def work_out(tool: Tool) -> Lowered:
        lowered = lower_schema(tool.input_schema, provider, strict)
        same = lowered.schema == tool.input_schema
        return replace(lowered, schema=tool.input_schema) if same else lowered

    found: Lowered = tool.once(("lowered", provider, strict), work_out)
    return found


def _define_openai(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    function: Definition = {
        "name": provider_name(tool.name),
        "description": tool.description,
        "parameters": lowered.schema,
    }
    if strict:
        function["strict"] = lowered.strict
    return {"type": "function", "function": function}


def _openai_responses(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    # `strict` is always sent, because the API chooses a value of its own without it.
    return {
        "type": "function",
        "name": provider_name(tool.name),
        "description": tool.description,
        "parameters": lowered.schema,
        "strict": lowered.strict,
    }


def _define_anthropic(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    definition: Definition = {
        "name": provider_name(tool.name),
        "description": tool.description,
        "input_schema": lowered.schema,
    }
    return {**definition, "strict": True} if lowered.strict else definition


def _define_gemini(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    return {
        "name": gemini_name(tool.name),
        "description": tool.description,
        "parametersJsonSchema": lowered.schema,
    }


def _gemini_openapi(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    definition: Definition = {"name": gemini_name(tool.name), "description": tool.description}
    # Gemini refuses an object without properties, so a function without parameters omits it.
    if lowered.schema["properties"]:
        definition["parameters"] = lowered.schema
    return definition


def _define_mcp(tool: Tool, lowered: Lowered, strict: bool) -> Definition:
    definition: Definition = {
        "name": provider_name(tool.name),
        "description": tool.description,
        "inputSchema": lowered.schema,
    }
    annotations = _tool_annotations(tool)
    if annotations:
        definition["annotations"] = annotations
    promise = promised_result(tool)
    if promise is not None:
        definition["outputSchema"] = sanitize_schema(promise.schema, [])
    return definition


def _tool_annotations(tool: Tool) -> dict[str, Any]:
    """The hints from the tool's server, overridden by the tool's own traits.

    Traits that nobody set are left out: to a client, an absent hint is not a false one.
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
    "openai": _define_openai,
    "openai-responses": _openai_responses,
    "anthropic": _define_anthropic,
    "gemini": _define_gemini,
    "gemini-openapi": _gemini_openapi,
    "mcp": _define_mcp,
}
