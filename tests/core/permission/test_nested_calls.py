"""What restricts a call restricts the calls inside it, whoever they say they are."""

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import wieldy
from tests.execution import nested_tools
from wieldy import Call, CallNotFound, CallsNeeded, Context, Outcome, Scope, Status, Toolbox
from wieldy.core.choices import PermissionName
from wieldy.core.limits.budget import Budget
from wieldy.core.limits.call_limits import TooManyCalls
from wieldy.core.limits.spending import Spending, current_spending
from wieldy.core.permission.deciders import MayNotDecide, check_approver, check_denier
from wieldy.tools.code_mode.code_tool import add_code_mode

BOSS = Scope(agent="boss", session="s1", caller="ann")
# Somebody else in every respect.
HELPER = Scope(agent="helper", session="s2", caller="bob")
Ask = Callable[[Toolbox, Scope], Awaitable[str]]


def wipe(path: str = "a") -> str:
    """Wipe."""
    return f"wiped {path}"


def call_of_helper() -> Call:
    """A call that names somebody else than whoever it is nested in."""
    return Call("wipe", {}, HELPER)


class Places:
    """Tools that call `wipe` in somebody else's name, each from another place."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    async def awaited(self, context: Context) -> str:
        return (await context.call(call_of_helper())).status.value

    async def through_a_view(self) -> str:
        return (await self._box.view(agent="helper").call(call_of_helper())).status.value

    async def in_a_task(self, context: Context) -> str:
        return (await asyncio.create_task(context.call(call_of_helper()))).status.value

    async def deeper(self, context: Context) -> str:
        third = Call("awaited", {}, Scope("other", "s3", caller="eve"))
        return str((await context.call(third)).value)

    async def streamed(self) -> str:
        items = [item async for item in self._box.stream(call_of_helper())]
        assert isinstance(items[-1], Outcome)
        return items[-1].status.value

    async def many(self) -> str:
        (outcome,) = await self._box.call_many([call_of_helper()])
        return outcome.status.value

    def blocking(self, context: Context) -> str:
        return context.call_sync(call_of_helper()).status.value

    def in_a_pool(self, context: Context) -> str:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(context.call_sync, call_of_helper()).result().status.value

    def in_a_thread(self, context: Context) -> str:
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(self.blocking(context)))
        thread.start()
        thread.join()
        return found[0]

    async def in_an_executor(self, context: Context) -> str:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self.blocking, context)

    def on_a_loop_of_its_own(self, context: Context) -> str:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(self.awaited(context))).result()

    def carried(self) -> str:
        call = wieldy.carry(self._box.call_sync)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call, call_of_helper()).result().status.value


def make_box(permission: PermissionName = "auto", **options: Any) -> Toolbox:
    """A box with `wipe`, and tools that call it from everywhere a call can come."""
    box = Toolbox(**options)
    box.add(wipe, destructive=True, tags="files", permission=permission)
    box.add_object(Places(box))
    box.add(nested_tools.call_wipe, name="in_a_worker", isolation="process")
    thread = nested_tools.call_wipe_in_a_thread
    box.add(thread, name="in_a_thread_of_a_worker", isolation="process")
    add_code_mode(box.view(names=["wipe"], agent="helper", session="s2", caller="bob"))
    return box


PLACES = [
    "awaited", "through_a_view", "in_a_task", "deeper", "streamed", "many", "blocking",
    "in_a_pool", "in_a_thread", "in_an_executor", "on_a_loop_of_its_own", "carried", "in_a_worker",
    "in_a_thread_of_a_worker", "run_code",
]  # fmt: skip
RULES: dict[str, dict[str, Any]] = {
    "session": {"session": "s1"},
    "agent": {"agent": "boss"},
    "caller": {"caller": "ann"},
    "all of them": {"session": "s1", "agent": "boss", "caller": "ann"},
    "untrusted": {"untrusted": True},
    "untrusted and a session": {"untrusted": True, "session": "s1"},
    "destructive": {"destructive": True, "session": "s1"},
    "where": {"where": {"path": "a"}, "session": "s1"},
    "tags": {"tags": "files", "session": "s1"},
    "source": {"source": "python", "session": "s1"},
    "group": {"group": "basic", "session": "s1"},
    "trusted": {"trusted": True, "session": "s1"},
    "read_only": {"read_only": False, "session": "s1"},
    "idempotent": {"idempotent": False, "session": "s1"},
    "open_world": {"open_world": False, "session": "s1"},
}


async def status(box: Toolbox, place: str, scope: Scope = BOSS) -> str:
    """How the call of `wipe` ends that is made there."""
    if place == "run_code":
        outcome = await box.call(Call("run_code", {"code": "await wipe()"}, scope))
        return "ok" if outcome.ok else "denied" if "denied" in outcome.text else outcome.text
    outcome = await box.call(Call(place, {}, scope))
    return str(outcome.value if outcome.ok else outcome.text)


@pytest.fixture
async def box() -> AsyncIterator[Toolbox]:
    async with make_box() as made:
        yield made


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rule", RULES)
async def test_a_denial_for_one_on_the_way_holds_wherever_the_call_comes_from(
    box: Toolbox, place: str, rule: str
) -> None:
    assert await status(box, place) == "ok"

    box.rules.deny("wipe", **RULES[rule])
    if "untrusted" in rule:
        await box.untrusted.mark(Call("read", {}, Scope(session="s1")))

    assert await status(box, place) == "denied"
    assert await status(box, place, Scope("other", "s9", caller="zoe")) == "ok"


@pytest.mark.parametrize("place", PLACES[:-1])
async def test_a_rule_that_asks_holds_for_what_is_nested(box: Toolbox, place: str) -> None:
    box.rules.ask("wipe", destructive=True, session="s1")

    assert await status(box, place) == "pending"
    (parked,) = await box.pending()
    assert (await box.approve(parked.id, by="zoe")).value == "wiped a"


@pytest.mark.parametrize("place", PLACES[:-1])
async def test_a_mode_that_is_set_on_the_way_holds(box: Toolbox, place: str) -> None:
    box.set_mode("dont-ask", session="s1")
    box.rules.ask("wipe", agent="helper")

    assert await status(box, place) == "denied"


async def test_an_allow_rule_of_the_inner_agent_is_enough_below_one_who_has_none() -> None:
    async with make_box(permission="confirm") as box:
        assert await status(box, "awaited") == "pending"
        box.rules.allow("wipe", agent="helper")

        assert await status(box, "awaited") == "ok"
        box.rules.ask("wipe", agent="boss")
        assert await status(box, "deeper") == "pending"
        # One question, however many levels there are.
        assert len(await box.pending()) == 2


async def test_an_allow_rule_and_a_laxer_mode_of_the_outer_agent_do_not_count_inside() -> None:
    async with make_box("confirm", permission_mode=None) as box:
        box.rules.allow("wipe", agent="boss")
        box.rules.allow("wipe", session="s1", untrusted=True)
        await box.untrusted.mark(Call("read", {}, Scope(session="s1")))
        assert await status(box, "awaited") == "pending"
        box.set_mode("bypass", agent="boss")
        assert await status(box, "awaited") == "pending"
        box.set_mode("bypass", agent="helper")
        assert await status(box, "awaited") == "ok"


async def test_an_allow_rule_for_unmarked_sessions_needs_all_on_the_way_unmarked() -> None:
    async with make_box(permission="confirm") as box:
        box.rules.allow("wipe", untrusted=False)
        assert await status(box, "awaited") == "ok"
        await box.untrusted.mark(Call("read", {}, Scope(session="s1")))
        assert await status(box, "awaited") == "pending"


async def test_a_result_from_outside_marks_every_session_on_the_way(tmp_path: Path) -> None:
    for store in (None, f"sqlite:///{tmp_path}/a.db"):
        async with Toolbox(store=store) as box:

            @box.tool
            async def fetch(context: Context) -> str:
                context.mark_untrusted()
                return "a page"

            @box.tool
            async def ask(context: Context) -> str:
                return (await context.call(Call("fetch", {}, HELPER))).text

            await box.call(Call("ask", {}, BOSS))

            assert [await box.untrusted.holds(each) for each in ("s1", "s2", "s3")] == [
                True, True, False,
            ]  # fmt: skip


async def test_a_nested_call_that_waits_is_judged_by_rules_made_meanwhile_elsewhere(
    tmp_path: Path,
) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    async with make_box(store=store) as box:
        box.rules.ask("wipe")
        assert await status(box, "awaited") == "pending"
    async with make_box(store=store) as elsewhere:
        (parked,) = await elsewhere.pending()
        assert [each.agent for each in parked.scope.on_the_way()] == ["helper", "boss"]
        elsewhere.rules.deny("wipe", session="s1")

        assert (await elsewhere.approve(parked.id, by="zoe")).status is Status.DENIED


async def test_the_same_in_the_same_process_after_the_outer_call_has_ended(box: Toolbox) -> None:
    box.rules.ask("wipe")
    assert await status(box, "deeper") == "pending"
    (parked,) = await box.pending()
    box.rules.deny("wipe", caller="ann")

    assert (await box.approve(parked.id, by="zoe")).status is Status.DENIED


async def test_a_mark_that_came_meanwhile_holds_for_a_nested_call_that_waits(
    tmp_path: Path,
) -> None:
    async with make_box(store=f"sqlite:///{tmp_path}/a.db") as box:
        box.rules.ask("wipe")
        box.rules.deny("wipe", untrusted=True)
        assert await status(box, "awaited") == "pending"
        await box.untrusted.mark(Call("read", {}, Scope(session="s1")))
        (parked,) = await box.pending()

        assert (await box.approve(parked.id, by="zoe")).status is Status.DENIED


async def test_a_call_that_goes_on_is_nested_in_all_that_it_was(tmp_path: Path) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/a.db") as box:
        box.add(wipe, permission="confirm")

        @box.tool
        async def middle(context: Context) -> str:
            outcome = await context.call(Call("wipe", {"path": str(context.attempt)}, HELPER))
            if context.state is None:
                raise CallsNeeded([outcome.call.id], {"begun": True})
            return (await context.call(Call("wipe", {"path": "again"}, HELPER))).status.value

        @box.tool
        async def outer(context: Context) -> str:
            return (await context.call(Call("middle", {}, Scope("third", "s3")))).call.id

        middle_id = (await box.call(Call("outer", {}, BOSS))).value
        box.rules.allow("wipe", agent="helper")
        box.rules.deny("wipe", where={"path": "again"}, session="s1")
        (parked,) = await box.pending()
        await box.approve(parked.id, by="zoe")

        assert (await box.outcome(middle_id)).value == "denied"


async def test_a_task_that_outlives_its_tool_still_works_for_it(box: Toolbox) -> None:
    ended, found = asyncio.Event(), asyncio.Queue[list[str]]()

    @box.tool
    async def leave(context: Context) -> str:
        async def work() -> None:
            await ended.wait()
            outcomes = [
                await box.call(Call("wipe", {}, HELPER)),
                await context.call(Call("wipe", {}, HELPER)),
            ]
            await found.put([each.call.scope.parent or "" for each in outcomes if not each.ok])

        tasks.append(asyncio.create_task(work()))
        return context.call_id

    tasks: list[asyncio.Task[None]] = []
    box.rules.deny("wipe", session="s1")
    outer = (await box.call(Call("leave", {}, BOSS))).value
    # What comes after the call is not nested in it.
    assert (await box.call(Call("wipe", {}, HELPER))).ok
    ended.set()

    assert await found.get() == [outer, outer]


class Said(logging.Handler):
    """What a thread says in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.first = asyncio.get_running_loop().create_future()

    def emit(self, record: logging.LogRecord) -> None:
        self.first.get_loop().call_soon_threadsafe(self.first.set_result, record.getMessage())


