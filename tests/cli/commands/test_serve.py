"""Serving: where it listens, how a client gets there, and what is refused before."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.child_process import ChildProcess
from tests.cli.conftest import Command
from tests.cli.terminal import SECONDS, wieldy
from tests.forking.launch_files import WIELDY


class Serving:
    """A server in a process of its own, and what it said when it was ready."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = ChildProcess(
            [WIELDY, "serve", "--port", "0", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.said = ""
        while "Press Ctrl-C to stop." not in self.said:
            line = self.process.stderr.readline()
            if not line:
                self.process.communicate(timeout=SECONDS)
                raise AssertionError(f"it ended: {self.said}")
            self.said += line
        self.url = self.said.split(" tools at ")[1].split(": ")[0]

    def stop(self) -> tuple[int, str]:
        """Press Ctrl-C; gives the exit code and what was on stdout."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=SECONDS)


@pytest.fixture
def serving(folder: Path) -> Iterator[Serving]:
    server = Serving(folder)
    yield server
    server.close()


def unquoted(said: str) -> str:
    """What was printed, where a path that has a space is quoted."""
    return said.replace("'", "")


def test_a_server_says_how_to_connect_and_what_to_try(serving: Serving) -> None:
    assert serving.url.startswith("http://127.0.0.1:")
    assert serving.url.endswith("/mcp")
    for text in ("add, echo, wipe", "mcpServers", "--stdio", "inspector", "wieldy log --follow"):
        assert text in unquoted(serving.said)
    (trial,) = [shlex.split(line) for line in serving.said.splitlines() if "log --follow" in line]
    assert shutil.which(trial[0]), "what is printed can be typed"
    assert serving.stop() == (0, "")


def test_a_served_tool_is_listed_and_called_by_its_address(serving: Serving, folder: Path) -> None:
    listed = json.loads(wieldy("list", serving.url, "--json", cwd=folder).stdout)
    assert {"add", "wipe"} <= {tool["name"] for tool in listed}
    assert listed[0]["source"] == serving.url
    done = wieldy("call", "add", serving.url, "--arg", "a=1", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "3.0\n")
    recorded = json.loads(wieldy("log", "--tool", "add", "--json", cwd=folder).stdout)
    # Once by the server, and once by the caller, who has the same store.
    assert [entry["value"] for entry in recorded] == [3.0, 3.0]


def test_a_server_runs_what_is_approved_from_another_terminal(
    serving: Serving, folder: Path, ann: str
) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    wieldy("call", "wipe", serving.url, "--arg", "path=a", cwd=elsewhere)
    [waits] = json.loads(wieldy("pending", "--json", cwd=folder).stdout)
    approved = wieldy("approve", waits["call_id"], cwd=folder)
    assert "a server" in approved.stderr
    followed = ChildProcess(
        [WIELDY, "log", "--follow", "--tool", "wipe", "--state", "ok", "--limit", "1", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert followed.stdout is not None
        ended = json.loads(followed.stdout.readline())
    finally:
        followed.kill()
        followed.communicate(timeout=SECONDS)
    assert (ended["call_id"], ended["value"]) == (waits["call_id"], "wiped a 1")
    assert ended["decision"]["by"] == "ann"
    assert serving.stop() == (0, "")


def printed_command(serving: Serving) -> dict[str, Any]:
    """What a server says that a client should start, once it has stopped itself."""
    try:
        printed = serving.said.split("Claude Desktop starts the server itself:\n")[1].split("\n\n")[
            0
        ]
        told: dict[str, Any] = json.loads(printed)["mcpServers"]["wieldy"]
        serving.stop()
    finally:
        serving.close()
    return told


def test_what_to_start_elsewhere_names_every_source(folder: Path) -> None:
    (folder / "rules.py").write_text(
        "from wieldy import Toolbox\nbox = Toolbox()\nbox.rules.deny('wipe')\n"
    )
    other = folder.resolve() / "tools.py"

    told = printed_command(Serving(folder, "rules.py", "tools.py:box", "nowhere.json"))

    assert told["args"][:4] == [
        "serve",
        str(folder.resolve() / "rules.py"),
        f"{other}:box",
        "nowhere.json",
    ]


def test_what_to_start_elsewhere_keeps_the_lock_and_the_store(folder: Path) -> None:
    server = {
        "command": WIELDY,
        "args": ["serve", str(folder / "tools.py"), "--stdio"],
        "env": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        "cwd": str(folder),
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"mine": server}}))
    assert wieldy("lock", "mcp.json", cwd=folder).returncode == 0
    settings = ("--lock", "tools.lock", "--on-change", "warn", "--store", "sqlite:///gate.db")
    gateway = Serving(folder, "mcp.json", *settings)
    told = printed_command(gateway)
    assert Path(told["command"]).is_absolute()
    assert told["args"] == [
        "serve",
        str(folder.resolve() / "mcp.json"),
        "--lock",
        str(folder / "tools.lock"),
        "--on-change",
        "warn",
        "--store",
        f"sqlite:///{folder / 'gate.db'}",
        "--stdio",
    ]
    assert f"wieldy pending --store sqlite:///{folder / 'gate.db'}" in unquoted(gateway.said)


def test_what_to_try_names_the_store_of_a_python_source(folder: Path) -> None:
    text = (folder / "tools.py").read_text().replace("wieldy.db", "calls.db")
    (folder / "tools.py").write_text(text)
    server = Serving(folder)
    try:
        assert f"wieldy pending --store sqlite:///{folder / 'calls.db'}" in unquoted(server.said)
    finally:
        server.close()


def test_a_caller_needs_its_token(folder: Path) -> None:
    server = Serving(folder, "--token", "ann=very-secret-token")
    try:
        assert '"Authorization": "Bearer TOKEN"' in server.said
        assert "very-secret-token" not in server.said
        refused = wieldy("list", server.url, cwd=folder)
        assert refused.returncode == 2
    finally:
        server.close()


def test_an_mcp_servers_file_names_servers_over_stdio(folder: Path) -> None:
    server = {
        "command": WIELDY,
        "args": ["serve", str(folder / "tools.py"), "--stdio"],
        "env": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        "cwd": str(folder),
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"mine": server}}))
    done = wieldy("call", "add", "mcp.json", "--arg", "a=1", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "3.0\n")
    both = json.loads(wieldy("list", "tools.py", "mcp.json", "--json", cwd=folder).stdout)
    origins = {tool["name"]: tool["source"] for tool in both}
    assert (origins["add"], origins["mine__add"]) == ("tools.py", "mcp.json")
    servers = {tool["name"]: tool["server"] for tool in both}
    assert (servers["add"], servers["mine__add"]) == (None, "mine")
    table = wieldy("list", "tools.py", "mcp.json", cwd=folder).stdout.splitlines()
    assert table[0].split() == ["name", "group", "permission", "source", "server", "description"]
    [row] = [line.split() for line in table if line.startswith("mine__add ")]
    assert row[:5] == ["mine__add", "basic", "auto", "mcp.json", "mine"]
    assert "server      mine" in wieldy("describe", "add", "mcp.json", cwd=folder).stdout


def test_a_taken_port_is_said(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command("serve", "--port", str(port))
    assert done.exit_code == 2
    assert f"Can't listen on 127.0.0.1 port {port}" in done.stderr
    assert "--port" in done.stderr


def test_others_are_let_in_only_with_tokens(command: Command) -> None:
    done = command("serve", "--host", "0.0.0.0")
    assert done.exit_code == 2
    assert "every caller needs a token" in done.stderr


@pytest.mark.parametrize("given", ["justatoken", "=secret", "name="])
def test_a_token_without_a_name_is_refused_and_not_repeated(command: Command, given: str) -> None:
    done = command("serve", "--token", given)
    assert done.exit_code == 2
    assert "A token is given as NAME=TOKEN" in done.stderr
    assert given not in done.stderr


def test_nothing_is_written_to_stdout(command: Command) -> None:
    assert command("serve", "nowhere.py", "--stdio").stdout == ""


ISOLATED = """
import os
from wieldy import Toolbox

box = Toolbox()


@box.tool
def inner() -> int:
    \"\"\"Where an inner call runs.\"\"\"
    return os.getpid()


@box.tool(permission="deny")
def forbidden() -> int:
    \"\"\"Never runs.\"\"\"
    return os.getpid()


@box.tool
async def outer() -> str:
    \"\"\"Call others, and end this process.\"\"\"
    print("on stdout")
    denied = await box.call("forbidden")
    return f"{os.getppid()} {denied.status}"


@box.tool
def crash() -> None:
    \"\"\"End the process.\"\"\"
    os._exit(3)
"""


def test_functions_of_a_source_run_in_processes_where_that_is_asked_for(folder: Path) -> None:
    (folder / "isolated.py").write_text(ISOLATED)
    server = Serving(folder, "isolated.py", "--isolation", "process")
    try:
        done = [wieldy("call", name, server.url, cwd=folder) for name in ("crash", "outer")]
    finally:
        code, out = server.stop()

    assert "exited with code 3" in done[0].stderr + done[0].stdout
    parent, status = done[1].stdout.split()
    assert int(parent) != server.process.pid
    assert status == "denied"
    assert "--isolation" in printed_command(server)["args"]
    assert (code, out) == (0, "on stdout\n")


def test_a_source_that_can_not_run_in_processes_is_said(folder: Path) -> None:
    (folder / "stateful.py").write_text(
        "from wieldy import Toolbox\nbox = Toolbox()\n"
        "class Counter:\n    def __init__(self): self.count = 0\n"
        "    def step(self) -> int:\n        self.count += 1\n        return self.count\n"
        "box.add_object(Counter())\n"
    )
    done = wieldy("serve", "stateful.py", "--stdio", "--isolation", "process", cwd=folder)

    assert done.returncode == 2
    assert "a Counter has attributes (count)" in done.stderr


async def test_with_search_a_client_sees_a_few_tools_and_hears_of_what_it_loads(
    folder: Path,
) -> None:
    words = ["serve", "tools.py", "--stdio", "--search", "--always", "ech*"]
    process = StdioServerParameters(command=str(WIELDY), args=words, cwd=folder)
    async with (
        Client(stdio_client(process)) as client,
        client.listen(tools_list_changed=True) as changes,
    ):
        shown = [tool.name for tool in (await client.list_tools()).tools]
        assert shown == ["search_tools", "load_tools", "echo"]
        found = await client.call_tool("search_tools", {"query": "add two numbers"})
        assert "'name': 'add'" in str(found.structured_content)

        await client.call_tool("load_tools", {"names": ["add"]})
        await anext(aiter(changes))

        after = [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]
        assert after == [*shown, "add"]
        assert (await client.call_tool("add", {"a": 1})).structured_content == {"result": 3.0}


def test_search_is_passed_on_to_clients_that_start_the_server(folder: Path) -> None:
    server = Serving(folder, "--search", "--budget", "900", "--always", "add")
    try:
        words = printed_command(server)["args"]
    finally:
        server.stop()

    assert words[-6:] == ["--search", "--budget", "900", "--always", "add", "--stdio"]


def test_a_budget_that_is_too_small_is_refused_before_serving(command: Command) -> None:
    done = command("serve", "--search", "--budget", "20")

    assert done.exit_code == 2
    assert "the budget is 20" in done.output.replace("\n", " ")


async def test_in_code_mode_a_client_sees_one_tool_whose_programs_call_the_others(
    folder: Path,
) -> None:
    words = ["serve", "tools.py", "--stdio", "--code-mode", "--always", "ech*"]
    process = StdioServerParameters(command=str(WIELDY), args=words, cwd=folder)
    async with Client(stdio_client(process)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["echo", "run_code"]
        assert "async def add(" in (tools["run_code"].description or "")
        assert "async def echo(" not in (tools["run_code"].description or "")

        result = await client.call_tool("run_code", {"code": "await add(a=1) + await add(a=2)"})

        assert "7" in str(result.content)
        with pytest.raises(MCPError, match="no tool named 'add'"):
            await client.call_tool("add", {"a": 1})


def test_code_mode_is_passed_on_to_clients_that_start_the_server(folder: Path) -> None:
    server = Serving(folder, "--code-mode", "--budget", "900")
    try:
        words = printed_command(server)["args"]
    finally:
        server.stop()

    assert words[-4:] == ["--code-mode", "--budget", "900", "--stdio"]


def test_search_and_code_mode_are_not_used_together(command: Command) -> None:
    done = command("serve", "--search", "--code-mode")

    assert done.exit_code == 2
    assert "Choose --search or --code-mode" in done.output
