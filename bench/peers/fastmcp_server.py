"""fastmcp: a server's own `call_tool`, without a transport."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from bench.peers.probe import Call, report

FastMCP = import_module("fastmcp").FastMCP
FunctionTool = import_module("fastmcp.tools").FunctionTool


def describe(function: Callable[..., Any]) -> Any:
    """A tool with its schema."""
    return FunctionTool.from_function(function).parameters


async def bind(function: Callable[..., Any]) -> Call:
    """Call through the server."""
    server = FastMCP("bench")
    server.tool(function)
    return partial(server.call_tool, function.__name__)


if __name__ == "__main__":
    report(describe, bind)
