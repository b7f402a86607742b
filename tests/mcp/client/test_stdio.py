"""Servers that are started as processes."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from shutil import copy

import pytest

from tests.child_process import ChildProcess
from tests.mcp.conftest import FRESH_SHOP, SHOP, raw
from tests.mcp.waiting import alive, children_of, until
from wieldy import InvalidSource, Limits, Secret, ServerUnavailable, Status, Toolbox
from wieldy.mcp import Patience


@pytest.mark.parametrize(
    "source",
    [FRESH_SHOP, Path(SHOP), [sys.executable, SHOP], shlex.join([sys.executable, SHOP])],
    ids=["script", "path", "list", "command"],
)
async def test_a_script_or_a_command_becomes_tools(box: Toolbox, source: object) -> None:
    tools = await box.add_mcp(source)

    assert [tool.name for tool in tools][:3] == ["add", "price", "greet"]
    assert {tool.source for tool in tools} == {"mcp:shop"}
    assert box.mcp["shop"].protocol_version == "2026-07-28"
    assert box.mcp["shop"].instructions == "Ask for prices."
    assert (await box.call("add", {"a": 1})).value == {"result": 3}


async def test_arguments_are_repaired_and_checked_before_the_server_sees_them(
    box: Toolbox,
) -> None:
    await box.add_mcp(SHOP)

    repaired = await box.call("add", '{"a": "40"}')
    refused = await box.call("add", {"b": 1})

    assert repaired.value == {"result": 42}
    assert repaired.metadata["repairs"]
    assert refused.status is Status.ERROR
    assert "a" in refused.text


async def test_an_argument_may_have_any_name(box: Toolbox) -> None:
    await box.add_mcp(raw("plain"))
    sent = {"context": 1, "self": 2, "name": 3, "arguments": 4, "run": 5, "class": 6, "a b": 7}

    assert json.loads((await box.call("echo", sent)).value) == sent


async def test_a_server_gets_a_small_environment_and_what_it_is_given(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOST_PASSWORD", "hunter2")
    await box.add_mcp(SHOP, env={"SHOP_KEY": Secret("for the shop")})

    seen = (await box.call("environment")).value

    assert "HOST_PASSWORD" not in seen
    assert seen["SHOP_KEY"] == "for the shop"
    assert seen["PATH"] == os.environ["PATH"]


async def test_what_a_server_is_given_in_secret_is_not_in_what_it_shows(box: Toolbox) -> None:
    given = {"SHOP_KEY": Secret("for the shop"), "SHOP_TOKEN": "tkn-12345678", "CITY": "Shanghai"}
    await box.add_mcp(SHOP, env={**given, "DB": "postgresql://app:a-pass-word@db/x"})

    text = (await box.call("environment")).text

    assert all(secret not in text for secret in ("for the shop", "tkn-12345678", "a-pass-word"))
    assert "Shanghai" in text


async def test_a_server_runs_where_it_is_told(box: Toolbox, tmp_path: Path) -> None:
    copy(SHOP, tmp_path / "here.py")

    await box.add_mcp([sys.executable, "here.py"], cwd=str(tmp_path))

    assert "add" in box


async def test_stderr_is_kept_and_cut_to_its_end(box: Toolbox) -> None:
    await box.add_mcp(SHOP)
    await box.call("grumble", {"text": "a complaint"})

    assert box.mcp["shop"].stderr.endswith("a complaint\n")


async def test_a_flood_on_stderr_blocks_nobody_and_is_not_kept_whole(box: Toolbox) -> None:
    await box.add_mcp(raw("flood"))

    assert (await box.call("echo", {"a": 1})).ok
    assert box.mcp["raw"].stderr.endswith("last words\n")
    assert len(box.mcp["raw"].stderr) < 100_000


def test_without_the_sdk_the_error_names_the_extra() -> None:
    program = textwrap.dedent(
        """
        import asyncio, sys
        sys.modules["mcp"] = None
        from wieldy import Toolbox
        try:
            asyncio.run(Toolbox().add_mcp(["anything"]))
        except ImportError as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout == 'MCP needs an extra: pip install "wieldy[mcp]"\n', done.stderr


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (["no-such-program-here"], "no such program"),
        ("no-such-script.py", "no such file"),
        ("no-such-file.json", "no such file"),
        ([], "given as"),
        (42, "given as"),
        ("", "nothing in it"),
        ('unclosed "quote', "can't be read"),
    ],
)
async def test_what_can_be_no_server_is_an_error_that_says_so(
    box: Toolbox, source: object, words: str
) -> None:
    with pytest.raises((InvalidSource, ServerUnavailable), match=words):
        await box.add_mcp(source)
    assert list(box.mcp) == []


async def test_closing_ends_the_process_and_what_it_started(tmp_path: Path) -> None:
    family = tmp_path / "family"
    async with Toolbox() as box:
        await box.add_mcp(raw("family"), env={"RAW_FAMILY": str(family)})
        server, grandchild = map(int, family.read_text().split())
        assert alive(server) and alive(grandchild)

    assert not alive(server)
    assert not alive(grandchild)
    assert not _guards()


