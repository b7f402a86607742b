"""What a call costs in a library that a dialect stands for; runs in that library's environment."""

import importlib
import json
import sys
from typing import Any

from .clock import AsyncWork, interleaved_async
from .effort import Effort
from .reference import raw
from .sample import ARGUMENTS, find

_COUNT = 100
_ROUNDS = 100


def _agently(count: int) -> AsyncWork:
    place = "agently.builtins.plugins.ToolManager.AgentlyToolManager"
    settings = importlib.import_module("agently.utils").Settings()
    tools = importlib.import_module(place).AgentlyToolManager(settings)
    tools.tool_func(find)

    async def work() -> None:
        for _ in range(count):
            await tools.async_call_tool("find", ARGUMENTS)

    return work


def _agentscope(count: int) -> AsyncWork:
    tool = importlib.import_module("agentscope.tool")
    return toolkit_work(tool.Toolkit(), tool.ToolResponse, count)


def toolkit_work(toolkit: Any, response: Any, count: int) -> AsyncWork:
    """Work that calls a function of a toolkit, theirs or ours, and reads what comes."""

    async def answer(query: str, limit: int, tags: list[str]) -> response:
        """Find leaves."""
        return response([{"type": "text", "text": query}])

    toolkit.register_tool_function(answer)
    block = {"type": "tool_use", "id": "1", "name": "answer", "input": ARGUMENTS}

    async def work() -> None:
        for _ in range(count):
            async for _chunk in await toolkit.call_tool_function(block):
                pass

    return work


MAKERS = {"agently": _agently, "agentscope": _agentscope}


def main(name: str, share: str) -> None:
    """Print the microseconds of the function itself and of the library's call."""
    effort = Effort(float(share))
    count = effort.count(_COUNT)
    best = interleaved_async(effort.rounds(_ROUNDS), raw(count), MAKERS[name](count))
    print(json.dumps([seconds / count * 1e6 for seconds in best]))


if __name__ == "__main__":
    main(*sys.argv[1:])
