"""Programs that wait for people in any place, and go on as if nothing had happened."""

from collections import Counter
from typing import Any

import pytest

from tests.tools.code_mode.conftest import Office
from wieldy import Call, Retention, Status, Toolbox, WaitsForCalls
from wieldy.agent import Agent, Budget, RunInterrupted
from wieldy.testing import ScriptedModel
from wieldy.tools.code_mode import add_code_mode

# Each is a program, what is decided about each of its calls in turn, its value, and what ran.
PAUSES: dict[str, tuple[str, list[bool], Any, list[str]]] = {
    "first": ("await pay(bill='a')\nawait look(n=1)", [True], 2, ["pay a", "look 1"]),
    "last": (
        "x = await look(n=1)\nawait pay(bill='a')",
        [True],
        {"paid": "a"},
        ["look 1", "pay a"],
    ),
    "middle": (
        "x = await look(n=1)\ny = await pay(bill='a')\nz = await look(n=2)\n[x, y, z]",
        [True],
        [2, {"paid": "a"}, 4],
        ["look 1", "pay a", "look 2"],
    ),
    "one after the other": (
        "[await pay(bill='a'), await look(n=1), await pay(bill='b')]",
        [True, True],
        [{"paid": "a"}, 2, {"paid": "b"}],
        ["pay a", "look 1", "pay b"],
    ),
    "in a loop": (
        "paid = []\nfor bill in 'abc':\n    paid.append((await pay(bill=bill))['paid'])\npaid",
        [True, True, True],
        ["a", "b", "c"],
        ["pay a", "pay b", "pay c"],
    ),
    "in a gather": (
        "import asyncio\nawait asyncio.gather(look(n=1), pay(bill='a'), look(n=2), pay(bill='b'))",
        [True, True],
        [2, {"paid": "a"}, 4, {"paid": "b"}],
        ["look 1", "look 2", "pay a", "pay b"],
    ),
    "in chains at once": (
        """
import asyncio
async def chain(bill):
    await look(n=1)
    await pay(bill=bill)
    return (await pay(bill=bill * 2))["paid"]
await asyncio.gather(chain("a"), chain("b"))
""",
        [True, True, True, True],
        ["aa", "bb"],
        ["look 1", "look 1", "pay a", "pay b", "pay aa", "pay bb"],
    ),
    "in an except block": (
        "try:\n    await fail()\nexcept RuntimeError:\n    x = await pay(bill='a')\nx",
        [True],
        {"paid": "a"},
        ["pay a"],
    ),
    "in a finally block": (
        "try:\n    x = await look(n=1)\nfinally:\n    await pay(bill='a')\nx",
        [True],
        2,
        ["look 1", "pay a"],
    ),
    "below a bare except": (
        "try:\n    x = await pay(bill='a')\nexcept:\n    x = 'swallowed'\nx",
        [True],
        {"paid": "a"},
        ["pay a"],
    ),
    "below one that catches everything, twice": (
        "x = []\nfor bill in 'ab':\n    try:\n        x.append(await pay(bill=bill))\n"
        "    except BaseException:\n        x.append(0)\n    finally:\n        x.append(1)\nx",
        [True, True],
        [{"paid": "a"}, 1, {"paid": "b"}, 1],
        ["pay a", "pay b"],
    ),
    "denied and caught": (
        "try:\n    await pay(bill='a')\nexcept PermissionError as error:\n    x = 'denied'\nx",
        [False],
        "denied",
        [],
    ),
    "denied, then another is allowed": (
        "x = None\nfor bill in 'ab':\n    try:\n        x = await pay(bill=bill)\n        break\n"
        "    except PermissionError: pass\nx",
        [False, True],
        {"paid": "b"},
        ["pay b"],
    ),
    "with chance and time": (
        "import random, time\nx = [random.random(), time.time(), list({'b', 'a', 'c'})]\n"
        "await pay(bill=str(x))\nx == [x[0], time.time(), list({'b', 'a', 'c'})]",
        [True],
        True,
        [],
    ),
}
STORES = pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])


@STORES
@pytest.mark.parametrize("name", PAUSES)
async def test_a_program_goes_on_where_it_paused(name: str, kept: bool, url: str) -> None:
    code, verdicts, value, ran = PAUSES[name]
    office = Office(url if kept else None)
    async with office.box:
        receipt = await office.run(code)
        assert receipt.status is Status.PENDING
        assert receipt.metadata["waits_for"]
        outcome = await office.decide(receipt.call.id, *verdicts)
    assert outcome.status is Status.OK, outcome.text
    assert outcome.value == value
    assert (office.ran == Counter(ran)) if ran else office.ran.total() <= 1


