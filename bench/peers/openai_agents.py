"""openai-agents: a function tool. It takes JSON text, so the dict is written out first."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.peers.probe import Call, report

# The eight-parameter function has an open dict, which strict mode does not take.
function_tool = import_module("agents").function_tool
ToolContext = import_module("agents.tool_context").ToolContext


def describe(function: Callable[..., Any]) -> Any:
    """A tool with its schema."""
    return function_tool(function, strict_mode=False).params_json_schema


async def bind(function: Callable[..., Any]) -> Call:
    """Call through `on_invoke_tool`, with the context that a run makes for each call."""
    tool = function_tool(function, strict_mode=False)

    def call(arguments: dict[str, Any]) -> Any:
        text = json.dumps(arguments)
        context = ToolContext(
            context=None, tool_name=tool.name, tool_call_id="1", tool_arguments=text
        )
        return tool.on_invoke_tool(context, text)

    return call


if __name__ == "__main__":
    report(describe, bind)
