"""Standing rules hold in every process on the store, for whom and what they were made."""

import asyncio
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.store.child import Children, eventually
from tests.store.server import Server
from wieldy import NotChecked, NotKept, NotRecorded, Status, StoreError, Tool, Toolbox
from wieldy.core.permission.criteria import RuleOptions

Execute = Callable[[str], str]


async def wipe(path: str = "a") -> str:
    """Wipe a path."""
    return f"wiped {path}"


async def look(path: str = "a") -> str:
    """Look at a path."""
    return f"looked at {path}"


def make_box(url: str, **options: Any) -> Toolbox:
    """A box with a tool that asks and one that does not."""
    box = Toolbox(store=url, **options)
    box.add(wipe, permission="confirm")
    box.add(look)
    return box


async def status(box: Toolbox, tool: str, path: str = "a", **options: Any) -> str:
    return (await box.call(tool, {"path": path}, **options)).status.value


async def test_a_rule_holds_at_once_here_and_soon_elsewhere(url: str, children: Children) -> None:
    other = children.start()
    async with make_box(url) as box:
        look_there = {"tool": "look", "arguments": {"n": 1}}
        assert other.ask("call", **look_there)["status"] == "ok"
        assert await status(box, "look") == "ok"
        rule = await box.standing.deny("look", reason="not today", by="ann")
        refused = await box.call("look")
        assert (refused.status, refused.text) == (
            Status.DENIED,
            "The call of look was denied: not today",
        )

        async def denied_there() -> bool:
            return bool(other.ask("call", **look_there)["status"] == "denied")

        await eventually(denied_there)
        other.ask("revoke", id=rule.id)
        assert other.ask("call", **look_there)["status"] == "ok", "it revoked it itself"

        async def allowed_here() -> bool:
            return await status(box, "look") == "ok"

        await eventually(allowed_here)


async def test_a_rule_outlives_the_process_that_made_it(url: str, children: Children) -> None:
    maker = children.start()
    maker.ask("stand", verdict="allow", pattern="wipe")
    maker.ask("stand", verdict="deny", pattern="look")
    maker.kill()
    reader = children.start()
    wiped = reader.ask("call", tool="wipe", arguments={"n": 1})
    looked = reader.ask("call", tool="look", arguments={"n": 1})
    assert (wiped["status"], looked["status"]) == ("ok", "denied")
    async with make_box(url) as box:
        assert await status(box, "wipe") == "pending", "its tool of that name is another one"
        assert await status(box, "look") == "denied"


async def test_rules_of_both_kinds_count_in_one_order(url: str) -> None:
    async with make_box(url) as box:
        box.add(wipe, name="off", permission="deny")
        await box.standing.allow("*")
        assert await status(box, "off") == "denied"
        assert await status(box, "wipe") == "ok"
        asking = box.rules.ask("wipe")
        assert await status(box, "wipe") == "pending"
        box.rules.remove(asking)
        box.rules.allow("*")
        await box.standing.ask("wipe", reason="sure?")
        parked = await box.call("wipe")
        assert (parked.status, parked.metadata["reason"]) == (Status.PENDING, "sure?")
        denying = await box.standing.deny("wipe")
        assert (await box.approve(parked.call.id)).status is Status.DENIED, "made since"
        await box.standing.remove(denying.id)
        assert await status(box, "wipe") == "pending"


@pytest.mark.parametrize("scope", ["agent", "session", "both"])
async def test_a_rule_holds_only_in_its_scope(url: str, scope: str) -> None:
    both: RuleOptions = {"agent": "ann", "session": "s"}
    single: dict[str, RuleOptions] = {"agent": {"agent": "ann"}, "session": {"session": "s"}}
    options = single.get(scope, both)
    async with make_box(url) as box:
        await box.standing.allow("wipe", **options)
        await box.standing.deny("look", **options)
        box.rules.deny("look", {"path": "memory"}, **options)
        ann, bob = box.view(agent="ann"), box.view(agent="bob")
        for view, session in ((ann, "s"), (ann, "t"), (ann, None), (bob, "s"), (box, "s")):
            inside = (scope == "session" or view is ann) and (scope == "agent" or session == "s")
            outcome = await view.call("wipe", session=session)
            assert outcome.status.value == ("ok" if inside else "pending")
            for path in ("a", "memory"):
                looked = await view.call("look", {"path": path}, session=session)
                assert looked.status.value == ("denied" if inside else "ok")


