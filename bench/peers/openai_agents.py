"""openai-agents: a function tool. It takes JSON text, so the dict is written out first."""

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.peers.probe import Ask, Call, report

# The eight-parameter function has an open dict, which strict mode does not take.
_library = import_module("agents")
_Model: Any = _library.Model
_types = import_module("openai.types.responses")
function_tool = _library.function_tool
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


class QuickModel(_Model):  # type: ignore[misc]
    """A model that makes one call, and then answers, without taking any time."""

    async def get_response(self, *more: Any, input: Any, **named: Any) -> Any:
        """A call, or after its outcome the answer."""
        answered = isinstance(input, list) and input[-1].get("type") == "function_call_output"
        if answered:
            text = _types.ResponseOutputText(text="3", type="output_text", annotations=[])
            said = _types.ResponseOutputMessage(
                id="m", role="assistant", status="completed", type="message", content=[text]
            )
        else:
            said = _types.ResponseFunctionToolCall(
                id="f", call_id="1", name="add", arguments='{"a": 1, "b": 2}', type="function_call"
            )
        return _library.ModelResponse(output=[said], usage=_library.Usage(), response_id=None)

    def stream_response(self, *given: Any, **named: Any) -> Any:
        """Nothing here streams."""
        raise NotImplementedError


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_ask() -> Ask:
    """One request to its agent, which traces nothing."""
    _library.set_tracing_disabled(True)
    agent = _library.Agent(name="x", model=QuickModel(), tools=[function_tool(add)])
    return lambda: _library.Runner.run(agent, "1 + 2?")


if __name__ == "__main__":
    report(describe, bind, make_ask())
