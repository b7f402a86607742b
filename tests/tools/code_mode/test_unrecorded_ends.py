"""Programs that have an outcome whose record is not durable yet."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from wieldy import Call, Outcome, Status, Text, Toolbox
from wieldy.core.active_call import Extras
from wieldy.tools.code_mode import add_code_mode

from .conftest import Office


class Locking(Office):
    """An office with a tool after which nothing can be recorded until `other` ends that."""

    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__(f"sqlite:///{folder}/calls.db?timeout={seconds}", seconds=120)
        self.other = sqlite3.connect(folder / "calls.db")
        self.locked = asyncio.Event()
        self.box.add(self.lock)

    async def lock(self) -> str:
        """Hold the database."""
        self.other.execute("BEGIN IMMEDIATE")
        self.locked.set()
        return "held"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store in it, so that others can open the file."""

    async def make() -> None:
        async with Toolbox(store=f"sqlite:///{tmp_path}/calls.db") as box:
            await box.ledger.list()

    asyncio.run(make())
    return tmp_path


async def test_a_program_ends_if_a_call_of_it_could_not_be_recorded(folder: Path) -> None:
    office = Locking(folder, 0.1)

    def let_go(outcome: Outcome) -> None:
        if outcome.call.tool == "lock":
            office.other.rollback()

    office.box.observe(let_go)
    code = "print('first')\nprint(await lock())\nawait look(1)"
    shown = [item async for item in office.box.stream("run_code", {"code": code})]
    await office.box.close()
    office.other.close()

    outcome = shown.pop()
    assert isinstance(outcome, Outcome)
    assert outcome.status is Status.ERROR
    assert "its call of lock came to an unknown end" in outcome.text
    assert "1 call had been made before" in outcome.text
    assert [item.text for item in shown if isinstance(item, Text)] == ["first\n"]
    assert not office.ran


async def test_a_program_is_interrupted_while_the_end_of_its_call_is_recorded(folder: Path) -> None:
    office = Locking(folder, 4)
    code = "await lock()\nwhile True: pass"
    running = asyncio.create_task(office.box.call(Call("run_code", {"code": code}, id="mine")))
    await office.locked.wait()
    assert await office.box.interrupt("mine")
    office.other.rollback()
    assert (await running).status is Status.INTERRUPTED
    assert (await office.run("1")).value == 1
    states = {entry.call.tool: entry.state for entry in await office.box.ledger.list()}
    await office.box.close()
    office.other.close()

    assert states["lock"] == "ok"


@pytest.mark.parametrize(("tool", "foretold"), [("look", True), ("fail", True), ("pay", False)])
async def test_an_outcome_is_foretold_before_its_record_if_the_function_was_entered(
    folder: Path, tool: str, foretold: bool
) -> None:
    office = Office(f"sqlite:///{folder}/calls.db")
    other = sqlite3.connect(folder / "calls.db")
    heard = []

    def tell(outcome: Outcome) -> None:
        states = other.execute("SELECT state FROM wieldy_calls WHERE id = 'mine'").fetchall()
        heard.append((outcome, states))

    arguments: dict[str, dict[str, Any]] = {"look": {"n": 1}, "pay": {"bill": "rent"}, "fail": {}}
    call = Call(tool, arguments[tool], id="mine")
    outcome = await office.box.call_equipped(call, Extras(foretold=tell))
    (kept,) = await office.box.ledger.list()
    await office.box.close()
    other.close()

    assert heard == ([(outcome, [("started",)])] if foretold else [])
    assert kept.state == outcome.status.value


async def test_a_call_that_was_made_before_is_not_foretold(folder: Path) -> None:
    async with Toolbox(store=f"sqlite:///{folder}/calls.db") as box:

        @box.tool
        async def one() -> int:
            """Give one."""
            return 1

        add_code_mode(box.view())
        heard: list[Outcome] = []
        for _ in range(2):
            call = Call("one", {}, idempotency_key="same")
            outcome = await box.call_equipped(call, Extras(foretold=heard.append))
            assert outcome.value == 1
    assert len(heard) == 1