@pytest.mark.parametrize("kind", ["context", "carried", "between calls"])
async def test_a_thread_that_outlives_its_tool_in_a_worker_is_nested_in_no_other_call(
    kind: str,
) -> None:
    async with make_box() as box:
        box.add(nested_tools.leave_thread, name="leave", presets={"box": box}, isolation="process")
        box.add(nested_tools.hear, isolation="process")
        box.rules.deny("wipe", session="s1")
        log, said = logging.getLogger("tests.left"), Said()
        log.addHandler(said)
        try:
            assert (await box.call(Call("leave", {"kind": kind}, BOSS))).ok
            if kind != "between calls":
                # It runs in the same worker.
                assert (await box.call(Call("hear", {}, Scope("other", "s9", caller="zoe")))).ok
            async with asyncio.timeout(120):
                assert "can call no more tools" in await said.first
        finally:
            log.removeHandler(said)


async def test_a_tool_that_starts_itself_again_and_again_goes_on(box: Toolbox) -> None:
    done = asyncio.Event()

    @box.tool
    async def again(left: int) -> None:
        if left:
            tasks.append(asyncio.create_task(box.call("again", {"left": left - 1})))
        else:
            done.set()

    tasks: list[asyncio.Task[Outcome]] = []
    await box.call("again", {"left": 200})
    await done.wait()

    assert all([(await each).ok for each in tasks])


