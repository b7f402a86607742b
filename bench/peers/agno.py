"""agno: a function and one function call each time."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.peers.probe import Call, report

_module = import_module("agno.tools.function")
Function, FunctionCall = _module.Function, _module.FunctionCall


def describe(function: Callable[..., Any]) -> Any:
    """A tool with its schema."""
    made = Function.from_callable(function)
    made.process_entrypoint()
    return made.to_dict()


async def bind(function: Callable[..., Any]) -> Call:
    """Call through `aexecute`."""
    made = Function.from_callable(function)
    made.process_entrypoint()
    return lambda arguments: FunctionCall(function=made, arguments=dict(arguments)).aexecute()


if __name__ == "__main__":
    report(describe, bind)
