"""Tools as each provider wants them described."""

from collections.abc import Callable, Iterable
from typing import Any

from wieldy.core.names import near, provider_name
from wieldy.core.tool import Tool

Definition = dict[str, Any]


def definitions(tools: Iterable[Tool], provider: str) -> list[Definition]:
    """The tools' definitions for one provider, in order."""
    describe = PROVIDERS.get(provider)
    if describe is None:
        hint = ", ".join(near(provider, PROVIDERS) or PROVIDERS)
        raise ValueError(f"There is no provider {provider!r}. Did you mean: {hint}?")
    return [describe(tool) for tool in tools]


def _openai(tool: Tool) -> Definition:
    return {
        "type": "function",
        "function": {
            "name": provider_name(tool.name),
            "description": tool.description,
            "parameters": tool.input_schema,
        },
    }


def _openai_responses(tool: Tool) -> Definition:
    return {"type": "function", **_openai(tool)["function"], "strict": False}


def _anthropic(tool: Tool) -> Definition:
    return {
        "name": provider_name(tool.name),
        "description": tool.description,
        "input_schema": tool.input_schema,
    }


def _gemini(tool: Tool) -> Definition:
    return {
        "name": provider_name(tool.name),
        "description": tool.description,
        "parametersJsonSchema": tool.input_schema,
    }


def _mcp(tool: Tool) -> Definition:
    definition: Definition = {
        "name": provider_name(tool.name),
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": {
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
        },
    }
    output = tool.output_schema
    # MCP's structured content is an object; other results travel as text.
    if output is not None and output.get("type") == "object":
        definition["outputSchema"] = output
    return definition


PROVIDERS: dict[str, Callable[[Tool], Definition]] = {
    "openai": _openai,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "mcp": _mcp,
}