async def test_boxes_judge_by_their_own_rules_with_the_whole_chain() -> None:
    async with AsyncExitStack() as stack:
        bosses = await stack.enter_async_context(Toolbox())
        helpers = await stack.enter_async_context(make_box())

        @bosses.tool
        async def delegate() -> str:
            """Delegate."""
            return (await helpers.call(Call("wipe", {}, HELPER))).status.value

        bosses.rules.deny("wipe")
        assert (await bosses.call(Call("delegate", {}, BOSS))).value == "ok"
        helpers.rules.deny("wipe", agent="boss")
        assert (await bosses.call(Call("delegate", {}, BOSS))).value == "denied"


async def test_eight_threads_in_one_carried_function(box: Toolbox) -> None:
    together = threading.Barrier(8)

    @box.tool
    def spread() -> list[str]:
        """Spread."""

        @wieldy.carry
        def work(number: int) -> str:
            together.wait()
            outcome = box.call_sync(Call("wipe", {}, Scope(session=f"t{number}")))
            return f"{outcome.status.value} {outcome.call.scope.parent}"

        with ThreadPoolExecutor(8) as pool:
            return sorted(set(pool.map(work, range(8))))

    box.rules.deny("wipe", session="s1")
    outcome = await box.call(Call("spread", {}, BOSS))

    assert outcome.value == [f"denied {outcome.call.id}"]


