"""strands-agents: a decorated tool."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.peers.probe import Call, report

tool = import_module("strands").tool


def describe(function: Callable[..., Any]) -> Any:
    """A tool with its schema."""
    return tool(function).tool_spec


async def bind(function: Callable[..., Any]) -> Call:
    """Call through `stream`, to its last event."""
    bound = tool(function)

    async def call(arguments: dict[str, Any]) -> Any:
        use = {"toolUseId": "1", "name": function.__name__, "input": arguments}
        last = None
        async for event in bound.stream(use, {}):
            last = event
        return last

    return call


if __name__ == "__main__":
    report(describe, bind)
