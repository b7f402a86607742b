"""A gateway's file that changes while it is served."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

from tests.mcp.conftest import SERVERS
from tests.mcp.waiting import children_of, until
from tests.mcp.web import served
from wieldy import Status
from wieldy.cli.live_gateway import LiveGateway

# The processes leave a line in a file when they start, and have a tool of their name.
SERVER = """
import sys

with open("starts.txt", "a") as starts:
    starts.write(sys.argv[1] + "\\n")
sys.argv[1:] = ["ping_" + sys.argv[1]]
"""
FILE = """
[[sources]]
path = "tools.py"
[servers.a]
command = {python!r}
args = ["server.py", "a"]
[servers.b]
command = {python!r}
args = ["server.py", "b"]
[[rules]]
verdict = "deny"
tools = "wipe"
[views.all]
[access]
tokens = true
[callers.ann]
view = "all"
"""
TOOLS = """
from wieldy import Toolbox

box = Toolbox()


@box.tool(read_only=True)
def add(a: int, b: int) -> int:
    return a + b


@box.tool
def wipe() -> str:
    return "wiped"


box.rules.deny("add", where={"a": 13})
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    light = (SERVERS / "light.py").read_text()
    (tmp_path / "server.py").write_text(SERVER + light)
    (tmp_path / "tools.py").write_text(TOOLS)
    file = tmp_path / "gateway.toml"
    file.write_text(FILE.format(python=sys.executable))
    return file


@pytest.fixture
async def gateway(path: Path) -> AsyncIterator[LiveGateway]:
    opened = await LiveGateway.open(path)
    yield opened
    await opened.found.toolbox.close()


def change(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def drop_between(path: Path, first: str, end: str) -> None:
    text = path.read_text()
    path.write_text(text[: text.index(first)] + text[text.index(end) :])


def replace_file(path: Path) -> None:
    """Write it as many editors do: a new file in place of the old one."""
    other = path.with_suffix(".new")
    other.write_text(path.read_text())
    os.replace(other, path)


def starts(path: Path) -> list[str]:
    return sorted((path.parent / "starts.txt").read_text().split())


async def test_a_good_file_takes_effect_and_only_changed_servers_are_connected_anew(
    gateway: LiveGateway, path: Path
) -> None:
    box = gateway.found.toolbox
    assert (await box.call("wipe")).status is Status.DENIED
    views, callers = gateway.views, gateway.callers
    change(
        path,
        ('verdict = "deny"', 'verdict = "ask"'),
        ('args = ["server.py", "b"]', 'args = ["server.py", "c"]'),
        ("[views.all]", "[views.few]\nread_only = true"),
        ('view = "all"', 'view = "few"'),
    )

    assert await gateway.reload()

    assert (await box.call("wipe")).status is Status.PENDING
    assert (await box.call("add", {"a": 13, "b": 1})).status is Status.DENIED, "a source's own rule"
    assert sorted(name for name in box.names if "ping" in name) == ["ping_a", "ping_c"]
    assert starts(path) == ["a", "b", "c"]
    assert (list(views), views["few"].names, callers["ann"].view) == (["few"], ["add"], "few")


AIDE = """
import tools

from wieldy.agent import Agent


def open_door() -> str:
    return "open"


agent = Agent("openai:gpt-5-mini", name="aide")
agent.use_tools([tools.box.get("add"), open_door])
"""


async def test_views_have_the_tools_of_sources_and_not_those_of_agents(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (path.parent / "aide.py").write_text(AIDE)
    drop_between(path, "[servers.a]", "[[rules]]")
    change(path, ("[views.all]", '[[sources]]\npath = "aide.py"\n[views.all]'))
    opened = await LiveGateway.open(path)
    async with opened.found.toolbox as box:
        assert sorted(box.names) == ["add", "aide", "open_door", "wipe"]
        assert sorted(opened.found.offer.names) == ["add", "aide", "wipe"]
        change(path, ("[views.all]", '[views.few]\ntools = ["w*"]\n[views.all]'))
        assert await opened.reload()
        shown = {name: sorted(view.names) for name, view in opened.views.items()}
        assert shown == {"few": ["wipe"], "all": ["add", "aide", "wipe"]}


async def test_a_bad_file_changes_nothing_and_says_why(
    gateway: LiveGateway, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box = gateway.found.toolbox
    rules = list(box.rules)
    change(path, ('verdict = "deny"', 'verdict = "perhaps"'), ("[servers.a]", "[servers.z]"))

    assert not await gateway.reload()

    said = capsys.readouterr().err.replace("\n", " ")
    assert "not used" in said
    assert "rules[0].verdict" in said
    assert (list(box.rules), sorted(box.mcp)) == (rules, ["a", "b"])
    assert starts(path) == ["a", "b"]


async def test_what_needs_a_restart_is_said(
    gateway: LiveGateway, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(path, ("\n[[sources]]", 'mode = "read-only"\nstore = "sqlite:///x.db"\n[[sources]]'))

    assert await gateway.reload()

    assert "after a restart: store" in capsys.readouterr().err.replace("\n", " ")
    assert (await gateway.found.toolbox.call("wipe")).status is Status.DENIED
    assert not (path.parent / "x.db").exists()


async def test_a_server_that_can_t_be_started_leaves_the_others_alone(
    gateway: LiveGateway, path: Path
) -> None:
    change(path, ('args = ["server.py", "b"]', 'args = ["nothing.py"]'))

    assert await gateway.reload()

    assert (await gateway.found.toolbox.call("ping_a")).ok
    assert "ping_b" not in gateway.found.toolbox.names


async def test_the_tools_of_servers_that_go_are_gone_when_the_rules_change(
    gateway: LiveGateway, path: Path
) -> None:
    drop_between(path, "[servers.a]", "[views.all]")
    box, before = gateway.found.toolbox, list(gateway.found.toolbox.rules)
    reading = asyncio.create_task(gateway.reload())
    await until(lambda: list(box.rules) != before)
    assert sorted(box.names) == ["add", "wipe"]
    assert await reading


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"server.py", "b"]',
            '"server.py", "b"]\nenv = { A = "${NOT_SET}" }',
            "NOT_SET is not set",
        ),
        ('"server.py", "b"]', '"server.py", "b"]\nenvFile = "no.env"', "no.env"),
        (
            '"server.py", "b"]',
            '"server.py", "b"]\nenv = { A = "${caller.name}${NOT_SET}" }',
            "NOT_SET is not set",
        ),
        ('"server.py", "b"]', '"server.py", "b"]\ntimeout = inf', "servers.b.timeout"),
    ],
)
async def test_a_server_that_this_machine_lacks_something_for_changes_nothing(
    gateway: LiveGateway,
    path: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    said: str,
) -> None:
    rules = list(gateway.found.toolbox.rules)
    change(path, (old, new), ('verdict = "deny"', 'verdict = "allow"'))

    assert not await gateway.reload()

    told = capsys.readouterr().err.replace("\n", "")
    assert "not used" in told and said in told
    assert list(gateway.found.toolbox.rules) == rules
    assert (await gateway.found.toolbox.call("ping_b")).ok


