"""A run that gets further each time is not given up, however often its process dies."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.agent.runs.conftest import Execute
from tests.agent.runs.dying_team import ROUNDS, make_team
from tests.forking.forked_program import ForkedProgram
from tests.store.child import eventually
from wieldy import AlreadyDecided, Call, Outcome, Status, Toolbox
from wieldy.agent import Agent, RunEnded, RunInterrupted, RunKeeper, ServedAgent
from wieldy.store.left_runs import MAX_TRIES
from wieldy.testing import ScriptedModel

TEAM = str(Path(__file__).with_name("dying_team.py"))


def live(url: str, folder: Path, how: str, death: int) -> int:
    """One life of the program; gives how it ended."""
    program = ForkedProgram([TEAM, url, str(folder), how, str(death)])
    code = program.wait()
    program.close()
    return code


@pytest.mark.parametrize("how", ["keeper", "hand", "served", "code"])
async def test_ten_deaths_one_round_apart_end_no_run(url: str, tmp_path: Path, how: str) -> None:
    for death in range(1, ROUNDS + 1):
        assert live(url, tmp_path, how, death) == -signal.SIGKILL
    assert live(url, tmp_path, how, -1) == 0

    writer = make_team(url, tmp_path, program=how == "code")
    async with writer.toolbox:
        box = ServedAgent(writer).box if how == "served" else writer.toolbox
        states = {run.agent: run.state for run in await box.store.runs.list()}
        assert states == {"writer": "interrupted", "researcher": "interrupted"}
        [pay] = await box.pending()
        assert pay.tool == "pay"
        await box.approve(pay.id, by="ann")
        [run] = await box.store.runs.list(agent="writer")
        if how == "hand":
            assert await writer.async_resume(run.id) == "So it is."
        else:
            async with RunKeeper(writer).keeping():
                done = await box.store.runs.until(run.id, lambda each: each.state == "done")
                assert done.answer["text"] == "So it is."

    expected = [*(f"note {n}" for n in range(ROUNDS)), f"pay {ROUNDS}"]
    assert (tmp_path / "effects").read_text().splitlines() == expected


async def test_deaths_in_one_place_are_still_counted(
    url: str, tmp_path: Path, execute: Execute
) -> None:
    for _ in range(MAX_TRIES + 1):
        execute("UPDATE wieldy_runs SET changed_at = 0")
        assert live(url, tmp_path, "keeper", 2) == -signal.SIGKILL

    writer = make_team(url, tmp_path)
    async with writer.toolbox:
        runs = writer.toolbox.store.runs
        [run] = await runs.list(outermost=True)
        async with RunKeeper(writer).keeping():
            run = await runs.until(run.id, lambda each: each.state == "failed")
        [below] = await runs.inside(run.id)
        assert (below.state, "is given up" in (below.error or "")) == ("cancelled", True)

        # Who resumes it by hand starts anew, with what is below.
        execute("UPDATE wieldy_runs SET changed_at = 0")
    assert live(url, tmp_path, "hand", 4) == -signal.SIGKILL
    assert live(url, tmp_path, "keeper", -1) == 0
    writer = make_team(url, tmp_path)
    async with writer.toolbox:
        [pay] = await writer.toolbox.pending()
        assert pay.tool == "pay"


class House:
    """A writer that asks a buyer, whose payment waits."""

    def __init__(self, url: str) -> None:
        self.paid: list[int] = []
        self.box = box = Toolbox(store=url)
        native: dict[str, Any] = {"tool_strategy": "native", "toolbox": box}
        pays = [Call("pay", {"n": 1}), "Paid."]
        self.buyer = Agent(ScriptedModel(pays), name="buyer", **native)
        asks = [Call("buyer", {"query": "Buy."}), "Bought."]
        self.writer = Agent(ScriptedModel(asks), name="writer", **native).use_tools(self.buyer)

        @box.tool(tags=[self.buyer.tag], permission="confirm")
        async def pay(n: int) -> str:
            """Pay."""
            self.paid.append(n)
            return "paid"

    async def wait_for_payment(self) -> tuple[str, str]:
        """Run until the payment waits; gives the run and the call."""
        response = self.writer.input("Go.").get_response()
        with pytest.raises(RunInterrupted):
            await response.async_get_data()
        [pay] = await self.box.pending()
        return response.run_id, pay.id


async def test_a_run_that_is_given_up_ends_what_waits_below_it(url: str, execute: Execute) -> None:
    house = House(url)
    async with house.box as box:
        run_id, call_id = await house.wait_for_payment()
        died = f"state = 'crashed', tries = {MAX_TRIES}, tried_step = steps"
        execute(f"UPDATE wieldy_runs SET {died} WHERE id = '{run_id}'")
        waiting = asyncio.create_task(box.wait(call_id, timeout=120))

        async with RunKeeper(house.writer).keeping():
            await box.store.runs.until(run_id, lambda run: run.state == "failed")

        states = {run.agent: run.state for run in await box.store.runs.list()}
        assert states == {"writer": "failed", "buyer": "cancelled"}
        outcome = await waiting
        assert outcome.status is Status.DENIED
        assert f"the run {run_id}, which needs it, is given up" in str(outcome.error)
        assert await box.pending() == []
        with pytest.raises(AlreadyDecided, match="is given up"):
            await box.approve(call_id, by="ann")
    assert house.paid == []


@pytest.mark.parametrize("state", ["done", "cancelled", "failed"])
async def test_a_call_of_a_run_that_has_ended_is_not_approved(
    url: str, execute: Execute, state: str
) -> None:
    house = House(url)
    async with house.box as box:
        run_id, call_id = await house.wait_for_payment()
        execute(f"UPDATE wieldy_runs SET state = '{state}' WHERE id = '{run_id}'")

        with pytest.raises(RunEnded, match=f"its run {run_id} is {state}") as caught:
            await box.approve(call_id, by="ann")

        assert (caught.value.run_id, caught.value.call_id) == (run_id, call_id)
        entry = await box.ledger.get(call_id)
        assert entry is not None and entry.state == "pending"
        assert (await box.deny(call_id, by="ann")).status is Status.DENIED
    assert house.paid == []


async def test_a_cancelled_run_cancels_the_runs_below_it(url: str) -> None:
    house = House(url)
    async with house.box as box:
        run_id, call_id = await house.wait_for_payment()
        held = asyncio.Event()

        async def hold(receipt: Outcome) -> Outcome:
            held.set()
            await asyncio.Event().wait()
            return receipt

        response = house.writer.resume_response(run_id, decide=hold)
        reading = asyncio.create_task(response.async_get_data())
        await held.wait()
        response.cancel()
        await asyncio.wait([reading])

        async def denied() -> bool:
            entry = await box.ledger.get(call_id)
            return entry is not None and entry.state == "denied"

        await eventually(denied)
        states = {run.agent: run.state for run in await box.store.runs.list()}
        assert states == {"writer": "cancelled", "buyer": "cancelled"}
    assert house.paid == []
