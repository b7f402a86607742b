"""pydantic-ai: a function toolset, the layer below its tool manager."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.peers.probe import Ask, Call, report

_library = import_module("pydantic_ai")
_test = import_module("pydantic_ai.models.test")


def context() -> Any:
    """The context of a run that a tool call belongs to."""
    return _library.RunContext(deps=None, model=_test.TestModel(), usage=_library.RunUsage())


def describe(function: Callable[..., Any]) -> Any:
    """A tool with its schema."""
    return _library.Tool(function).tool_def


async def bind(function: Callable[..., Any]) -> Call:
    """Validate with the tool's own validator and call through the toolset."""
    toolset, run = _library.FunctionToolset([function]), context()
    name = function.__name__
    tool = (await toolset.get_tools(run))[name]

    def call(arguments: dict[str, Any]) -> Any:
        valid = tool.args_validator.validate_python(arguments)
        return toolset.call_tool(name, valid, run, tool)

    return call


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make_ask() -> Ask:
    """One request to its agent; its test model calls each tool once, and then answers."""
    agent = _library.Agent(_test.TestModel(), tools=[add])
    return lambda: agent.run("1 + 2?")


if __name__ == "__main__":
    report(describe, bind, make_ask())
