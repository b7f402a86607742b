"""Rules that go by trait, tag, group, source, trust and caller."""

from pathlib import Path
from typing import Any

import pytest

from wieldy import Call, Scope, Status, Tool, Toolbox
from wieldy.core.permission.criteria import NAMES, Criteria


async def touch(path: str = "a") -> str:
    return f"touched {path}"


def of_server(name: str = "touch", **options: Any) -> Tool:
    """A tool as an MCP server that nobody trusts gives it."""
    return Tool(touch, name=name, source="mcp:shop", trusted=False, cautious=True, **options)


# A criterion, a tool that it means, and one that it does not mean.
MEANT: list[tuple[dict[str, Any], Tool, Tool]] = [
    ({"read_only": True}, Tool(touch, read_only=True), Tool(touch)),
    ({"read_only": False}, Tool(touch), Tool(touch, read_only=True)),
    ({"idempotent": True}, Tool(touch, idempotent=True), Tool(touch, read_only=True)),
    ({"destructive": True}, Tool(touch, destructive=True), Tool(touch)),
    ({"destructive": True}, of_server(), of_server(destructive=False)),
    ({"destructive": False}, Tool(touch), of_server()),
    ({"open_world": True}, of_server(), Tool(touch)),
    ({"open_world": True}, Tool(touch, open_world=True), of_server(open_world=False)),
    ({"trusted": False}, of_server(), Tool(touch)),
    ({"trusted": True}, Tool(touch), of_server()),
    ({"tags": "files"}, Tool(touch, tags=["files", "x"]), Tool(touch, tags=["file"])),
    ({"tags": ["files", "mail"]}, Tool(touch, tags=["mail"]), Tool(touch)),
    ({"source": "mcp:*"}, of_server(), Tool(touch)),
    ({"source": "mcp:shop"}, of_server(), Tool(touch, source="mcp:shop2")),
    ({"group": "basic"}, Tool(touch), Tool(touch, group="db")),
    ({"group": "b*"}, Tool(touch), Tool(touch, group="db")),
    ({"destructive": True, "source": "mcp:*"}, of_server(), Tool(touch, destructive=True)),
]


@pytest.mark.parametrize(("criteria", "meant", "other"), MEANT, ids=str)
async def test_a_rule_means_the_tools_that_fit_all_its_criteria(
    criteria: dict[str, Any], meant: Tool, other: Tool
) -> None:
    for tool, status in ((meant, Status.DENIED), (other, Status.OK)):
        box = Toolbox()
        if tool.group != "basic":
            box.groups.create(tool.group, active=True)
        box.add(tool)
        box.rules.deny(**criteria)

        assert (await box.call("touch")).status is status


@pytest.mark.parametrize(("criteria", "meant", "other"), MEANT, ids=str)
async def test_a_stored_rule_means_the_same_tools(
    criteria: dict[str, Any], meant: Tool, other: Tool, tmp_path: Path
) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/s.db") as box:
        box.groups.create("db", active=True)
        box.add(meant, "meant")
        box.add(other, "other")
        rule = await box.standing.ask(**criteria)

        assert (await box.call("meant")).status is Status.PENDING
        assert (await box.call("other")).status is Status.OK
        [kept] = await box.standing.list()
        assert kept.criteria == rule.criteria == Criteria.of(criteria)


@pytest.mark.parametrize(("criteria", "meant", "other"), MEANT, ids=str)
def test_a_rule_comes_back_from_a_state(criteria: dict[str, Any], meant: Tool, other: Tool) -> None:
    box, again = Toolbox(), Toolbox()
    rule = box.rules.allow("touch", caller="ann", **criteria)

    again.restore(box.state())

    [restored] = again.rules
    assert (restored.criteria, restored.caller) == (rule.criteria, "ann")
    assert [restored.concerns(tool) for tool in (meant, other)] == [True, False]


def test_the_state_of_plain_rules_is_as_earlier_versions_wrote_it() -> None:
    box = Toolbox()
    box.rules.ask("touch", agent="mailer")

    assert box.state()["rules"] == [
        {
            "verdict": "ask",
            "pattern": "touch",
            "where": {},
            "reason": None,
            "agent": "mailer",
            "session": None,
        }
    ]


async def test_kinds_of_rules_count_in_the_same_order_whatever_they_go_by() -> None:
    box = Toolbox()
    box.add(of_server(permission="confirm"))
    box.rules.allow("touch")
    assert (await box.call("touch")).status is Status.OK

    asks = box.rules.ask(source="mcp:*")
    assert (await box.call("touch")).metadata["reason"] == ("the rule ask '*' with source='mcp:*'")
    box.rules.deny(trusted=False, reason="strangers")
    assert "strangers" in (await box.call("touch")).text
    box.rules.remove(asks)
    assert (await box.call("touch")).status is Status.DENIED


