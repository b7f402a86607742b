"""Serving processes: what they write, and how they end."""

import asyncio
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

from tests.child_process import ChildProcess
from tests.forking.launch_files import launch_file
from tests.mcp.clients import MODES, Mode, connected, soon, text_of
from wieldy import Toolbox
from wieldy.mcp import serve, server

PROGRAM = Path(__file__).parents[1] / "program.py"
LAUNCHED = launch_file(PROGRAM)
SECONDS = 120
Calling = asyncio.Task[CallToolResult]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


@asynccontextmanager
async def process(*arguments: str, **more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program, until the test is over."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        LAUNCHED,
        *arguments,
        env=environment(**more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def address(started: asyncio.subprocess.Process) -> str:
    """Where the program serves."""
    assert started.stderr is not None
    async with asyncio.timeout(SECONDS):
        return (await started.stderr.readline()).decode().strip()


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    """A named pipe for which a tool of the program waits."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return str(path)


def write_to(pipe: str) -> None:
    """Let the tool go on."""
    descriptor = os.open(pipe, os.O_WRONLY)
    os.write(descriptor, b"x")
    os.close(descriptor)


@asynccontextmanager
async def calling(client: Client, tool: str, **arguments: str) -> AsyncIterator[Calling]:
    """A call that has started."""
    started = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    # The client looks up what a result should be like, and then knows it.
    await client.list_tools()
    task = asyncio.create_task(client.call_tool(tool, arguments, progress_callback=hear))
    await soon(started)
    yield task
    await asyncio.wait((task,), timeout=SECONDS)


async def drains(url: str, token: str = "") -> None:
    """Wait until a server says that it takes no more calls."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with asyncio.timeout(SECONDS), httpx2.AsyncClient(headers=headers) as http:
        while (health := await http.get(url.replace("/mcp", "/health"))).status_code != 503:
            pass
        assert health.json()["draining"]


async def end(started: asyncio.subprocess.Process) -> tuple[int | None, bytes, bytes]:
    """How the program ended, and what it wrote."""
    async with asyncio.timeout(SECONDS):
        out, err = await started.communicate()
    return started.returncode, out, err


@pytest.mark.parametrize("mode", MODES)
async def test_a_running_call_ends_before_the_server_does(mode: Mode, pipe: str) -> None:
    async with process("0") as started:
        url = await address(started)
        async with (
            connected(url, mode=mode) as client,
            calling(client, "until", pipe=pipe) as call,
        ):
            started.send_signal(signal.SIGTERM)
            await drains(url)
            with pytest.raises(MCPError, match="shutting down"):
                await client.call_tool("loud", {"word": "late"})
            write_to(pipe)
            assert text_of(await call) == "it is there"
        code, out, err = await end(started)

    assert (code, out) == (0, b"")
    assert b"the end" in err and b"Traceback" not in err


@pytest.mark.parametrize("mode", MODES)
async def test_what_does_not_end_in_time_is_interrupted_and_recorded(
    mode: Mode, pipe: str, tmp_path: Path
) -> None:
    store = tmp_path / "wieldy.db"
    async with process("0", str(store), GRACE="0.1") as started:
        async with connected(await address(started), mode=mode) as client:
            waiting = await client.call_tool("wipe", {"path": "a"})
            async with calling(client, "until", pipe=pipe) as call:
                started.send_signal(signal.SIGTERM)
            assert call.exception() is not None
        code, out, _ = await end(started)

    assert (code, out) == (0, b"")
    async with Toolbox(store=f"sqlite:///{store}") as box:
        states = {entry.call.tool: entry.state for entry in await box.ledger.list()}
        assert states == {"until": "interrupted", "wipe": "pending"}
        (parked,) = await box.pending()
        assert parked.id in text_of(waiting)


async def test_an_open_stream_does_not_keep_the_server_up() -> None:
    async with process("0") as started:
        url = await address(started)
        async with connected(url) as client, client.listen(tools_list_changed=True) as changes:
            started.send_signal(signal.SIGTERM)
            assert [change async for change in changes] == []
        code, out, err = await end(started)

    assert (code, out) == (0, b"")
    assert b"Cancel" not in err


async def test_a_second_signal_ends_it_at_once(pipe: str) -> None:
    async with process("0") as started:
        url = await address(started)
        async with connected(url) as client:
            async with calling(client, "until", pipe=pipe) as call:
                started.send_signal(signal.SIGTERM)
                await drains(url)
                started.send_signal(signal.SIGTERM)
            assert call.exception() is not None
        code, _, err = await end(started)
    assert code == 0 and b"the end" in err


def stdio(**more: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=[LAUNCHED], env=environment(**more))


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_that_prints_does_not_disturb_a_pipe(mode: Mode, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        transport = stdio_client(stdio(), errlog=log)
        async with Client(transport, mode=mode) as client:
            results = await asyncio.gather(
                *(client.call_tool("loud", {"word": f"w{n}"}) for n in range(3))
            )
            assert len((await client.list_tools()).tools) == 4

    assert [text_of(result) for result in results] == ["said w0", "said w1", "said w2"]
    written = (tmp_path / "log").read_text()
    assert "w0\n" in written and "written to 1\n" in written and "the end" in written


def message(method: str, number: int | None = None, **params: Any) -> bytes:
    sent: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if number is not None:
        sent["id"] = number
    return json.dumps(sent).encode() + b"\n"


HELLO = message(
    "initialize",
    1,
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
) + message("notifications/initialized")


async def test_too_many_values_in_a_pipe_are_refused_and_the_next_request_is_answered() -> None:
    many = message("tools/call", 2, name="loud", arguments={"word": [0] * 60_000})
    told = message("notifications/progress", progressToken=1, progress=1, extra=[0] * 60_000)
    async with process() as started:
        assert started.stdin is not None and started.stdout is not None
        started.stdin.write(HELLO + told + many + message("tools/list", 3))
        answers: dict[int, Any] = {}
        async with asyncio.timeout(SECONDS):
            while not {2, 3} <= answers.keys():
                answer = json.loads(await started.stdout.readline())
                answers[answer.get("id")] = answer
    assert "50,000 values" in answers[2]["error"]["message"]
    assert "`max_values`" in answers[2]["error"]["message"]
    assert len(answers[3]["result"]["tools"]) == 4


async def test_a_pipe_carries_messages_only_and_ends_with_its_input() -> None:
    noise = b"not a message\n" + b"{" * 5_000_000 + b"\n" + b"\xff\xfe\n\n"
    call = message("tools/call", 2, name="loud", arguments={"word": "w"})
    async with process() as started:
        assert started.stdin is not None and started.stdout is not None
        started.stdin.write(HELLO + noise + call)
        await started.stdin.drain()
        async with asyncio.timeout(SECONDS):
            lines = [json.loads(await started.stdout.readline()) for _ in range(2)]
        started.stdin.close()
        code, out, err = await end(started)

    assert [line.get("id") for line in lines] == [1, 2]
    assert lines[1]["result"]["content"][0]["text"] == "said w"
    assert (code, out) == (0, b"")
    assert b"the end" in err


def tool_call(number: int, name: str, **arguments: str) -> bytes:
    meta = {"progressToken": number}
    return message("tools/call", number, name=name, arguments=arguments, _meta=meta)


async def answers(started: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    """The messages that a program writes."""
    assert started.stdout is not None
    async with asyncio.timeout(SECONDS):
        async for line in started.stdout:
            yield json.loads(line)


async def test_a_signal_ends_a_pipe_after_its_calls(pipe: str) -> None:
    refused: dict[str, Any] = {}
    given = ""
    async with process() as started:
        assert started.stdin is not None
        started.stdin.write(HELLO + tool_call(2, "until", pipe=pipe))
        async for answer in answers(started):
            if answer.get("method") == "notifications/progress":
                started.send_signal(signal.SIGTERM)
            elif "error" in answer:
                refused = answer
                write_to(pipe)
            elif answer["id"] == 2:
                given = answer["result"]["content"][0]["text"]
            if not refused and answer.get("id") != 1:
                # Until the signal has been heard, calls are answered.
                started.stdin.write(tool_call(3, "wipe", path="a"))
        code, _, err = await end(started)

    assert "shutting down" in refused["error"]["message"]
    assert given == "it is there"
    assert code == 0 and b"the end" in err


async def test_a_pipe_ends_although_a_thread_is_stuck() -> None:
    async with process(GRACE="0.1") as started:
        assert started.stdin is not None
        started.stdin.write(HELLO + tool_call(2, "stuck"))
        async for answer in answers(started):
            if answer.get("method") == "notifications/progress":
                started.send_signal(signal.SIGTERM)
        code, _, err = await end(started)

    assert code == 0
    assert b"the end" in err


@pytest.mark.parametrize("how", ["a signal", "two signals", "the end of its input"])
def test_a_pipe_ends_although_nobody_reads_its_answers(how: str) -> None:
    pipe = subprocess.PIPE
    command, more = [sys.executable, LAUNCHED], environment(GRACE="0.5")
    with ChildProcess[bytes](command, env=more, stdin=pipe, stdout=pipe, stderr=pipe) as started:
        assert started.stdin is not None and started.stdout is not None
        try:
            started.stdin.write(HELLO + b"".join(map(listing, range(2, 200))))
            started.stdin.flush()
            wait_until_half_full(started.stdout.fileno())
            if how == "the end of its input":
                started.stdin.close()
            else:
                started.send_signal(signal.SIGTERM)
            if how == "two signals":
                started.send_signal(signal.SIGTERM)
            assert started.wait(SECONDS) == 0
            assert started.stderr is not None and b"the end" in started.stderr.read()
        finally:
            started.kill()


def listing(number: int) -> bytes:
    """A request with an answer of some length."""
    return message("tools/list", number)


def wait_until_half_full(pipe: int) -> None:
    """Wait until half of what a pipe takes is in it."""
    most = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    waiting, end = 0, time.monotonic() + SECONDS
    while waiting < most // 2:
        assert time.monotonic() < end, "nothing more is written"
        (waiting,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"    "))


async def test_two_signals_at_once_end_a_server_over_http() -> None:
    async with process("0") as started:
        await address(started)
        started.send_signal(signal.SIGSTOP)
        started.send_signal(signal.SIGTERM)
        started.send_signal(signal.SIGINT)
        started.send_signal(signal.SIGCONT)
        code, _, err = await end(started)
    assert code == 0 and b"the end" in err


async def test_what_a_crash_left_approved_is_run_before_serving(tmp_path: Path) -> None:
    store = tmp_path / "wieldy.db"
    async with Toolbox(store=f"sqlite:///{store}") as box:
        box.add(lambda path: f"wiped {path}", name="wipe", permission="confirm")
        parked = await box.call("wipe", {"path": "a"})
    async with Toolbox(store=f"sqlite:///{store}") as elsewhere:
        # Approved where the tool is not.
        await elsewhere.approve(parked.call.id, by="ann")
    async with process("0", str(store)) as started:
        async with connected(await address(started)) as client:
            await client.list_tools()
        started.send_signal(signal.SIGTERM)
        code, _, _ = await end(started)
    assert code == 0


@pytest.mark.parametrize(
    "options", [{"tokens": {"a": "secret"}}, {"hosts": ["x"]}, {"max_body": 5}]
)
async def test_a_pipe_does_not_take_what_is_for_http(options: Any) -> None:
    with pytest.raises(ValueError, match="Pass a port"):
        await serve(Toolbox(), **options)


async def test_views_need_callers_with_names() -> None:
    box = Toolbox()
    with pytest.raises(ValueError, match="view for alice, and no token"):
        await serve(box, views={"alice": box.view()})
    with pytest.raises(ValueError, match="view for alice, and no token"):
        await serve(server(box, views={"alice": box.view()}), port=0)


async def test_a_server_that_is_made_takes_no_more_settings() -> None:
    with pytest.raises(ValueError, match="self_approval"):
        await serve(server(Toolbox()), port=0, self_approval=False)
