"""A program of Agently's ToolManager: tools by tag, described to a model, called by name."""

import json
from typing import Annotated, Any

from wieldy.dialects.agently import AgentlyToolManager, DataFormatter

tools = AgentlyToolManager()


@tools.tool_func
def add(a: Annotated[int, "the first number"], b: Annotated[int, "the second number"] = 1) -> int:
    """Add two numbers."""
    return a + b


@tools.tool_func
async def search(query: Annotated[str, "what to look for"]) -> list[str]:
    """Search the library."""
    return [f"{query}, volume {number}" for number in (1, 2)]


tools.register(
    name="now",
    desc="Tell the time.",
    kwargs={},
    func=lambda: "12:00",
    tags=["clock"],
)
tools.tag(["add", "now"], "offline")


def main() -> None:
    for info in tools.get_tool_list("offline"):
        print(info["name"], json.dumps(DataFormatter.sanitize(info["kwargs"])))
    commands: list[dict[str, Any]] = [
        {"tool_name": "add", "tool_kwargs": {"a": 3}},
        {"tool_name": "search", "tool_kwargs": {"query": "tea"}},
        {"tool_name": "add", "tool_kwargs": {"c": 3}},
        {"tool_name": "sell", "tool_kwargs": {}},
    ]
    for command in commands:
        print(tools.call_tool(command["tool_name"], command["tool_kwargs"]))
    search_now = tools.get_tool_func("search", shift="sync")
    print(search_now and search_now(query="coffee")[0])


if __name__ == "__main__":
    main()

# > add {"a": ["int", "the first number"], "b": ["int", "the second number;Default: 1"]}
# > now {}
# > 4
# > ['tea, volume 1', 'tea, volume 2']
# > Error: add() got an unexpected keyword argument 'c'
# > Can not find tool named 'sell'
# > coffee, volume 1
