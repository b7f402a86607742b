"""wieldy: a toolbox."""

from collections.abc import Callable
from typing import Any

from bench.agents import make_agent
from bench.peers.probe import Ask, Call, report
from wieldy import Tool, Toolbox


def describe(function: Callable[..., Any]) -> Any:
    """A tool with its schema."""
    tool = Tool(function)
    return tool.description, tool.input_schema


async def bind(function: Callable[..., Any]) -> Call:
    """Call through the box."""
    box = Toolbox()
    tool = box.add(function)
    assert (await box.call(tool.name, {})).call.tool == tool.name
    return lambda arguments: box.call(tool.name, arguments)


def make_ask() -> Ask:
    """One request to an agent."""
    agent = make_agent()
    return lambda: agent.input("1 + 2?").async_start()


if __name__ == "__main__":
    report(describe, bind, make_ask())
