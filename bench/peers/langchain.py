"""langchain-core: a structured tool."""

from collections.abc import Callable
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from bench.peers.probe import Call, report

StructuredTool = import_module("langchain_core.tools").StructuredTool


def describe(function: Callable[..., Any]) -> Any:
    """A tool with its schema."""
    return StructuredTool.from_function(coroutine=function).tool_call_schema.model_json_schema()


async def bind(function: Callable[..., Any]) -> Call:
    """Call through `ainvoke`."""
    kind = "coroutine" if iscoroutinefunction(function) else "func"
    call: Call = StructuredTool.from_function(**{kind: function}).ainvoke
    return call


if __name__ == "__main__":
    report(describe, bind)