async def test_a_call_made_inside_another_stays_in_its_scope(url: str) -> None:
    async with make_box(url) as box:

        @box.tool
        async def outer() -> str:
            """Look from inside."""
            return (await box.call("look")).status.value

        await box.standing.deny("look", session="s")
        assert (await box.call("outer", session="s")).value == "denied"
        assert (await box.call("outer", session="t")).value == "ok"


async def test_conditions_are_kept_with_their_kinds(url: str) -> None:
    where: dict[str, Any] = {"path": [re.compile("^se(c|k)ret", re.I), "/etc/**", "x*", 5, None]}
    async with make_box(url) as box:
        made = await box.standing.deny("look", where, reason="\0 hidden")
    async with make_box(url) as box:
        (kept,) = await box.standing.list()
        assert (kept.id, kept.where, kept.reason) == (made.id, where, "\0 hidden")
        for path, expected in (
            ("SECRETS", "denied"),
            ("/etc/../etc/a", "denied"),
            ("x1", "denied"),
        ):
            assert await status(box, "look", path) == expected
        assert await status(box, "look", "a secret") == "ok"


async def test_a_function_is_no_condition_of_a_stored_rule(url: str) -> None:
    async with make_box(url) as box:
        with pytest.raises(ValueError, match=r"'path' is compared with is a .* JSON can't hold"):
            await box.standing.deny("look", {"path": ["fine", lambda path: True]})
        assert await box.standing.list() == []


@pytest.mark.parametrize("matcher", [object(), float("nan"), {"a": 1}, b"x"])
async def test_what_can_not_be_read_is_no_condition_of_a_stored_rule(
    url: str, matcher: Any
) -> None:
    async with make_box(url) as box:
        with pytest.raises(TypeError, match="a condition on an argument is"):
            await box.standing.deny("look", {"path": ["fine", matcher]})
        assert await box.standing.list() == []


