"""Processes are killed; nothing runs twice, nothing acknowledged is lost, and doubt is said."""

import asyncio
import random

import pytest

from tests.store.child import Children, eventually
from wieldy import Outcome, Status, Toolbox


def make_box(url: str, ran: list[int] | None = None) -> Toolbox:
    """A box with the tools of the killed process, as one that starts after it has."""
    box = Toolbox(store=url)
    done = [] if ran is None else ran

    @box.tool(read_only=True)
    async def look(n: int) -> int:
        """Look at something."""
        done.append(n)
        return n * 2

    @box.tool
    async def act(n: int) -> int:
        """Do something that can't be taken back."""
        done.append(n)
        return n * 2

    return box


async def states(box: Toolbox) -> dict[int, str]:
    """The state of each recorded call by its number."""
    entries = await box.ledger.list(limit=None)
    return {_number(entry): entry.state for entry in entries}


def _number(outcome: Outcome) -> int:
    arguments = outcome.call.arguments
    assert isinstance(arguments, dict)
    return int(arguments["n"])


@pytest.mark.parametrize(
    ("death", "state", "entered"),
    [("before", None, 0), ("inside", "unknown", 1), ("after", "ok", 1)],
)
async def test_a_call_is_recorded_as_far_as_it_got(
    url: str, children: Children, death: str, state: str | None, entered: int
) -> None:
    child = children.start(death)
    assert child.ask("call", tool="act", arguments={"n": 1})["value"] == 2
    child.send("call", tool="act", arguments={"n": 13})
    assert child.wait() == -9
    async with make_box(url) as box:
        assert await states(box) == {1: "ok"} | ({} if state is None else {13: state})
    assert children.effects()["act 13"] == entered


@pytest.mark.parametrize(
    ("commit", "state", "entered"), [(2, None, 0), (3, None, 0), (4, "unknown", 1)]
)
async def test_a_process_that_dies_at_a_commit_leaves_what_was_committed(
    url: str, children: Children, commit: int, state: str | None, entered: int
) -> None:
    """Two commits open the store, the third is the start, the fourth the end."""
    child = children.start(f"commit:{commit}")
    child.send("call", tool="act", arguments={"n": 13})
    assert child.wait() == -9
    assert child.rest() == []
    async with make_box(url) as box:
        assert await states(box) == ({} if state is None else {13: state})
    assert children.effects()["act 13"] == entered


@pytest.mark.parametrize("seed", range(4))
async def test_a_process_killed_at_any_moment_loses_and_repeats_nothing(
    url: str, children: Children, seed: int
) -> None:
    chance = random.Random(seed)
    child = children.start()
    child.send("flood", tool="act", callers=chance.choice([1, 3, 40]))
    acknowledged = [child.answer() for _ in range(chance.randint(1, 30))]
    # Any moment will do: the kill falls into whatever the process does then.
    await asyncio.sleep(chance.uniform(0, 0.05))
    child.kill()
    acknowledged += child.rest()

    async with make_box(url) as box:
        found = await states(box)
        recorded = {entry.call.id: entry for entry in await box.ledger.list(limit=None)}
    effects = children.effects()
    assert max(effects.values()) == 1
    for answer in acknowledged:
        entry = recorded[answer["id"]]
        assert (entry.status, entry.value) == (Status.OK, answer["n"] * 2)
    entered = {int(line.split()[1]) for line in effects}
    assert entered <= found.keys(), "a function was entered before its start was recorded"
    assert {n for n, state in found.items() if state == "ok"} <= entered
    assert set(found.values()) <= {"ok", "unknown"}


async def test_the_calls_of_a_living_process_are_left_alone(url: str, children: Children) -> None:
    child = children.start()
    child.send("call", tool="hang", arguments={"n": 5})
    async with make_box(url) as box:

        async def started() -> bool:
            return await states(box) == {5: "started"}

        await eventually(started)
        assert await box.recover() == []
        assert await states(box) == {5: "started"}
        children.release(5)
        assert child.answer()["value"] == 10
        assert await states(box) == {5: "ok"}


async def test_recovery_runs_again_what_may_run_again_under_the_same_id(
    url: str, children: Children
) -> None:
    for tool in ("look", "act"):
        child = children.start("inside")
        child.send("call", tool=tool, arguments={"n": 13})
        assert child.wait() == -9
    ran: list[int] = []
    async with make_box(url, ran) as box:
        left = {entry.call.tool: entry for entry in await box.ledger.list(state="unknown")}
        assert left.keys() == {"look", "act"}
        (outcome,) = await box.recover()
        assert (outcome.call.id, outcome.value) == (left["look"].call.id, 26)
        assert outcome.metadata["recovered"] is True
        assert ran == [13]
        (still,) = await box.ledger.list(state="unknown")
        assert still.call.tool == "act"
        assert await box.recover() == []


async def test_a_person_may_have_an_unknown_call_run_again_or_say_how_it_ended(
    url: str, children: Children
) -> None:
    for _ in range(2):
        child = children.start("inside")
        child.send("call", tool="act", arguments={"n": 13})
        assert child.wait() == -9
    ran: list[int] = []
    async with make_box(url, ran) as box:
        one, other = await box.ledger.list(state="unknown")
        (outcome,) = await box.recover([one.call.id])
        assert (outcome.status, outcome.value, ran) == (Status.OK, 26, [13])
        settled: Outcome = await box.ledger.settle(other.call.id, "ok", by="ann", value="seen")
        assert (settled.value, settled.metadata["settled_by"]) == ("seen", "ann")
        assert await box.ledger.list(state="unknown") == []
        assert ran == [13]


async def test_two_processes_that_recover_at_once_run_a_call_once(
    url: str, children: Children
) -> None:
    child = children.start("inside")
    child.send("call", tool="look", arguments={"n": 13})
    assert child.wait() == -9
    helpers = [children.start() for _ in range(3)]
    for helper in helpers:
        helper.send("recover")
    answers = [helper.answer() for helper in helpers]
    assert any(answer["ids"] for answer in answers)
    assert children.effects()["look 13"] == 2


async def test_a_call_whose_tool_has_changed_is_not_run_again(url: str, children: Children) -> None:
    child = children.start("inside")
    child.send("call", tool="look", arguments={"n": 13})
    assert child.wait() == -9
    async with Toolbox(store=url) as box:

        @box.tool(read_only=True)
        async def look(n: int) -> int:
            """Look at something else."""
            raise AssertionError("it must not run")

        assert await box.recover() == []
        (entry,) = await box.ledger.list(state="unknown")
        (asked,) = await box.recover([entry.call.id])
        assert asked.metadata["not_recovered"] == "its tool is not here as it was"