async def test_what_is_printed_is_in_the_result_once(url: str) -> None:
    office = Office(url)
    async with office.box:
        receipt = await office.run("print('one')\nawait pay(bill='a')\nprint('two')")
        outcome = await office.decide(receipt.call.id, True)
    assert outcome.text == "one\ntwo\n"


async def test_a_denial_that_nobody_catches_is_the_error_of_the_program(url: str) -> None:
    office = Office(url)
    async with office.box:
        receipt = await office.run("x = 1\nawait pay(bill='a')")
        outcome = await office.decide(receipt.call.id, False)
    assert outcome.status is Status.ERROR
    assert "line 2: PermissionError" in outcome.text


async def test_the_program_is_decided_through_its_calls_and_can_be_denied(url: str) -> None:
    office = Office(url)
    async with office.box as box:
        receipt = await office.run("await pay(bill='a')")
        with pytest.raises(WaitsForCalls):
            await box.approve(receipt.call.id)
        assert (await box.deny(receipt.call.id)).status is Status.DENIED
        assert await box.pending() == []
    assert not office.ran


async def test_arguments_that_a_person_edits_are_not_a_different_program(url: str) -> None:
    office = Office(url)
    async with office.box as box:
        receipt = await office.run("x = await pay(bill='a')\ny = await pay(bill='b')\n[x, y]")
        (parked,) = await box.pending()
        await box.approve(parked.id, arguments={"bill": "edited"})
        outcome = await office.decide(receipt.call.id, True)
    assert outcome.value == [{"paid": "edited"}, {"paid": "b"}]


@STORES
async def test_a_program_that_differs_when_it_runs_again_is_an_error(kept: bool, url: str) -> None:
    office = Office(url if kept else None)
    async with office.box as box:
        receipt = await office.run("x = await find_functions('later')\nawait pay(bill=str(x))")

        @box.tool
        def later() -> None:
            """Come later."""

        (parked,) = await box.pending()
        await box.approve(parked.id)
        outcome = await box.outcome(receipt.call.id)
    assert outcome.status is Status.ERROR
    assert "call 1, of pay, is not the call that it made there before" in outcome.text
    assert office.ran.total() == 1


@STORES
async def test_a_program_that_ends_without_a_call_that_it_made_is_an_error(
    kept: bool, url: str
) -> None:
    paid: list[str] = []
    async with Toolbox(store=url if kept else None) as box:

        @box.tool(permission="confirm")
        async def pay(bill: str) -> str:
            """Pay."""
            paid.append(bill)
            box.remove("pay")
            return bill

        add_code_mode(box.view())
        code = "try:\n    x = await pay(bill='a')\nexcept:\n    x = 'not paid'\nx"
        receipt = await box.call("run_code", {"code": code})
        (parked,) = await box.pending()
        await box.approve(parked.id)
        outcome = await box.outcome(receipt.call.id)
    assert outcome.status is Status.ERROR
    assert "ended after 0 of the 1 calls that it had made before" in outcome.text
    assert paid == ["a"]


@STORES
async def test_a_program_that_fails_when_it_runs_again_counts_all_calls_that_were_made(
    kept: bool, url: str
) -> None:
    office = Office(url if kept else None)
    async with office.box as box:
        receipt = await office.run("x = await look(n=1)\nawait pay(bill='a')")
        box.remove("look")
        outcome = await office.decide(receipt.call.id, True)
    assert "name 'look' is not defined" in outcome.text
    assert "2 calls had been made before." in outcome.text


async def test_a_second_program_of_the_same_id_leaves_the_first_alone() -> None:
    office = Office()
    async with office.box as box:
        first = Call("run_code", {"code": "[await look(n=1), await pay(bill='a')]"}, id="mine")
        await box.call(first)
        second = await box.call(first.replace(arguments={"code": "await pay(bill='b')"}))
        outcome = await office.decide("mine", True)
    assert second.status is not Status.OK
    assert outcome.value == [2, {"paid": "a"}]
    assert office.ran == {"look 1": 1, "pay a": 1}


async def test_a_paused_program_says_what_it_waits_for_whoever_looks(url: str) -> None:
    office = Office(url)
    async with office.box as box:
        receipt = await office.run("await pay(bill='a')")
        outcome = await box.outcome(receipt.call.id)
    assert f"waits for the calls {receipt.call.id}.0" in receipt.text
    assert outcome.text == receipt.text