def test_a_server_is_given_time_to_leave(trace: Path) -> None:
    async def come_and_go() -> None:
        async with Toolbox() as box:
            env = {"RAW_TRACE": str(trace)}
            await box.add_mcp(raw("tidy"), env=env, patience=Patience(close=20))

    asyncio.run(come_and_go())

    assert trace.read_text().endswith('"left"\n')


async def test_a_server_that_will_not_leave_is_made_to() -> None:
    async with Toolbox() as box:
        await box.add_mcp(raw("stubborn"), patience=Patience(close=0.1))
        [guard] = _guards()
        [server] = children_of(guard)

    assert not alive(server)


def test_servers_and_their_children_are_gone_when_our_process_is_killed(tmp_path: Path) -> None:
    family = tmp_path / "family"
    program = textwrap.dedent(
        f"""
        import asyncio
        from wieldy import Toolbox

        async def main():
            box = Toolbox()
            await box.add_mcp({raw("family")!r}, env={{"RAW_FAMILY": {str(family)!r}}})
            print("ready", flush=True)
            await asyncio.sleep(60)

        asyncio.run(main())
        """
    )
    host = ChildProcess[bytes]([sys.executable, "-c", program], stdout=subprocess.PIPE)
    with host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"ready\n"
        server, grandchild = map(int, family.read_text().split())
        host.send_signal(signal.SIGKILL)

    asyncio.run(until(lambda: not alive(server) and not alive(grandchild)))


def test_a_program_that_closes_nothing_ends_all_the_same(tmp_path: Path) -> None:
    family = tmp_path / "family"
    program = textwrap.dedent(
        f"""
        import asyncio
        from wieldy import Toolbox

        box = Toolbox()
        asyncio.run(box.add_mcp({raw("family")!r}, env={{"RAW_FAMILY": {str(family)!r}}}))
        box.call_sync("echo", {{"a": 1}})
        """
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")
    server, grandchild = map(int, family.read_text().split())
    asyncio.run(until(lambda: not alive(server) and not alive(grandchild)))


async def test_a_killed_guard_does_not_leave_its_server_behind() -> None:
    async with Toolbox() as box:
        await box.add_mcp(raw("plain"))
        [guard] = _guards()
        [server] = children_of(guard)
        os.kill(guard, signal.SIGKILL)
        await until(lambda: not alive(server))

        assert (await box.call("echo", {"a": 1})).ok


async def test_a_forked_child_makes_connections_of_its_own(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import asyncio, os
        from wieldy import Toolbox

        box = Toolbox()
        asyncio.run(box.add_mcp({SHOP!r}))
        ours = box.call_sync("pid").value["result"]
        child = os.fork()
        if child == 0:
            theirs = box.call_sync("pid").value["result"]
            asyncio.run(box.close())
            os._exit(0 if theirs != ours else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        again = box.call_sync("pid").value["result"]
        asyncio.run(box.close())
        assert status == 0, status
        assert again == ours
        """
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], timeout=60, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr


async def test_adding_and_removing_leaves_nothing_behind() -> None:
    async with Toolbox() as box:
        await box.add_mcp(raw("plain"), name="first")
        before = (len(os.listdir("/proc/self/fd")), threading.active_count(), len(_guards()))
        for _ in range(20):
            await box.add_mcp(raw("plain"), name="again")
            await box.remove_mcp("again")
        after = (len(os.listdir("/proc/self/fd")), threading.active_count(), len(_guards()))
        names = box.names

    assert after == before
    assert names == ["echo", "ask", "more"]
    assert _guards() == set()


async def test_a_call_that_hangs_ends_in_time_and_the_next_has_a_new_server(
    tmp_path: Path, box: Toolbox
) -> None:
    starts = tmp_path / "starts"
    await box.add_mcp(
        FRESH_SHOP,
        limits=Limits(timeout=0.5),
        patience=Patience(sign_of_life=0.3),
        env={"SHOP_STARTS": str(starts)},
    )
    [guard] = _guards()
    [server] = children_of(guard)
    os.kill(server, signal.SIGSTOP)

    hung = await box.call("add", {"a": 1})
    await until(lambda: not alive(server))
    again = await _eventually_ok(box)

    assert hung.status is Status.TIMEOUT
    assert again == {"result": 3}
    assert len(starts.read_text().split()) == 2


async def _eventually_ok(box: Toolbox) -> object:
    """The value of a call, once the server is back; until then calls end in time as well."""
    for _ in range(20):
        outcome = await box.call("add", {"a": 1})
        if outcome.ok:
            return outcome.value
        assert outcome.status in (Status.TIMEOUT, Status.ERROR)
    raise AssertionError("the server did not come back")


def _guards() -> set[int]:
    """The guards that this process has started and not yet reaped."""
    found = set()
    for pid in children_of(os.getpid()):
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            if b"guard.py" in line.read():
                found.add(pid)
    return found
