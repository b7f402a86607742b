"""Servers that each caller reaches in a process of their own."""

import os
import sys
from typing import Any

import pytest

from tests.mcp.conftest import SERVERS
from tests.mcp.waiting import alive, until
from wieldy import Call, Context, Limits, Scope, ServerUnavailable, Status, Toolbox
from wieldy.core.errors import InvalidSource
from wieldy.mcp.client.server_source import Command, PerCaller

LIGHT = [sys.executable, str(SERVERS / "light.py"), "whoami", "die"]


def per_caller(**options: Any) -> PerCaller:
    """The server, with the name of its caller in the environment."""

    def find(context: Context) -> Command:
        caller = context.scope.caller
        if caller is None:
            raise ServerUnavailable("own", "nobody calls")
        return Command(LIGHT, {"OWNER": caller})

    return PerCaller(Command(LIGHT), find, **options)


async def call_as(box: Toolbox, caller: str | None, tool: str = "whoami") -> list[str]:
    """What the process of a caller says: its owner, its id, and how many calls it had."""
    outcome = await box.call(Call(tool, {}, Scope(caller=caller)))
    return str(outcome.unwrap()).split()


async def test_each_caller_has_a_process_that_is_kept_and_opened_again(box: Toolbox) -> None:
    await box.add_mcp(per_caller(), "own")
    ann, bob = await call_as(box, "ann"), await call_as(box, "bob")
    again = await call_as(box, "ann")
    assert (ann[0], bob[0], again[0]) == ("ann", "bob", "ann")
    assert (again[1], again[2]) == (ann[1], "2")
    assert box.mcp["own"].caller_count == 2

    lost = await box.call(Call("die", {}, Scope(caller="ann")))
    assert lost.status is Status.UNKNOWN
    anew = await call_as(box, "ann")
    assert (anew[0], anew[2], anew[1] == ann[1]) == ("ann", "1", False)
    assert (await call_as(box, "bob"))[1:] == [bob[1], "2"]

    nobody = await box.call("whoami")
    assert "nobody calls" in nobody.text
    await box.remove_mcp("own")
    await until(lambda: not any(alive(int(each[1])) for each in (ann, bob, anew)))


async def test_the_process_that_was_idle_longest_makes_room(box: Toolbox) -> None:
    await box.add_mcp(per_caller(most=2), "own")
    first = {name: await call_as(box, name) for name in ("ann", "bob")}
    third = await call_as(box, "cal")
    assert (third[0], box.mcp["own"].caller_count) == ("cal", 2)
    await until(lambda: not alive(int(first["ann"][1])))
    assert alive(int(first["bob"][1]))
    assert (await call_as(box, "ann"))[0] == "ann"


async def test_a_process_that_nobody_uses_is_ended(box: Toolbox) -> None:
    await box.add_mcp(per_caller(idle=0.2), "own")
    [_, process, _] = await call_as(box, "ann")
    await until(lambda: box.mcp["own"].caller_count == 0 and not alive(int(process)))
    assert (await call_as(box, "ann"))[::2] == ["ann", "1"]


async def test_results_are_not_kept_for_others_and_options_have_no_meaning(
    box: Toolbox,
) -> None:
    limits = Limits(timeout=60, cache=600)
    await box.add_mcp(per_caller(), "own", limits=limits, trusted=True)
    tool = box.get("whoami")
    assert tool is not None
    assert tool.limits.cache is None
    for options in ({"env": {"OWNER": "x"}}, {"headers": {"X": "y"}}, {"cwd": os.curdir}):
        given: dict[str, Any] = options
        with pytest.raises(InvalidSource, match="has no meaning"):
            await box.add_mcp(per_caller(), "other", **given)
