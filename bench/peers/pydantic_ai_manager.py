"""pydantic-ai: its tool manager, through which an agent's calls go."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.peers.probe import Call, report
from bench.peers.pydantic_ai import context, describe

_library = import_module("pydantic_ai")
_messages = import_module("pydantic_ai.messages")
_manager = import_module("pydantic_ai.tool_manager")


async def bind(function: Callable[..., Any]) -> Call:
    """Call through the manager of one step of a run."""
    toolset = _library.FunctionToolset([function])
    manager = await _manager.ToolManager(toolset).for_run_step(context())

    def call(arguments: dict[str, Any]) -> Any:
        return manager.handle_call(_messages.ToolCallPart(function.__name__, arguments))

    return call


if __name__ == "__main__":
    report(describe, bind)
