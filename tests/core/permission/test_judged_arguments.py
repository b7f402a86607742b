"""What was judged, approved and recorded is what the function gets, by the rules of that moment."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict

from wieldy import ActiveCall, Handler, Outcome, Parked, Status, Toolbox

SOON = 120.0
CLEAN = {"paths": ["/tmp/a"], "more": {"deep": [{"path": "/tmp/b"}]}}


def clean() -> dict[str, Any]:
    return {"it": {"paths": ["/tmp/a"], "more": {"deep": [{"path": "/tmp/b"}]}}}


def spoil(arguments: Any) -> None:
    """Change everything that can be changed in arguments that somebody has kept."""
    it = arguments["it"]
    it["paths"][0] = "/etc/passwd"
    it["more"]["deep"][0]["path"] = "/etc/shadow"
    it["added"] = "/etc/hosts"


class Desk:
    """A tool that notes what it gets, and a way to make its calls wait."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.entered = asyncio.Event()
        self.go = asyncio.Event()

    async def work(self, it: Any) -> None:
        self.got.append(it)
        self.entered.set()
        await self.go.wait()


async def turns() -> None:
    """Let whoever is ready go on, until it stands in a queue."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture(params=["memory", "store"])
async def make_box(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Callable[..., Toolbox]]:
    made: list[Toolbox] = []

    def make(**options: Any) -> Toolbox:
        store = f"sqlite:///{tmp_path / 'calls.db'}" if request.param == "store" else None
        made.append(Toolbox(store=store, **options))
        return made[-1]

    yield make
    for box in made:
        await box.close()


Box = Callable[..., Toolbox]


@pytest.mark.parametrize("limits", [{"concurrency": 1}, {"exclusive": True}])
@pytest.mark.parametrize(("verdict", "expected"), [("deny", "denied"), ("ask", "pending")])
async def test_a_rule_made_while_a_call_stands_in_a_queue_counts(
    make_box: Box, limits: dict[str, Any], verdict: str, expected: str
) -> None:
    box, desk = make_box(), Desk()
    box.add(desk.work, **limits)
    first = asyncio.create_task(box.call("work", clean()))
    await asyncio.wait_for(desk.entered.wait(), SOON)
    second = asyncio.create_task(box.call("work", clean()))
    await turns()
    getattr(box.rules, verdict)("work", where={"it.paths": "/tmp/*"})
    desk.go.set()
    assert (await asyncio.wait_for(first, SOON)).status is Status.OK
    assert (await asyncio.wait_for(second, SOON)).status.value == expected
    assert len(desk.got) == 1


async def test_a_rule_made_while_an_ordinary_call_waits_for_an_exclusive_one_counts(
    make_box: Box,
) -> None:
    box, desk, ran = make_box(), Desk(), []
    box.add(desk.work, exclusive=True)

    @box.tool
    async def plain() -> None:
        ran.append(1)

    first = asyncio.create_task(box.call("work", clean()))
    await asyncio.wait_for(desk.entered.wait(), SOON)
    second = asyncio.create_task(box.call("plain"))
    await turns()
    box.rules.deny("plain")
    desk.go.set()
    await asyncio.wait_for(first, SOON)
    assert (await asyncio.wait_for(second, SOON)).status is Status.DENIED
    assert ran == []


async def test_a_rule_made_while_an_approver_thinks_counts(make_box: Box) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def approver(parked: Parked) -> bool:
        asked.set()
        await go.wait()
        return True

    box, desk = make_box(approver=approver), Desk()
    box.add(desk.work, permission="confirm")
    task = asyncio.create_task(box.call("work", clean()))
    await asyncio.wait_for(asked.wait(), SOON)
    box.rules.deny("work")
    go.set()
    assert (await asyncio.wait_for(task, SOON)).status is Status.DENIED
    assert desk.got == []


@pytest.mark.parametrize("verdict", ["deny", "ask"])
async def test_a_rule_made_while_a_call_waits_for_its_rate_counts(
    make_box: Box, verdict: str
) -> None:
    box, ran = make_box(), []

    @box.tool(rate="1/s")
    async def work() -> None:
        ran.append(1)

    assert (await box.call("work")).status is Status.OK
    second = asyncio.create_task(box.call("work"))
    await turns()
    getattr(box.rules, verdict)("work", reason="no more")
    outcome = await asyncio.wait_for(second, SOON)
    assert (outcome.status, "no more" in outcome.text) == (Status.DENIED, True)
    assert ran == [1]


@pytest.mark.parametrize("verdict", ["deny", "ask"])
async def test_a_rule_made_while_a_call_waits_for_a_worker_counts(
    make_box: Box, verdict: str
) -> None:
    box, release, inside, ran = make_box(), threading.Event(), threading.Semaphore(0), []

    @box.tool
    def hold() -> None:
        inside.release()
        release.wait(SOON)

    @box.tool
    def work() -> None:
        ran.append(1)

    holding = [asyncio.create_task(box.call("hold")) for _ in range(40)]
    for _ in holding:
        assert await asyncio.to_thread(inside.acquire, timeout=SOON)
    waiting = asyncio.create_task(box.call("work"))
    await turns()
    getattr(box.rules, verdict)("work", reason="no more")
    release.set()
    await asyncio.wait_for(asyncio.gather(*holding), SOON)
    outcome = await asyncio.wait_for(waiting, SOON)
    assert (outcome.status, "no more" in outcome.text, ran) == (Status.DENIED, True, [])


@pytest.mark.parametrize("verdict", ["deny", "ask"])
async def test_a_rule_made_before_another_try_counts(make_box: Box, verdict: str) -> None:
    box, tries = make_box(), []

    @box.tool(retries=3, read_only=True)
    async def work() -> None:
        tries.append(1)
        getattr(box.rules, verdict)("work", reason="no more")
        raise OSError("not now")

    outcome = await asyncio.wait_for(box.call("work"), SOON)
    assert (outcome.status, outcome.metadata["not_retried"]) == (Status.ERROR, "no more")
    assert tries == [1]


async def test_an_approved_call_is_tried_again_without_being_asked_about_again(
    make_box: Box,
) -> None:
    box, tries = make_box(), []

    @box.tool(retries=1, read_only=True, permission="confirm")
    async def work() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not now")
        return "done"

    parked = await box.call("work")
    assert (await box.approve(parked.call.id)).value == "done"


async def test_another_try_gets_what_the_first_one_got(make_box: Box) -> None:
    box, got = make_box(), []

    @box.tool(retries=1, read_only=True)
    async def work(it: Any) -> None:
        got.append(str(it))
        spoil({"it": it})
        raise OSError("not now")

    await asyncio.wait_for(box.call("work", clean()), SOON)
    assert got == [str(CLEAN)] * 2


async def test_what_a_caller_changes_while_its_judged_call_waits_does_not_run(
    make_box: Box,
) -> None:
    box, desk = make_box(), Desk()
    box.add(desk.work, concurrency=1)
    box.rules.deny("work", where={"it": "/etc/**"})
    first = asyncio.create_task(box.call("work", clean()))
    await asyncio.wait_for(desk.entered.wait(), SOON)
    arguments = clean()
    second = asyncio.create_task(box.call("work", arguments))
    await turns()
    spoil(arguments)
    desk.go.set()
    await asyncio.wait_for(asyncio.gather(first, second), SOON)
    assert desk.got == [CLEAN, CLEAN]


async def test_what_a_caller_changes_while_its_function_waits_for_a_thread_does_not_run(
    make_box: Box,
) -> None:
    box, got = make_box(), []
    arguments = clean()

    def seen(it: Any) -> bool:
        # Judged on the loop, entered on a thread that begins after this returns.
        asyncio.get_running_loop().call_soon(spoil, arguments)
        return True

    @box.tool(permission="confirm")
    def work(it: Any) -> None:
        got.append(it)

    box.rules.allow("work", where={"it.paths": seen})
    assert (await box.call("work", arguments)).status is Status.OK
    assert got == [CLEAN]


async def test_what_a_middleware_changes_after_the_judgement_does_not_run(make_box: Box) -> None:
    started = asyncio.Event()

    async def sneak(active: ActiveCall, proceed: Handler) -> Outcome:
        values, sent = active.values, active.call.arguments
        task = asyncio.ensure_future(proceed(active))
        await started.wait()
        spoil(values)
        if sent is not values:
            spoil(sent)
        desk.go.set()
        return await task

    async def approver(parked: Parked) -> bool:
        started.set()
        await desk.go.wait()
        return True

    box, desk = make_box(middleware=[sneak], approver=approver), Desk()
    box.add(desk.work, permission="confirm")
    assert (await asyncio.wait_for(box.call("work", clean()), SOON)).status is Status.OK
    assert desk.got == [CLEAN]


@pytest.mark.parametrize("answer", [True, None])
async def test_what_an_approver_does_to_its_copy_changes_nothing(
    make_box: Box, answer: bool | None
) -> None:
    def approver(parked: Parked) -> bool | None:
        spoil(parked.arguments)
        spoil(parked.shown)
        return answer

    box, desk = make_box(approver=approver), Desk()
    desk.go.set()
    box.add(desk.work, permission="confirm")
    outcome = await box.call("work", clean())
    if answer is None:
        (waiting,) = await box.pending()
        assert waiting.arguments == clean()
        outcome = await box.approve(outcome.call.id)
    assert outcome.status is Status.OK
    assert desk.got == [CLEAN]


async def test_what_becomes_of_receipts_and_listed_calls_changes_nothing(make_box: Box) -> None:
    def observer(outcome: Outcome) -> None:
        spoil(outcome.call.arguments)

    box, desk = make_box(observers=[observer]), Desk()
    desk.go.set()
    box.add(desk.work, permission="confirm")
    receipt = await box.call("work", clean())
    spoil(receipt.call.arguments)
    for waiting in await box.pending():
        spoil(waiting.arguments)
        spoil(waiting.call.arguments)
    assert [each.arguments for each in await box.pending()] == [clean()]
    assert (await box.approve(receipt.call.id)).status is Status.OK
    assert desk.got == [CLEAN]


async def test_edited_arguments_run_as_they_were_when_they_were_approved(make_box: Box) -> None:
    box, desk = make_box(), Desk()
    box.add(desk.work, permission="confirm", concurrency=1)
    first = await box.call("work", clean())
    running = asyncio.create_task(box.approve(first.call.id))
    await asyncio.wait_for(desk.entered.wait(), SOON)
    second = await box.call("work", {"it": {}})
    edited = clean()
    waiting = asyncio.create_task(box.approve(second.call.id, arguments=edited))
    await turns()
    spoil(edited)
    desk.go.set()
    outcomes = await asyncio.wait_for(asyncio.gather(running, waiting), SOON)
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 2
    assert desk.got == [CLEAN, CLEAN]


async def test_what_is_recorded_is_what_the_function_got(tmp_path: Path) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path / 'calls.db'}") as box:
        desk = Desk()
        box.add(desk.work, concurrency=1)
        first = asyncio.create_task(box.call("work", clean()))
        await asyncio.wait_for(desk.entered.wait(), SOON)
        arguments = clean()
        second = asyncio.create_task(box.call("work", arguments))
        await turns()
        spoil(arguments)
        desk.go.set()
        await asyncio.wait_for(asyncio.gather(first, second), SOON)
        rows = await box.ledger.list()
    assert [row.call.arguments for row in rows] == [clean(), clean()]
    assert desk.got == [CLEAN, CLEAN]


class Order(BaseModel):
    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)
    items: list[Any]


@dataclass(frozen=True, slots=True)
class Batch:
    orders: list[Any] = field(default_factory=list)


class Pair(NamedTuple):
    left: list[Any]
    right: Any


class Handle:
    """Something of the program's own, which nobody copies."""


