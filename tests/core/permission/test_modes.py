"""Permission modes: what each lets run, for whom, and what happens to calls that wait."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from wieldy import (
    Call,
    Context,
    InputNeeded,
    Limits,
    Parked,
    Permission,
    Scope,
    Secret,
    Status,
    StoreError,
    Tool,
    Toolbox,
)
from wieldy.core.choices import PermissionMode
from wieldy.core.permission.modes import MODES, Modes

RUN, ASK, DENY, DRY = "run", "ask", "deny", "dry-run"
TRAITS: dict[str, dict[str, Any]] = {
    "plain": {},
    "read-only": {"read_only": True},
    "destructive": {"destructive": True},
    "open-world": {"open_world": True},
    "unsaid, by a server": {"cautious": True, "trusted": False},
}
READS = ("read-only",)
RISKY = ("destructive", "open-world", "unsaid, by a server")


def expected(mode: str, trait: str, permission: str, rule: str | None) -> str:
    """What the page says, written down once more and in another way."""
    if permission == "deny" or rule == "deny" or (mode == "read-only" and trait not in READS):
        return DENY
    asks = rule == "ask" or (rule is None and permission == "confirm")
    if mode == "bypass" or (mode == "accept-edits" and rule is None and trait not in RISKY):
        asks = False
    if mode == "dry-run" and trait not in READS:
        return DRY
    if asks:
        return DENY if mode == "dont-ask" else ASK
    return RUN


def statuses(decision: str) -> tuple[Status, bool]:
    """How a call ends that was so decided, and whether its function was entered."""
    ends = {RUN: Status.OK, ASK: Status.PENDING, DENY: Status.DENIED, DRY: Status.OK}
    return ends[decision], decision == RUN


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trait", TRAITS)
@pytest.mark.parametrize("permission", [each.value for each in Permission])
@pytest.mark.parametrize("rule", [None, "allow", "ask", "deny"])
async def test_mode_trait_permission_and_rule_decide_and_say_so(
    mode: PermissionMode, trait: str, permission: Any, rule: str | None
) -> None:
    entered: list[str] = []

    async def touch(path: str) -> str:
        entered.append(path)
        return path

    box = Toolbox(permission_mode=mode)
    box.add(Tool(touch, permission=permission, **TRAITS[trait]))
    if rule is not None:
        getattr(box.rules, rule)("touch")
    decision = expected(mode, trait, permission, rule)

    told = await box.explain_permission("touch", {"path": "a"})
    assert told.decision == decision
    assert not entered and await box.pending() == []
    outcome = await box.call("touch", {"path": "a"})

    assert (outcome.status, bool(entered)) == statuses(decision)
    assert (outcome.metadata.get("dry_run") is True) == (decision == DRY)
    if decision == DRY:
        assert outcome.text.startswith('Not run: touch with {"path":"a"}. In the mode dry-run')
    if decision == DENY:
        assert told.because in outcome.text
    if decision in (ASK, DRY):
        assert outcome.metadata["reason"] == told.because
    offered = await box.callable_tools()
    assert bool(offered) == (decision != DENY)


def make_box(mode: PermissionMode | None = "ask", **options: Any) -> Toolbox:
    box = Toolbox(permission_mode=mode, **options)

    @box.tool(permission="confirm")
    async def write(path: str = "a") -> str:
        return f"wrote {path}"

    @box.tool(read_only=True)
    async def read(path: str = "a") -> str:
        return f"read {path}"

    return box


async def status(box: Toolbox, name: str = "write", **scope: Any) -> str:
    outcome = await box.call(Call(name, {}, Scope(**scope)))
    return "dry-run" if outcome.metadata.get("dry_run") else outcome.status.value


async def test_a_mode_is_changed_while_the_box_is_used() -> None:
    box = make_box()
    assert await status(box) == "pending"
    box.set_mode("accept-edits")
    assert await status(box) == "ok"
    box.set_mode("dont-ask")
    assert await status(box) == "denied"
    box.set_mode("dry-run")
    assert await status(box) == "dry-run"
    assert await status(box, "read") == "ok"
    assert box.permission_mode == "dry-run"


async def test_of_the_modes_that_apply_the_strictest_wins() -> None:
    box = make_box("bypass")
    box.set_mode("ask", agent="mailer")
    box.set_mode("dont-ask", session="s")
    box.set_mode("read-only", agent="mailer", session="s")

    assert await status(box) == "ok"
    assert await status(box, agent="mailer") == "pending"
    assert await status(box, session="s") == "denied"
    outcome = await box.call(Call("write", {}, Scope("mailer", "s")))
    assert "in the mode read-only" in outcome.text
    box.set_mode(None, agent="mailer", session="s")
    outcome = await box.call(Call("write", {}, Scope("mailer", "s")))
    assert "in the mode dont-ask" in outcome.text


@pytest.mark.parametrize("laxer", MODES)
@pytest.mark.parametrize("stricter", MODES)
@pytest.mark.parametrize("name", ["write", "read"])
async def test_a_session_never_gets_more_than_its_box_allows(
    laxer: PermissionMode, stricter: PermissionMode, name: str
) -> None:
    if MODES.index(laxer) > MODES.index(stricter):
        laxer, stricter = stricter, laxer
    alone = await status(make_box(stricter), name)
    for outer, inner in ((laxer, stricter), (stricter, laxer)):
        box = make_box(outer)
        box.set_mode(inner, session="s")
        order = ["ok", "pending", "dry-run", "denied"]
        worst = max(alone, await status(make_box(laxer), name), key=order.index)
        assert await status(box, name, session="s") == worst


async def test_a_box_without_a_mode_leaves_it_to_agents_and_sessions() -> None:
    box = make_box(None)
    box.set_mode("accept-edits", session="s")

    assert await status(box) == "pending"
    assert await status(box, session="s") == "ok"


async def test_what_is_nested_is_judged_by_the_mode_of_what_is_around_it() -> None:
    box = make_box("bypass")

    @box.tool(read_only=True)
    async def outer() -> str:
        return (await box.call("write")).text

    box.set_mode("dry-run", session="s")

    assert (await box.call("outer", session="s")).text.startswith("Not run: write")
    assert (await box.call("outer")).text == "wrote a"


async def test_a_view_sets_the_mode_of_its_agent() -> None:
    box = make_box("bypass")
    mailer = box.view(names="write", agent="mailer")
    mailer.set_mode("dont-ask")

    assert (await mailer.call("write")).status is Status.DENIED
    assert await status(box) == "ok"
    assert (mailer.permission_mode, box.permission_mode) == ("dont-ask", "bypass")
    with pytest.raises(ValueError, match="This view is for 'mailer', and sets no mode for 'x'"):
        mailer.set_mode("ask", agent="x")


async def test_a_view_without_an_agent_sets_no_mode_for_calls_that_are_not_its_own() -> None:
    box = make_box("read-only")
    view = box.view(names="write")
    for partial in (view, box.view(caller="ann")):
        with pytest.raises(ValueError, match="This view has no agent: name an agent or a session"):
            partial.set_mode("bypass")
    view.set_mode("bypass", session="s")
    assert await status(box) == "denied"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "readonly"}, "permission_mode must be one of .* Did you mean 'read-only'"),
        ({"mode": 3}, "permission_mode must be one of"),
        ({"mode": "ask", "agent": ""}, "an agent is text"),
        ({"mode": "ask", "session": "x" * 501}, "a session is text"),
    ],
)
def test_a_mode_that_can_not_be_set_is_refused(options: dict[str, Any], message: str) -> None:
    box = make_box()
    with pytest.raises(ValueError, match=message):
        box.set_mode(**options)
    assert box.permission_mode == "ask"


# What becomes of an approved call if the mode was changed while it waited.
AFTER_WAITING = {
    "bypass": "ok",
    "accept-edits": "ok",
    "ask": "ok",
    "dont-ask": "ok",
    "dry-run": "dry-run",
    "read-only": "denied",
}


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_waited_for_a_person_is_judged_again(
    mode: PermissionMode, kept: bool, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"store": f"sqlite:///{tmp_path}/s.db"} if kept else {}
    async with make_box(**options) as box:
        receipt = await box.call("write")
        box.set_mode(mode)

        outcome = await box.approve(receipt.call.id, by="ann")

        found = "dry-run" if outcome.metadata.get("dry_run") else outcome.status.value
        assert found == AFTER_WAITING[mode]
        if kept:
            entry = await box.ledger.get(receipt.call.id)
            assert entry is not None and entry.state == AFTER_WAITING[mode].replace("-", "_")


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_waited_in_a_queue_is_judged_again(mode: PermissionMode) -> None:
    box, go, entered = Toolbox(), asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    @box.tool(concurrency=1)
    async def write(n: int) -> int:
        ran.append(n)
        entered.set()
        await go.wait()
        return n

    first = asyncio.create_task(box.call("write", {"n": 1}))
    await asyncio.wait_for(entered.wait(), 120)
    second = asyncio.create_task(box.call("write", {"n": 2}))
    await asyncio.sleep(0)
    box.set_mode(mode)
    go.set()

    await first
    outcome = await second
    held = mode in ("dry-run", "read-only")
    assert ran == ([1] if held else [1, 2])
    assert (outcome.status is Status.DENIED) == (mode == "read-only")
    assert ("dry_run" in outcome.metadata) == (mode == "dry-run")


@pytest.mark.parametrize("kept", [False, True])
async def test_a_call_that_waited_for_a_worker_is_judged_again(kept: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"store": f"sqlite:///{tmp_path}/s.db"} if kept else {}
    ran: list[int] = []
    go, entered = threading.Event(), threading.Event()
    async with Toolbox(threads=1, **options) as box:

        @box.tool
        def write(n: int) -> int:
            ran.append(n)
            entered.set()
            go.wait(120)
            return n

        first = asyncio.create_task(box.call("write", {"n": 1}))
        await asyncio.to_thread(entered.wait, 120)
        call = Call("write", {"n": 2})
        second = asyncio.create_task(box.call(call))
        for _ in range(20):
            await asyncio.sleep(0)
        if kept:
            async for entry in box.ledger.follow(state="started", last=5):
                if entry.call.id == call.id:
                    break
        box.set_mode("dry-run")
        go.set()

        await first
        outcome = await second
        assert outcome.text.startswith('Not run: write with {"n":2}.')
        assert ran == [1]
        if kept:
            found = await box.ledger.get(call.id)
            assert found is not None and found.state == "dry_run"


async def test_a_call_that_waited_for_its_rate_is_judged_again() -> None:
    box = Toolbox()
    ran: list[int] = []

    @box.tool(limits=Limits(rate=(1, 0.2)))
    async def write(n: int) -> int:
        ran.append(n)
        return n

    await box.call("write", {"n": 1})
    second = asyncio.create_task(box.call("write", {"n": 2}))
    await asyncio.sleep(0)
    box.set_mode("dry-run")

    assert (await second).text.startswith('Not run: write with {"n":2}.')
    assert ran == [1]


async def test_a_mode_set_while_an_approver_thinks_counts() -> None:
    box: Toolbox

    async def approver(parked: Parked) -> bool:
        box.set_mode("dry-run")
        return True

    box = make_box(approver=approver)
    assert await status(box) == "dry-run"


async def test_what_an_approver_agreed_to_runs_in_a_mode_in_which_nobody_is_asked() -> None:
    box: Toolbox

    async def approver(parked: Parked) -> bool:
        box.set_mode("dont-ask")
        return parked.scope.session == "s"

    box = make_box(approver=approver)
    assert (await box.call("write", session="s")).value == "wrote a"
    box.set_mode("ask")
    assert await status(box) == "denied"


async def test_a_call_that_waited_for_its_store_is_judged_again(tmp_path: Path) -> None:
    ran: list[int] = []
    judged = asyncio.Event()
    async with Toolbox(store=f"sqlite:///{tmp_path}/s.db") as box:

        @box.tool
        async def write(n: int) -> int:
            ran.append(n)
            return n

        def note(n: int) -> bool:
            judged.set()
            return False

        await box.call("write", {"n": 1})
        box.rules.ask("write", where={"n": note})
        with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            second = asyncio.create_task(box.call("write", {"n": 2}))
            await asyncio.wait_for(judged.wait(), 120)
            box.rules.deny("write")
            other.execute("ROLLBACK")

        outcome = await second
        assert (outcome.status, ran) == (Status.DENIED, [1])
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None and entry.state == "denied"


@pytest.mark.parametrize("kept", [False, True])
async def test_a_simulation_that_asks_for_input_fails_and_leaves_nothing_waiting(
    kept: bool, tmp_path: Path
) -> None:
    def ask() -> None:
        raise InputNeeded({"name": {}})

    options: dict[str, Any] = {"store": f"sqlite:///{tmp_path}/s.db"} if kept else {}
    async with Toolbox(permission_mode="dry-run", **options) as box:
        box.add(lambda: "wrote", name="write", simulate=ask)
        outcome = await box.call("write")
        assert (outcome.status, outcome.metadata["dry_run"]) == (Status.ERROR, True)
        assert await box.pending() == []


async def test_a_read_only_tool_that_asks_parks_in_dry_run() -> None:
    box = Toolbox(permission_mode="dry-run")

    @box.tool(read_only=True, permission="confirm")
    async def read() -> str:
        return "read"

    receipt = await box.call("read")
    assert receipt.status is Status.PENDING
    assert (await box.approve(receipt.call.id)).value == "read"


async def test_dry_run_shows_repaired_arguments_and_no_secret() -> None:
    box = Toolbox(permission_mode="dry-run")

    @box.tool
    async def login(times: int, password: Secret) -> str:
        return "in"

    box.rules.ask("login", reason="logins are looked at")
    outcome = await box.call("login", {"times": "2", "password": "tiger-tiger"})

    assert outcome.text == (
        'Not run: login with {"times":2,"password":"**********"}. In the mode dry-run, only '
        "read-only tools run; without it a person would be asked: logins are looked at."
    )
    assert outcome.ok and outcome.value == outcome.text
    assert outcome.metadata["repairs"][0]["path"] == "times"


@pytest.mark.parametrize("kind", ["async", "blocking", "context"])
async def test_a_tool_brings_a_function_that_answers_in_its_place(kind: str) -> None:
    async def simulated(path: str) -> str:
        return f"would write {path}"

    def simulated_blocking(path: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return f"would write {path}"

    async def simulated_in_context(path: str, context: Context) -> str:
        return f"would write {path}{context.scope.session or ''}"

    chosen: dict[str, Any] = {
        "async": simulated,
        "blocking": simulated_blocking,
        "context": simulated_in_context,
    }
    box = Toolbox(permission_mode="dry-run")

    @box.tool(simulate=chosen[kind])
    async def write(path: str) -> str:
        raise AssertionError("it ran")

    outcome = await box.call("write", {"path": "a"}, check_output=True)

    assert outcome.value == outcome.text == "would write a"
    assert outcome.metadata["dry_run"] and outcome.metadata["simulated"]
    box.rules.deny("write")
    assert (await box.call("write", {"path": "a"})).status is Status.DENIED


async def test_a_function_that_fails_in_a_tool_s_place_is_an_error() -> None:
    box = Toolbox(permission_mode="dry-run")

    def simulate() -> str:
        raise ValueError("no idea")

    @box.tool(simulate=simulate)
    async def write() -> str:
        return "ran"

    outcome = await box.call("write")
    assert (outcome.status, outcome.text) == (Status.ERROR, "ValueError: no idea")


async def test_a_result_that_says_that_nothing_ran_is_not_held_to_the_output_schema() -> None:
    box = Toolbox(permission_mode="dry-run", check_output=True)

    @box.tool
    async def count() -> dict[str, int]:
        return {"n": 1}

    for check_output in (False, True):
        outcome = await box.call("count", check_output=check_output)
        assert outcome.ok and outcome.text.startswith("Not run: count. In the mode")


async def test_a_dry_run_is_a_row_of_its_own_state_and_leaves_its_key_free(
    tmp_path: Path,
) -> None:
    async with make_box("dry-run", store=f"sqlite:///{tmp_path}/s.db") as box:
        outcome = await box.call("write", {"path": "b"}, idempotency_key="k")
        [entry] = await box.ledger.list(state="dry_run")
        assert (entry.state, entry.status, entry.text) == ("dry_run", Status.OK, outcome.text)
        assert entry.call.arguments == {"path": "b"} and entry.started_at is None
        assert entry.because == outcome.metadata["reason"]

        box.set_mode("ask")
        parked = await box.call("write", {"path": "b"}, idempotency_key="k")
        assert parked.status is Status.PENDING
        box.set_mode("dry-run")
        assert (await box.approve(parked.call.id)).metadata["dry_run"]

        box.set_mode("bypass")
        again = await box.call("write", {"path": "b"}, idempotency_key="k")
        assert again.value == "wrote b"


async def test_every_change_of_a_mode_is_in_the_ledger(tmp_path: Path) -> None:
    async with make_box(store=f"sqlite:///{tmp_path}/s.db") as box:
        box.set_mode("read-only", by="ann")
        box.set_mode("dry-run", agent="mailer", session="s")
        box.set_mode("dry-run", agent="mailer", session="s")
        box.set_mode(None)
        rows = (await box.ledger.list(state="mode"))[::-1]

        assert [(row.call.arguments, row.text) for row in rows] == [
            (
                {"mode": "read-only", "agent": None, "session": None, "by": "ann"},
                "ask → read-only",
            ),
            (
                {"mode": "dry-run", "agent": "mailer", "session": "s", "by": None},
                "none → dry-run",
            ),
            ({"mode": None, "agent": None, "session": None, "by": None}, "read-only → none"),
        ]
        assert [row.call.scope.session for row in rows] == [None, "s", None]
        assert rows[0].because == "the mode was changed by ann"


def test_a_mode_is_changed_and_recorded_from_blocking_code(tmp_path: Path) -> None:
    box = make_box(store=f"sqlite:///{tmp_path}/s.db")
    box.set_mode("read-only")
    assert box.call_sync("write").status is Status.DENIED

    async def states() -> list[str]:
        found = [entry.state for entry in await box.ledger.list()]
        await box.close()
        return found

    assert asyncio.run(states()) == ["denied", "mode"]


async def test_a_change_that_can_not_be_recorded_holds_back_and_lets_nothing_through(
    tmp_path: Path,
) -> None:
    box = make_box("bypass", store=f"sqlite:///{tmp_path}/no/such/folder/s.db")
    with pytest.raises(StoreError):
        box.set_mode("read-only")
    assert box.permission_mode == "read-only"
    with pytest.raises(StoreError):
        box.set_mode("bypass")
    assert box.permission_mode == "read-only"
    await box.close()


@pytest.mark.parametrize(
    ("mode", "agents", "tightens"),
    [
        # The mode of the box, that of one of its agents, and whether taking back the first
        # holds back no less than before.
        ("ask", None, True),
        ("bypass", None, True),
        ("read-only", None, False),
        ("ask", "dont-ask", True),
        ("ask", "bypass", False),
        ("bypass", "bypass", True),
        ("accept-edits", "bypass", False),
    ],
)
def test_taking_a_mode_back_counts_before_its_record_only_if_nothing_laxer_is_set(
    mode: PermissionMode, agents: PermissionMode | None, tightens: bool
) -> None:
    modes = Modes(mode, lambda: None)
    if agents is not None:
        modes.apply(modes.plan_change(agents, "mailer", None, None))
    assert modes.plan_change(None, None, None, None).tightens is tightens


async def test_whoever_watches_the_box_is_told_of_a_changed_mode() -> None:
    box = make_box()
    told: list[str | None] = []
    box.watch(told.append)
    before = await box.rules_in_force()
    box.set_mode("read-only")

    assert told == [None]
    assert await box.rules_in_force() != before
    assert [tool.name for tool in await box.callable_tools()] == ["read"]


def test_the_modes_are_named_from_the_laxest_to_the_strictest() -> None:
    assert get_args(PermissionMode) == (
        "bypass",
        "accept-edits",
        "ask",
        "dont-ask",
        "dry-run",
        "read-only",
    )
