"""Servers that each caller reaches in a process of their own."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.waiting import alive, until
from wieldy import Call, Context, Limits, Scope, ServerUnavailable, Status, Toolbox
from wieldy.core.errors import InvalidSource
from wieldy.mcp.client.server_source import Command, PerCaller

# Written by hand, because a process that imports the SDK takes a second to start.
SERVER = """
import json, os, sys

calls = 0
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("whoami", "die")]
info = {"name": "own", "version": "1"}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"], message.get("params", {}).get("name"):
        case "initialize", _:
            version = message["params"]["protocolVersion"]
            shown = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            answer["result"] = shown
        case "tools/list", _:
            answer["result"] = {"tools": tools}
        case "tools/call", "whoami":
            calls += 1
            text = f"{os.environ.get('OWNER')} {os.getpid()} {calls}"
            answer["result"] = {"content": [{"type": "text", "text": text}]}
        case "tools/call", "die":
            os._exit(1)
        case _:
            answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return str(path)


def per_caller(script: str, **options: Any) -> PerCaller:
    """The server, with the name of its caller in the environment."""

    def find(context: Context) -> Command:
        caller = context.scope.caller
        if caller is None:
            raise ServerUnavailable("own", "nobody calls")
        return Command([sys.executable, script], {"OWNER": caller})

    return PerCaller(Command([sys.executable, script]), find, **options)


async def call_as(box: Toolbox, caller: str | None, tool: str = "whoami") -> list[str]:
    """What the process of a caller says: its owner, its id, and how many calls it had."""
    outcome = await box.call(Call(tool, {}, Scope(caller=caller)))
    return str(outcome.unwrap()).split()


async def test_each_caller_has_a_process_that_is_kept_and_opened_again(
    box: Toolbox, script: str
) -> None:
    await box.add_mcp(per_caller(script), "own")
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


async def test_the_process_that_was_idle_longest_makes_room(box: Toolbox, script: str) -> None:
    await box.add_mcp(per_caller(script, most=2), "own")
    first = {name: await call_as(box, name) for name in ("ann", "bob")}
    third = await call_as(box, "cal")
    assert (third[0], box.mcp["own"].caller_count) == ("cal", 2)
    await until(lambda: not alive(int(first["ann"][1])))
    assert alive(int(first["bob"][1]))
    assert (await call_as(box, "ann"))[0] == "ann"


async def test_a_process_that_nobody_uses_is_ended(box: Toolbox, script: str) -> None:
    await box.add_mcp(per_caller(script, idle=0.2), "own")
    [_, process, _] = await call_as(box, "ann")
    await until(lambda: box.mcp["own"].caller_count == 0 and not alive(int(process)))
    assert (await call_as(box, "ann"))[::2] == ["ann", "1"]


async def test_results_are_not_kept_for_others_and_other_options_have_no_meaning(
    box: Toolbox, script: str
) -> None:
    limits = Limits(timeout=60, cache=600)
    await box.add_mcp(per_caller(script), "own", limits=limits, trusted=True)
    tool = box.get("whoami")
    assert tool is not None
    assert tool.limits.cache is None
    for options in ({"env": {"OWNER": "x"}}, {"headers": {"X": "y"}}, {"cwd": os.curdir}):
        given: dict[str, Any] = options
        with pytest.raises(InvalidSource, match="has no meaning"):
            await box.add_mcp(per_caller(script), "other", **given)