@pytest.mark.parametrize(
    "make",
    [
        lambda inner: Order(items=inner),
        lambda inner: Order.model_validate({"items": [], "more": inner}),
        lambda inner: Batch(inner),
        lambda inner: [Batch([Order(items=inner)])],
        lambda inner: Pair(inner, 1),
        lambda inner: {"a": (inner,)},
    ],
)
async def test_models_and_dataclasses_are_copied_and_other_objects_are_not(
    make: Callable[[list[Any]], Any],
) -> None:
    handle = Handle()
    inner: list[Any] = ["/tmp/a", handle]
    got: list[Any] = []
    box = Toolbox()

    def look(value: Any) -> bool:
        inner[0] = "/etc/passwd"
        return False

    async def work(it: Any, last: str = "") -> None:
        got.append(it)

    box.add(work)
    box.rules.deny("work", where={"last": look})
    assert (await box.call("work", {"it": make(inner)})).status is Status.OK
    assert got == [make(["/tmp/a", handle])]


async def test_data_that_holds_itself_is_refused_with_the_reason() -> None:
    box, got = Toolbox(), []

    async def work(it: Any, path: str) -> None:
        got.append(it)

    box.add(work)
    box.rules.deny("work", where={"path": "/etc/*"})
    ring: list[Any] = ["a"]
    ring.append(ring)
    outcome = await box.call("work", {"it": ring, "path": "/tmp/a"})
    assert outcome.status is Status.ERROR
    assert "nested more than 100 levels deep" in outcome.text
    assert got == []
