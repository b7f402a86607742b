"""What an agent adds to its model and its tools."""

import asyncio
import sys
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

from wieldy import Call, Toolbox
from wieldy.agent import Agent
from wieldy.models.model import Answers, ModelEvent, ModelRequest, Reply, Said
from wieldy.wire.stream_events import CallCompleted, TextDelta

from .child import run_json
from .clock import interleaved_async
from .effort import Effort
from .peers.peer import PEERS, make_environment, prepare_folder
from .row import Row, ratio

# Those with an agent of the same kind: pydantic-ai with its test model, and openai-agents.
_PEERS = [peer for peer in PEERS if peer.probe in ("pydantic_ai", "openai_agents")]
_PROCESSES = 5


class QuickModel:
    """A model that makes one call, and then answers, without taking any time."""

    name = "quick:model"
    context_window = None

    def render(self, request: ModelRequest) -> dict[str, Any]:
        """Nothing is sent."""
        return {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """A call, or after its outcome the answer."""
        if isinstance(request.turns[-1], Answers):
            yield TextDelta("3")
            yield Reply("quick", None, "3")
            return
        call = Call("add", {"a": 1, "b": 2}, provider_id="1")
        yield CallCompleted(0, call)
        yield Reply("quick", None, "", [call])


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agents(effort: Effort) -> list[Row]:
    """One round with one tool beside a loop by hand, and a thousand requests at once."""
    agent, box, model = make_agent(), Toolbox(), QuickModel()
    box.add(add)
    count, crowd = effort.count(200), effort.count(1000)

    async def by_hand() -> None:
        for _ in range(count):
            await run_by_hand(model, box)

    async def ours() -> None:
        for _ in range(count):
            await agent.input("1 + 2?").async_start()

    async def one_by_one() -> None:
        for _ in range(crowd):
            await agent.input("1 + 2?").async_start()

    async def at_once() -> None:
        await asyncio.gather(*(agent.input("1 + 2?").async_start() for _ in range(crowd)))

    hand, round_trip = interleaved_async(effort.rounds(25), by_hand, ours)
    lone, crowded = interleaved_async(effort.rounds(9), one_by_one, at_once)
    micro = 1e6 / count
    rows = [
        ratio(
            "an agent's round with one tool", round_trip * micro, hand * micro, "µs",
            "the same loop by hand", 25.0,
        ),
        ratio(
            f"{crowd:,} agent requests at once", crowded * 1e3, lone * 1e3, "ms",
            "one after the other", 4.0,
        ),
    ]  # fmt: skip
    # A test takes a small share, and installs nothing.
    return rows if effort.share < 1 else [*rows, *_beside_peers()]


def _beside_peers() -> list[Row]:
    """The same round beside the agents of other libraries; each has processes of its own."""
    folder = prepare_folder()
    pythons = {"wieldy_box": sys.executable}
    for peer in _PEERS:
        name = peer.requirement.partition("==")[0]
        pythons[peer.probe] = make_environment(folder / name, peer.requirement)
    runs: dict[str, list[float]] = {probe: [] for probe in pythons}
    for _ in range(_PROCESSES):
        for probe, python in pythons.items():
            runs[probe].append(run_json([python, "-m", "bench.peers.agent_round", probe]))
    ours = median(runs["wieldy_box"])
    return [
        ratio(
            "an agent's round with one tool", ours, median(runs[peer.probe]), "µs",
            peer.requirement.replace("==", " "), 0.5,
        )
        for peer in _PEERS
    ]  # fmt: skip


def make_agent() -> Agent:
    """An agent with one tool and a model that takes no time."""
    return Agent(QuickModel(), tool_strategy="native").use_tools(add)


async def run_by_hand(model: QuickModel, box: Toolbox) -> str:
    """What an agent does, without anything that could go otherwise."""
    turns: list[Any] = [Said("user", "1 + 2?")]
    while True:
        reply = [event async for event in model.stream(ModelRequest(turns, box))][-1]
        assert isinstance(reply, Reply)
        if not reply.calls:
            return reply.text
        turns += [reply, Answers(await box.call_many(reply.calls))]