async def test_an_allow_rule_for_what_is_read_only_does_not_believe_a_stranger() -> None:
    box = Toolbox()
    box.add(of_server("lookup", hints={"readOnlyHint": True}, permission="confirm"))
    box.rules.allow(read_only=True)

    assert (await box.call("lookup")).status is Status.PENDING


async def test_a_rule_for_a_caller_holds_for_its_calls_and_those_nested_in_them() -> None:
    box = Toolbox()
    box.add(touch)

    @box.tool
    async def outer() -> str:
        return (await box.call("touch")).status.value

    box.rules.deny("touch", caller="ann")

    async def call(name: str, caller: str | None) -> Any:
        return await box.call(Call(name, {}, Scope(caller=caller)))

    assert (await call("touch", "ann")).status is Status.DENIED
    assert (await call("outer", "ann")).value == "denied"
    assert (await call("outer", "bob")).value == "ok"
    assert (await box.call("touch")).status is Status.OK
    assert (await box.view(caller="ann").call("touch")).status is Status.DENIED


async def test_a_stored_rule_for_a_caller_holds_for_its_calls(tmp_path: Path) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/s.db") as box:
        box.add(touch)
        await box.standing.deny("touch", caller="ann")

        assert (await box.view(caller="ann").call("touch")).status is Status.DENIED
        assert (await box.view(caller="bob").call("touch")).status is Status.OK
        [newest, _] = await box.ledger.list()
        assert newest.call.scope == Scope(caller="bob")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "a rule needs a tool's name or pattern, not None"),
        ({"pattern": ""}, ValueError, "a rule needs a tool's name or pattern, not ''"),
        ({"destructve": True}, TypeError, "Did you mean 'destructive'"),
        ({"fast": True}, TypeError, "has no keyword argument 'fast'. It takes agent, "),
        ({"destructive": "yes"}, ValueError, "destructive is True or False, not 'yes'"),
        ({"trusted": 1}, ValueError, "trusted is True or False, not 1"),
        ({"tags": []}, ValueError, "tags are one or more names"),
        ({"tags": 7}, ValueError, "tags are one or more names, not 7"),
        ({"group": ""}, ValueError, "group is a name or a pattern"),
        ({"source": 3}, ValueError, "source is a name or a pattern, not 3"),
        ({"pattern": "*", "caller": ""}, ValueError, "a caller is text"),
    ],
    ids=str,
)
async def test_a_rule_that_means_nothing_is_refused_with_what_to_say(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    box = Toolbox()
    with pytest.raises(error) as refused:
        box.rules.deny(**options)
    assert message in str(refused.value)
    assert len(box.rules) == 0

    async with Toolbox(store=f"sqlite:///{tmp_path}/s.db") as kept:
        with pytest.raises(error) as refused:
            await kept.standing.deny(**options)
        assert message in str(refused.value)


@pytest.mark.parametrize("whose", ["caller", "agent", "session"])
async def test_whose_calls_are_meant_is_enough_for_a_rule_that_restricts(
    whose: str, tmp_path: Path
) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/s.db") as box:
        box.add(touch)
        eve, ann, bob, zoe = ({whose: name} for name in ("eve", "ann", "bob", "zoe"))
        rules: Any = box.rules
        rules.deny(**eve)
        rules.ask(**ann)
        standing: Any = box.standing
        await standing.deny(**bob)
        # All that somebody calls is allowed only by a rule that says so.
        with pytest.raises(ValueError, match="needs a tool's name or pattern"):
            rules.allow(**eve)

        scope: Any = Scope
        made = [Call("touch", {}, scope(**each)) for each in (eve, ann, bob, zoe)]
        assert [(await box.call(each)).status.value for each in made] == [
            "denied", "pending", "denied", "ok",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"destructive": "yes"}, "rules[0]: destructive is True or False, not 'yes'"),
        ({"tags": "files"}, "rules[0]: tags must be a list of texts"),
        ({"caller": 3}, "rules[0].caller must be text"),
        ({"destructve": True}, "rules[0] has the unknown key 'destructve'"),
    ],
    ids=str,
)
def test_a_state_with_a_wrong_criterion_is_refused(change: dict[str, Any], message: str) -> None:
    box = Toolbox()
    rule = {"verdict": "deny", "pattern": "*", "where": {}, **change}
    with pytest.raises(ValueError) as refused:
        box.restore({"version": 1, "active_groups": [], "rules": [rule]})
    assert message in str(refused.value)


def test_a_criterion_that_nobody_knows_is_refused_with_the_near_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'destructive'"):
        Criteria.from_dict({"destructve": True})
    with pytest.raises(ValueError, match=f"there are {', '.join(NAMES)}"):
        Criteria.from_dict({"xyz": True})
    with pytest.raises(ValueError, match="must be an object"):
        Criteria.from_dict([])