async def test_rules_that_change_meanwhile_change_nothing_that_was_done(url: str) -> None:
    office = Office(url)
    code = """
try:
    x = await look(n=1)
except PermissionError:
    x = "denied"
await pay(bill=str(x))
x
"""
    async with office.box as box:
        rule = box.rules.deny("look")
        receipt = await office.run(code)
        box.rules.remove(rule)
        outcome = await office.decide(receipt.call.id, True)
    assert outcome.value == "denied"
    assert office.ran == {"pay denied": 1}


async def test_what_a_paused_program_has_done_is_not_pruned(url: str) -> None:
    office = Office(url, Retention(days=None, calls=1))
    async with office.box as box:
        receipt = await office.run("[await look(n=1), await pay(bill='a')]")
        assert (await box.call("look", {"n": 2})).ok
        await box.store.prune()
        outcome = await office.decide(receipt.call.id, True)
        assert outcome.value == [2, {"paid": "a"}]
        await box.store.prune()
        assert len(await box.ledger.list()) == 1
    assert office.ran["look 1"] == 1


async def test_an_id_that_is_as_long_as_ids_can_be_is_that_of_a_program_too(url: str) -> None:
    office = Office(url)
    async with office.box as box:
        call = Call("run_code", {"code": "[await look(n=1), await pay(bill='a')]"}, id="x" * 500)
        receipt = await box.call(call)
        outcome = await office.decide(receipt.call.id, True)
    assert outcome.value == [2, {"paid": "a"}]
    assert office.ran["look 1"] == 1


async def test_a_decision_in_another_process_lets_the_program_go_on_there(url: str) -> None:
    code = "x = await look(n=1)\ny = await pay(bill='a')\nz = await pay(bill='b')\n[x, y, z]"
    first, second = Office(url), Office(url)
    async with first.box:
        receipt = await first.run(code)
    async with second.box:
        outcome = await second.decide(receipt.call.id, True, True)
    assert outcome.value == [2, {"paid": "a"}, {"paid": "b"}]
    assert (first.ran, second.ran) == ({"look 1": 1}, {"pay a": 1, "pay b": 1})


async def test_a_process_without_code_mode_leaves_the_program_to_whoever_recovers_it(
    url: str,
) -> None:
    async with Office(url).box as box:
        receipt = await box.call("run_code", {"code": "x = await look(n=1)\nawait pay(bill='a')"})
    async with Toolbox(store=url) as elsewhere:
        (parked,) = await elsewhere.pending()
        await elsewhere.deny(parked.id)
    office = Office(url)
    async with office.box as box:
        (outcome,) = await box.recover()
    assert outcome.call.id == receipt.call.id
    assert "PermissionError" in outcome.text
    assert not office.ran


@STORES
@pytest.mark.parametrize("traced", [False, True])
async def test_what_was_counted_for_a_budget_is_not_counted_again(
    kept: bool, url: str, traced: bool, request: pytest.FixtureRequest
) -> None:
    if traced:
        request.getfixturevalue("spans")
    ran: Counter[str] = Counter()
    code = "x = [await look(n=n) for n in range(3)]\nawait pay(bill='a')\nx"
    model = ScriptedModel([[Call("run_code", {"code": code})], "Done."])
    options: dict[str, Any] = {"store": url if kept else None, "budget": Budget(calls=6)}
    agent = Agent(model, name="coder", tool_strategy="native", **options)
    box = agent.toolbox

    @box.tool(tags="inner")
    async def look(n: int) -> int:
        """Look."""
        ran[f"look {n}"] += 1
        return n

    @box.tool(tags="inner", permission="confirm")
    async def pay(bill: str) -> str:
        """Pay."""
        ran[f"pay {bill}"] += 1
        return bill

    add_code_mode(box.view(tags="inner"), tags=[agent.tag])
    with pytest.raises(RunInterrupted) as caught:
        await agent.input("Go.").async_start()
    (parked,) = caught.value.pending
    decisions = {parked.id: {"approved": True}}
    assert await agent.async_resume(caught.value.state, decisions) == "Done."
    assert model.requests[1].messages[-1]["content"] == "[0,1,2]"
    assert ran == {"look 0": 1, "look 1": 1, "look 2": 1, "pay a": 1}
    await agent.async_close()