async def test_paths_of_a_server_are_those_of_the_file_s_folder(
    path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path.parent / "more.env").write_text("WORD=from the file")
    (path.parent / "server.py").write_text(
        'import os, sys\nsys.argv[1:] = ["said_" + os.environ["WORD"].split()[0]]\n'
        + (SERVERS / "light.py").read_text()
    )
    change(path, ('args = ["server.py", "b"]', 'args = ["server.py"]\nenvFile = "more.env"'))
    change(path, ('args = ["server.py", "a"]', 'args = ["server.py"]\nenv = { WORD = "own" }'))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    opened = await LiveGateway.open(path)
    async with opened.found.toolbox as box:
        assert sorted(box.names) == ["add", "said_from", "said_own", "wipe"]


async def test_the_file_is_read_again_when_it_is_replaced(
    gateway: LiveGateway, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bool] = []

    async def reload() -> bool:
        read.append(True)
        raise InterruptedError

    monkeypatch.setattr("wieldy.cli.live_gateway._PAUSE", 0.0)
    monkeypatch.setattr(gateway, "reload", reload)
    replace_file(path)

    with pytest.raises(InterruptedError):
        await gateway.watch()
    assert read == [True]


async def test_a_server_that_can_not_be_reached_is_tried_until_it_comes(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    file = tmp_path / "gateway.toml"
    file.write_text(f'[servers.late]\nurl = "http://127.0.0.1:{port}/mcp"\n')
    gateway = await LiveGateway.open(file)
    box, told = gateway.found.toolbox, asyncio.Event()
    loop = asyncio.get_running_loop()

    def hear(name: str | None) -> None:
        loop.call_soon_threadsafe(told.set)

    box.watch(hear)
    watching = asyncio.create_task(gateway.watch())
    try:
        assert (box.names, len(gateway.found.failed)) == ([], 1)
        assert "can't be used" in str(box.server_errors["late"])
        late = MCPServer("late")
        late.add_tool(lambda: "here", name="here")
        with served(late.streamable_http_app(), port):
            await told.wait()
            await until(lambda: not gateway.found.failed)
            assert (box.names, box.server_errors) == (["here"], {})
            assert (await box.call("here")).ok
    finally:
        watching.cancel()
        await box.close()


def runs_script(process: int) -> bool:
    """Whether a process is one of the servers."""
    return "server.py" in Path(f"/proc/{process}/cmdline").read_text().split("\0")


async def test_a_server_that_ends_comes_back_with_the_tools_that_it_then_has(
    gateway: LiveGateway, path: Path
) -> None:
    box = gateway.found.toolbox
    script = path.parent / "server.py"
    script.write_text(script.read_text().replace("ping_", "pong_"))
    before = children_of(os.getpid())
    watching = asyncio.create_task(gateway.watch())
    try:
        assert sorted(box.names) == ["add", "ping_a", "ping_b", "wipe"]
        for process in before:
            if runs_script(process):
                os.kill(process, signal.SIGKILL)
        await until(lambda: sorted(box.names) == ["add", "pong_a", "pong_b", "wipe"])
        assert (await box.call("pong_a")).ok
    finally:
        watching.cancel()
        await asyncio.wait((watching,))
