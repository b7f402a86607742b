"""What goes wrong around permission, one row each: the box says so and nothing slips through."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from wieldy import DefinitionError, Scope, Tool, Toolbox

ran: list[str] = []


def make_box(**options: Any) -> Toolbox:
    box = Toolbox(**options)
    ran.clear()

    @box.tool
    async def write(path: str = "a") -> str:
        ran.append(path)
        return f"wrote {path}"

    return box


async def unknown_mode_at_first() -> str:
    return _refused(lambda: make_box(permission_mode="yolo"))


async def unknown_mode_later() -> str:
    return _refused(lambda: make_box().set_mode("dryrun"))  # type: ignore[arg-type]


async def mode_for_nobody() -> str:
    return _refused(lambda: make_box().set_mode("bypass", agent=""))


async def unknown_trait_of_a_rule() -> str:
    return _refused(lambda: make_box().rules.deny(destuctive=True))  # type: ignore[call-arg]


async def wrong_trait_of_a_rule() -> str:
    return _refused(lambda: make_box().rules.deny(open_world="web"))  # type: ignore[arg-type]


async def unknown_trait_of_a_tool() -> str:
    return _refused(lambda: make_box().add(len, openworld=True))  # type: ignore[call-arg]


async def wrong_trait_of_a_tool() -> str:
    return _refused(lambda: make_box().add(len, open_world="web"))  # type: ignore[arg-type]


async def function_in_its_place_that_is_none() -> str:
    return _refused(lambda: make_box().add(len, simulate="len"))  # type: ignore[arg-type]


async def rule_that_says_nothing() -> str:
    return _refused(lambda: make_box().rules.allow())


async def predicate_that_raises() -> str:
    def where(tool: Tool, scope: Scope) -> bool:
        raise LookupError("no list")

    return (await make_box().view(where=where).call("write")).text


async def predicate_that_is_none() -> str:
    return _refused(lambda: make_box().view(where=True))  # type: ignore[arg-type]


async def rules_that_contradict() -> str:
    box = make_box()
    box.rules.allow("write")
    box.rules.deny("write", {"path": "a"}, reason="not there")
    box.rules.ask(destructive=False)
    return (await box.call("write")).text


async def modes_that_contradict() -> str:
    box = make_box(permission_mode="bypass")
    box.set_mode("read-only", session="s")
    return (await box.call("write", session="s")).text


async def mode_changed_while_a_call_waits_for_a_person() -> str:
    box = make_box()
    box.rules.ask("write")
    receipt = await box.call("write")
    box.set_mode("read-only")
    return (await box.approve(receipt.call.id)).text


async def mode_changed_while_a_call_waits_for_its_turn() -> str:
    box, go = make_box(), asyncio.Event()

    @box.tool(exclusive=True)
    async def hold() -> None:
        box.set_mode("dry-run")
        await go.wait()

    first = asyncio.create_task(box.call("hold"))
    second = asyncio.create_task(box.call("write"))
    await asyncio.sleep(0)
    go.set()
    await first
    return (await second).text


def _refused(doing: Callable[[], object]) -> str:
    with pytest.raises((ValueError, TypeError, DefinitionError)) as refused:
        doing()
    return str(refused.value)


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (unknown_mode_at_first, "must be one of bypass, accept-edits, ask, dont-ask, dry-run"),
        (unknown_mode_later, "Did you mean 'dry-run'?"),
        (mode_for_nobody, "an agent is text of 1 to 500 characters"),
        (unknown_trait_of_a_rule, "Did you mean 'destructive'?"),
        (wrong_trait_of_a_rule, "open_world is True or False, not 'web'"),
        (unknown_trait_of_a_tool, "Did you mean 'open_world'?"),
        (wrong_trait_of_a_tool, "open_world is True, False or None, not 'web'"),
        (function_in_its_place_that_is_none, "simulate must be a function"),
        (rule_that_says_nothing, "a rule needs a tool's name or pattern"),
        (predicate_that_raises, "There is no tool named 'write'"),
        (predicate_that_is_none, "where is a function of (tool, scope), not True"),
        (rules_that_contradict, "was denied: not there"),
        (modes_that_contradict, "was denied: in the mode read-only"),
        (mode_changed_while_a_call_waits_for_a_person, "was denied: in the mode read-only"),
        (mode_changed_while_a_call_waits_for_its_turn, "Not run: write. In the mode dry-run"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
async def test_it_is_told_and_nothing_runs(case: Callable[[], Awaitable[str]], told: str) -> None:
    assert told in await case()
    assert ran == []