class Work:
    """Something that is called like a coroutine function."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    async def __call__(self) -> Outcome:
        return await self._box.call(call_of_helper())


@pytest.mark.parametrize("kind", ["coroutine function", "function", "object", "method"])
async def test_whatever_makes_a_coroutine_is_carried_too(box: Toolbox, kind: str) -> None:
    async def work() -> Outcome:
        return await box.call(call_of_helper())

    works: dict[str, Callable[[], Any]] = {
        "coroutine function": work,
        "function": lambda: work(),
        "object": Work(box),
        "method": Work(box).__call__,
    }

    @box.tool
    async def spread(context: Context) -> bool:
        """Spread."""
        carried = wieldy.carry(works[kind])
        with ThreadPoolExecutor(1) as pool:
            outcome = await asyncio.wrap_future(pool.submit(lambda: asyncio.run(carried())))
        return bool(outcome.call.scope.parent == context.call_id and not outcome.ok)

    box.rules.deny("wipe", session="s1")

    assert (await box.call(Call("spread", {}, BOSS))).value is True


def test_a_carried_function_keeps_its_name_and_kind() -> None:
    async def work() -> None: ...

    assert wieldy.carry(work).__name__ == "work"
    assert inspect.iscoroutinefunction(wieldy.carry(work))
    assert wieldy.carry(wipe)("b") == "wiped b"


def test_a_generator_function_can_not_be_carried() -> None:
    def steps() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for each in (steps, later):
        with pytest.raises(TypeError, match="generator function"):
            wieldy.carry(each)


async def test_calls_from_threads_share_the_budget(box: Toolbox) -> None:
    @box.tool
    def spread(context: Context) -> int:
        """Spread."""
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(context.call_sync, "wipe", {"path": str(n)}) for n in range(30)]
            return sum(each.result().ok for each in calls)

    token = current_spending.set(Spending(Budget(calls=6)))
    try:
        assert (await box.call("spread")).value == 5
    finally:
        current_spending.reset(token)


async def test_it_is_explained_within_a_call_that_runs_waits_or_is_recorded(
    tmp_path: Path,
) -> None:
    async with make_box(store=f"sqlite:///{tmp_path}/a.db") as box:
        running, ended = asyncio.Queue[str](), asyncio.Event()

        @box.tool
        async def wait(context: Context) -> list[str]:
            await running.put(context.call_id)
            await ended.wait()
            own = await box.explain_permission("wipe", scope=HELPER)
            listed = [tool.name for tool in await box.callable_tools(HELPER)]
            return [own.decision, str("wipe" in listed)]

        async def explained(within: str) -> str:
            told = await box.explain_permission("wipe", scope=HELPER, within=within)
            return told.decision

        box.rules.deny("wipe", session="s1")
        call = asyncio.create_task(box.call(Call("wait", {}, BOSS)))
        outer = await running.get()
        assert await explained(outer) == "deny"
        assert (await box.explain_permission("wipe", scope=HELPER)).decision == "run"
        ended.set()
        assert (await call).value == ["deny", "False"]
        assert await explained(outer) == "deny"
        box.rules.ask("wait")
        parked = await box.call(Call("wait", {}, BOSS))
        assert await explained(parked.call.id) == "deny"
        with pytest.raises(CallNotFound):
            await explained("nothing")


class Person:
    """Somebody with a name who may approve."""

    roles = frozenset({"approve"})

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize("name", ["ann", "bob"])
async def test_nobody_on_the_way_approves_a_nested_call(box: Toolbox, name: str) -> None:
    box.rules.ask("wipe")
    assert await status(box, "awaited") == "pending"
    (parked,) = await box.pending()

    with pytest.raises(MayNotDecide, match="own"):
        check_approver(parked.call, Person(name))  # type: ignore[arg-type]
    check_approver(parked.call, Person("zoe"))  # type: ignore[arg-type]
    check_denier(parked.call, Person(name))  # type: ignore[arg-type]


async def test_limits_count_every_caller_on_the_way(box: Toolbox) -> None:
    box.call_limits.add("wipe", caller="*", rate="2/h")

    assert [await status(box, "awaited") for _ in range(3)] == ["ok", "ok", "error"]
    outcome = await box.call(Call("wipe", {}, Scope(caller="ann")))
    assert isinstance(outcome.error, TooManyCalls)
    states = (await box.explain_permission("wipe", scope=HELPER)).limits
    assert [each.started for each in states] == [2]