async def test_an_expired_rule_is_dead_and_pruned(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        allowing = await box.standing.allow("wipe", expires_in=3600, by="ann")
        denying = await box.standing.deny("look", expires_in=3600)
        lasting = await box.standing.deny("nothing")
        assert allowing.expires_at is not None
        assert time.time() + 3500 < allowing.expires_at < time.time() + 3700
        assert (await status(box, "wipe"), await status(box, "look")) == ("ok", "denied")
        execute(f"UPDATE wieldy_rules SET expires_at = {time.time() - 1} WHERE expires_at > 0")

        async def over() -> bool:
            return (await status(box, "wipe"), await status(box, "look")) == ("pending", "ok")

        await eventually(over)
        listed = {rule.id: rule.dead for rule in await box.standing.list()}
        expired = "it has expired"
        assert listed == {allowing.id: expired, denying.id: expired, lasting.id: None}
        assert (await box.store.prune())["rules"] == 2
        assert [rule.id for rule in await box.standing.list()] == [lasting.id]


async def test_a_rule_expires_without_being_read_again(url: str) -> None:
    async with make_box(url) as box:
        await box.standing.allow("wipe", expires_in=0.2)

        async def over() -> bool:
            return await status(box, "wipe") == "pending"

        await eventually(over)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
async def test_an_end_that_is_none_is_refused(url: str, seconds: float) -> None:
    async with make_box(url) as box:
        with pytest.raises(ValueError, match="expires_in must be seconds above 0"):
            await box.standing.deny("look", expires_in=seconds)
        assert await box.standing.list() == []


async def test_an_allow_rule_dies_with_its_tool_and_the_others_stay(url: str) -> None:
    async def changed(path: str = "a", force: bool = False) -> str:
        """Wipe a path, harder."""
        return "changed"

    async with make_box(url) as box:
        rule = await box.standing.allow("w*", by="ann")
        await box.standing.ask("wipe", {"path": "b"})
        assert rule.tools == {"wipe": Tool(wipe).fingerprint}
        assert await status(box, "wipe") == "ok"
        box.add(changed, name="wipe", permission="confirm", on_conflict="override")
        assert await status(box, "wipe") == "pending"
        assert await status(box, "wipe", "b") == "pending"
        dead, alive = await box.standing.list()
        assert (dead.dead, alive.dead) == ("its tools have changed: wipe", None)
        box.add(wipe, name="wipe_later", permission="confirm")
        assert await status(box, "wipe_later") == "pending", "it came later"
        assert (await box.store.prune())["rules"] == 1
        assert [each.id for each in await box.standing.list()] == [alive.id]


async def test_a_tool_that_is_elsewhere_keeps_its_rule(url: str) -> None:
    async with make_box(url) as box, Toolbox(store=url) as bare:
        await box.standing.allow("wipe")
        assert [rule.dead for rule in await bare.standing.list()] == [None]
        assert (await bare.store.prune())["rules"] == 0
        assert await status(box, "wipe") == "ok"


async def test_an_allow_rule_for_no_tool_is_refused_with_a_hint(url: str) -> None:
    async with make_box(url) as box:
        with pytest.raises(ValueError, match=r"No tool here matches 'wype'.*Did you mean 'wipe'"):
            await box.standing.allow("wype")
        with pytest.raises(ValueError, match="a rule needs a tool's name"):
            await box.standing.deny("")
        with pytest.raises(NotKept, match="no standing rule 'x'"):
            await box.standing.remove("x")
        assert await box.standing.list() == []


async def test_a_damaged_rule_that_restricts_lets_nothing_run(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        allowing = await box.standing.allow("wipe")
        execute("UPDATE wieldy_rules SET conditions = '{broken'")
    async with make_box(url) as box:
        assert await status(box, "wipe") == "pending", "an allow rule that can't be read is none"
        denying = await box.standing.deny("nothing")
        execute('UPDATE wieldy_rules SET conditions = \'{"n": {"newer": 1}}\'')
        box.standing.forget()
        outcome = await box.call("look")
        assert (outcome.status, type(outcome.error)) == (Status.ERROR, NotChecked)
        assert isinstance(outcome.error, NotRecorded)
        assert "Remove that rule." in outcome.text
        assert all("can't be read" in str(rule.dead) for rule in await box.standing.list())
        assert (await box.store.prune())["rules"] == 0
        await box.standing.remove(denying.id)
        assert await status(box, "look") == "ok"
        (entry, *_) = await box.ledger.list(state="error")
        assert isinstance(entry.error, NotChecked)
        assert [rule.id for rule in await box.standing.list()] == [allowing.id]


async def test_nothing_runs_while_the_rules_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with make_box(f"sqlite:///{path}") as box:
        assert await status(box, "look") == "ok"
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("ALTER TABLE wieldy_rules RENAME TO hidden")
        box.standing.forget()
        outcomes = await asyncio.gather(*(box.call("look") for _ in range(20)))
        assert {type(outcome.error) for outcome in outcomes} == {NotChecked}
        assert all(isinstance(each.error.__cause__, StoreError) for each in outcomes if each.error)
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("ALTER TABLE hidden RENAME TO wieldy_rules")
        assert await status(box, "look") == "ok"


async def test_a_server_that_is_gone_lets_nothing_run(server: Server) -> None:
    async with make_box(server.new_database()) as box:
        assert await status(box, "look") == "ok"
        server.stop()
        try:
            box.standing.forget()
            outcome = await box.call("look")
        finally:
            server.start()
        assert isinstance(outcome.error, NotChecked)
        assert await status(box, "look") == "ok"


async def test_a_caller_that_gives_up_takes_nobody_with_it(url: str) -> None:
    async with make_box(url) as box:
        callers = [asyncio.ensure_future(box.call("look")) for _ in range(10)]
        await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
            callers[0].cancel()
        ended = await asyncio.gather(*callers, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError)
        assert [each.status for each in ended[1:] if not isinstance(each, BaseException)] == [
            Status.OK
        ] * 9


async def test_a_rule_made_while_calls_are_busy_is_seen_by_every_later_one(url: str) -> None:
    async with make_box(url) as box:
        flowing = True

        async def flow() -> None:
            while flowing:
                await box.call("look")

        flows = [asyncio.ensure_future(flow()) for _ in range(8)]
        for _ in range(20):
            rule = await box.standing.deny("look", {"path": "b"})
            assert await status(box, "look", "b") == "denied"
            await box.standing.remove(rule.id)
            assert await status(box, "look", "b") == "ok"
        flowing = False
        await asyncio.gather(*flows)


def test_blocking_callers_beside_a_loop_see_the_rules(url: str) -> None:
    box = make_box(url)

    @box.tool
    async def outer() -> str:
        """Call from inside a coroutine without awaiting."""
        box.standing.forget()
        return box.call_sync("look").status.value

    async def deny() -> None:
        await box.standing.deny("look")

    assert box.call_sync("outer").value == "ok"
    asyncio.run(deny())
    assert box.call_sync("outer").value == "denied"
    asyncio.run(box.close())


async def test_an_idle_box_never_reads_the_rules_and_a_busy_one_once_a_second(url: str) -> None:
    read: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "FROM wieldy_rules" in statement:
            read.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        async with make_box(url) as box:
            await box.ledger.list()
            assert read == [], "no call was made"
            started = time.monotonic()
            for _ in range(100):
                await asyncio.gather(*(box.call("look") for _ in range(10)))
            assert 1 <= len(read) <= time.monotonic() - started + 2
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def test_a_rule_made_while_a_call_stands_in_a_queue_counts(url: str) -> None:
    entered, release = asyncio.Event(), asyncio.Event()
    async with Toolbox(store=url) as box:

        @box.tool(concurrency=1)
        async def slow(n: int) -> int:
            """Take a while."""
            entered.set()
            await release.wait()
            return n

        first = asyncio.ensure_future(box.call("slow", {"n": 1}))
        await entered.wait()
        queued = asyncio.ensure_future(box.call("slow", {"n": 2}))
        asked = asyncio.ensure_future(box.call("slow", {"n": 3}))
        for _ in range(20):
            await asyncio.sleep(0)
        await box.standing.deny("slow", {"n": 2})
        await box.standing.ask("slow", {"n": 3})
        release.set()
        outcomes = await asyncio.gather(first, queued, asked)
        assert [outcome.status.value for outcome in outcomes] == ["ok", "denied", "pending"]
        assert (await box.approve(outcomes[2].call.id)).value == 3


async def test_a_rule_made_while_an_approver_thinks_counts_and_it_is_asked_once(url: str) -> None:
    asked, thinking = list[str](), asyncio.Event()

    async def approver(parked: Any) -> bool:
        asked.append(parked.arguments["path"])
        if parked.arguments["path"] == "b":
            thinking.set()
            await box.standing.deny("wipe", {"path": "b"})
        return True

    async with make_box(url, approver=approver) as box:
        assert await status(box, "wipe", "a") == "ok"
        assert await status(box, "wipe", "b") == "denied"
        assert await status(box, "wipe", "c") == "ok"
        assert asked == ["a", "b", "c"]


async def test_an_approved_call_waits_for_the_rules(url: str, execute: Execute) -> None:
    async with make_box(url) as box:
        receipt = await box.call("wipe")
        execute("ALTER TABLE wieldy_rules RENAME TO hidden")
        box.standing.forget()
        outcome = await box.approve(receipt.call.id, by="ann")
        assert isinstance(outcome.error, NotChecked)
        execute("ALTER TABLE hidden RENAME TO wieldy_rules")
        assert (await box.approve(receipt.call.id)).value == "wiped a"


async def test_calls_go_on_while_others_change_rules_without_pause(url: str) -> None:
    async with make_box(url) as box:
        churning = True

        async def churn() -> None:
            while churning:
                rule = await box.standing.deny("nothing")
                await box.standing.remove(rule.id)

        churns = [asyncio.ensure_future(churn()) for _ in range(5)]
        for _ in range(20):
            assert await status(box, "look") == "ok"
        churning = False
        await asyncio.gather(*churns)


@pytest.mark.parametrize("scope", [{"agent": ""}, {"session": ""}, {"session": "x" * 501}])
async def test_a_scope_that_no_call_can_have_is_refused(url: str, scope: dict[str, str]) -> None:
    async with make_box(url) as box:
        with pytest.raises(ValueError, match="is text of 1 to 500 characters"):
            await box.standing.deny("look", **scope)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="is text of 1 to 500 characters"):
            box.rules.deny("look", agent=scope.get("agent"), session=scope.get("session"))


async def test_a_tool_that_cannot_be_described_keeps_nothing_from_being_pruned(url: str) -> None:
    async with make_box(url) as box:
        await box.standing.allow("wipe")
        broken = {"type": "object", "properties": {}}
        broken["properties"] = broken
        # A schema that is made when it is first needed is looked at only then.
        box.add(Tool(wipe, name="wipe", input_schema=lambda: broken), on_conflict="override")
        assert (await box.store.prune())["rules"] == 0
        assert len(await box.standing.list()) == 1
