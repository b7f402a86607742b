"""What a real MCP server says about a running call, in the agent's own stream."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.conftest import SHOP
from tests.mcp.waiting import until
from wieldy import Block, Call, Notice, Outcome, Progress, Toolbox
from wieldy.agent import Agent
from wieldy.testing import ScriptedModel

JUDGED = {
    "use_tool": True,
    "tool_command": {"purpose": "look", "tool_name": "narrate", "tool_kwargs": {}},
}


class Watching:
    """An observer that also hears what running calls show."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Block | Progress]] = []

    def __call__(self, outcome: Outcome) -> None:
        pass

    async def shown(self, call: Call, item: Block | Progress) -> None:
        self.seen.append((call.tool, item))


@pytest.fixture
def watching() -> Watching:
    return Watching()


@pytest.fixture
async def box(watching: Watching, tmp_path: Path) -> AsyncIterator[Toolbox]:
    """A box with a server on stdio."""
    async with Toolbox(observers=[watching]) as made:
        await made.add_mcp(SHOP, env={"SHOP_TRACE": str(tmp_path / "trace")})
        yield made


async def test_messages_and_progress_of_a_server_are_in_the_agents_stream(box: Toolbox) -> None:
    model = ScriptedModel([[Call("narrate", {})], "Done."])
    agent = Agent(model, toolbox=box, tool_strategy="native").use_tools("narrate")

    stream = agent.input("Look.").get_async_generator("all")
    events = [(event, data) async for event, data in stream if event.startswith("tool_")]

    told = [(event, data["message"]) for event, data in events if "message" in data]
    assert sorted(told) == [
        ("tool_notice", "looking it up"),
        ("tool_notice", '{"left": 3}'),
        ("tool_progress", "half"),
    ]
    [first] = [data for _, data in events if "looking" in str(data)]
    assert {each: first[each] for each in ("tool_name", "level", "logger")} == {
        "tool_name": "narrate",
        "level": "info",
        "logger": "shop",
    }


async def test_under_judge_the_tool_is_the_first_event_and_observers_hear_the_rest(
    box: Toolbox, watching: Watching
) -> None:
    agent = Agent(ScriptedModel([JUDGED, "Done."]), toolbox=box).use_tools("narrate")

    stream = agent.input("Look.").get_async_generator("all")
    events = [event async for event, _ in stream]

    assert events[0] == "tool"
    assert not [event for event in events if event in ("tool_progress", "tool_notice")]
    assert [tool for tool, _ in watching.seen] == ["narrate"] * 3
    kinds = sorted(type(item).__name__ for _, item in watching.seen)
    assert kinds == ["Notice", "Notice", "Progress"]


async def test_a_message_that_may_be_about_either_of_two_calls_is_shown_to_neither(
    box: Toolbox, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"

    async def read(tool: str, arguments: dict[str, Any]) -> list[Any]:
        return [item async for item in box.stream(tool, arguments) if isinstance(item, Notice)]

    waiting = asyncio.create_task(read("wait", {"seconds": 30}))
    await until(trace.exists)
    narrated = await read("narrate", {})
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert narrated == []
