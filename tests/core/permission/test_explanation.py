"""A box that says why a call would run, be asked about or be denied."""

from pathlib import Path
from typing import Any

import pytest

from wieldy import (
    CallDenied,
    Explanation,
    InvalidArguments,
    NotChecked,
    Parked,
    Scope,
    Secret,
    Status,
    Toolbox,
    ToolNotFound,
)
from wieldy.core.tool import Hold


def make_box(**options: Any) -> Toolbox:
    box = Toolbox(**options)

    @box.tool(permission="confirm", destructive=True)
    async def wipe(path: str, times: int = 1) -> str:
        return f"wiped {path}"

    @box.tool(read_only=True)
    async def read(path: str = "a") -> str:
        return f"read {path}"

    return box


async def test_it_names_every_rule_that_matches_and_the_one_that_decides() -> None:
    box = make_box()
    allow = box.rules.allow("wipe")
    ask = box.rules.ask(destructive=True, reason="it destroys")
    deny = box.rules.deny("wipe", {"path": "/etc/**"})
    box.rules.deny("wipe", session="other")

    told = await box.explain_permission("wipe", {"path": "/etc/x", "times": "2"})
    assert told == Explanation("deny", "the rule deny 'wipe'", (deny, ask, allow))

    told = await box.explain_permission("wipe", {"path": "/tmp/x", "times": "2"})
    question = 'May wipe with {"path":"/tmp/x","times":2} run? It needs approval: it destroys'
    assert told == Explanation("ask", "it destroys", (ask, allow), question)

    box.rules.remove(ask)
    told = await box.explain_permission("wipe", {"path": "/tmp/x"})
    assert told == Explanation("run", "the rule allow 'wipe'", (allow,))


async def test_it_is_told_on_whose_behalf_the_call_would_be_made() -> None:
    box = make_box()
    box.rules.deny("read", caller="ann")
    box.set_mode("read-only", session="s")

    async def decided(view: Any, name: str, **scope: Any) -> str:
        told = await view.explain_permission(name, {"path": "a"}, scope=Scope(**scope))
        return str(told.decision)

    assert await decided(box, "read") == "run"
    assert await decided(box, "read", caller="ann") == "deny"
    assert await decided(box.view(caller="bob"), "read", caller="ann") == "run"
    assert await decided(box, "wipe", session="s") == "deny"


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("wpe", {}, ToolNotFound),
        ("wipe", {}, InvalidArguments),
        ("wipe", "no json", InvalidArguments),
        ("wipe", {"path": "a", "times": "many"}, InvalidArguments),
    ],
)
async def test_what_can_not_be_called_is_an_error(
    name: str, arguments: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await make_box().explain_permission(name, arguments)


async def test_a_view_explains_only_what_it_shows() -> None:
    view = make_box().view(names="read")
    with pytest.raises(ToolNotFound):
        await view.explain_permission("wipe", {"path": "a"})


async def test_nothing_is_run_parked_or_recorded(tmp_path: Path) -> None:
    asked: list[Parked] = []
    url = f"sqlite:///{tmp_path}/s.db"
    async with make_box(store=url, approver=asked.append) as box:
        for name in ("wipe", "read"):
            await box.explain_permission(name, {"path": "a"})
        assert (asked, await box.pending(), await box.ledger.list()) == ([], [], [])


async def test_no_secret_is_told() -> None:
    box = Toolbox()

    @box.tool(permission="confirm")
    async def login(user: str, password: Secret) -> str:
        return "in"

    told = await box.explain_permission("login", {"user": "ann", "password": "tiger-tiger"})
    assert "tiger" not in str(told.to_dict())
    with pytest.raises(InvalidArguments) as refused:
        await box.explain_permission("login", {"user": ["tiger-tiger"], "password": "tiger-tiger"})
    assert "tiger" not in str(refused.value)


@pytest.mark.parametrize("mode", ["ask", "bypass", "dont-ask", "dry-run", "read-only"])
@pytest.mark.parametrize("rule", [None, "allow", "ask", "deny"])
@pytest.mark.parametrize("name", ["wipe", "read"])
async def test_the_same_sentence_is_in_the_row_and_before_the_approver(
    mode: Any, rule: str | None, name: str, tmp_path: Path
) -> None:
    seen: list[Parked] = []
    url = f"sqlite:///{tmp_path}/s.db"
    async with make_box(store=url, permission_mode=mode, approver=seen.append) as box:
        if rule is not None:
            getattr(box.rules, rule)(name, {"path": "a*"})
        told = await box.explain_permission(name, {"path": "a"})

        outcome = await box.call(name, {"path": "a"})

        [entry] = await box.ledger.list()
        assert entry.because == told.because
        assert [parked.reason for parked in seen] == [told.because] * (told.decision == "ask")
        if isinstance(outcome.error, CallDenied):
            assert outcome.error.reason == told.because


async def test_a_stored_rule_is_told_by_its_id(tmp_path: Path) -> None:
    async with make_box(store=f"sqlite:///{tmp_path}/s.db") as box:
        kept = await box.standing.deny(destructive=True)
        told = await box.explain_permission("wipe", {"path": "a"})

        assert told.to_dict()["matched"] == [
            {
                "id": kept.id,
                "rule": "deny '*' with destructive=True",
                "verdict": "deny",
                "pattern": "*",
                "where": {},
                "destructive": True,
                "reason": None,
            }
        ]


async def test_rules_that_can_not_be_read_are_an_error_as_they_are_for_a_call(
    tmp_path: Path,
) -> None:
    box = make_box(store=f"sqlite:///{tmp_path}/no/such/folder/s.db")
    with pytest.raises(NotChecked):
        await box.explain_permission("read")
    await box.close()


async def test_rules_that_contradict_are_told_and_the_stricter_decides() -> None:
    box = make_box()
    rules = [box.rules.allow("read"), box.rules.deny("read"), box.rules.ask("read")]
    told = await box.explain_permission("read")

    assert (told.decision, told.matched) == ("deny", (rules[1], rules[2], rules[0]))
    assert (await box.call("read")).status is Status.DENIED


@pytest.mark.parametrize(("asks", "decision"), [(False, "deny"), (True, "ask")])
async def test_a_tool_that_is_held_back_says_so(asks: bool, decision: str) -> None:
    box = make_box()
    read = box.get("read")
    assert read is not None
    box.add(read.replace(hold=Hold("its words have changed", asks)), on_conflict="override")
    box.rules.allow("read")

    told = await box.explain_permission("read")
    assert (told.decision, told.because) == (decision, "its words have changed")
