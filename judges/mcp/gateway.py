"""Let other people's MCP clients use a gateway with other people's servers behind it.

Usage: gateway.py NODE OLDER NEWER, the folders where clients and servers are installed. All
clients are there at once. Each parks a call, which another process approves, and sees the
gateway killed and started again. It is run in a namespace of its own.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from clients import run
from processes import left_behind, node_of, wait_for_port

PORT, WEATHER_PORT = 8781, 8782
GATEWAY = f"http://127.0.0.1:{PORT}"
WIELDY = str(Path(sys.executable).with_name("wieldy"))
SECONDS = 120
# One of them sees a part of the tools.
NARROW = "pydantic_ai"
LIBRARIES = {"langchain": 1, NARROW: 1, "mcp_use": 1, "fastmcp": 2, "openai_agents": 2}
PROMPT, RESOURCE = "every_simple-prompt", "demo://resource/static/document/features.md"
CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "add": ({"a": 2, "b": 3}, "5"),
    "clock_get_current_time": ({"timezone": "UTC"}, "UTC"),
    "every_echo": ({"message": "こんにちは\n<b>&"}, "こんにちは"),
    "get_weather": ({"city": "Ulm"}, "fog in Ulm"),
}
SEEN = {"add", "clock_get_current_time", "wipe"}
TOOLS = """
from wieldy import Toolbox

box = Toolbox()


@box.tool(read_only=True)
def add(a: int, b: int = 2) -> int:
    return a + b


@box.tool(permission="confirm")
def wipe(path: str) -> str:
    return f"wiped {path}"


@box.tool
def launch() -> str:
    return "it ran"
"""
WEATHER = {
    "openapi": "3.1.0",
    "info": {"title": "Weather", "version": "1"},
    "servers": [{"url": f"http://127.0.0.1:{WEATHER_PORT}"}],
    "paths": {
        "/weather/{city}": {
            "get": {
                "operationId": "get_weather",
                "parameters": [
                    {"name": "city", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "responses": {"200": {"description": "the weather"}},
            }
        }
    },
}


def write_file(folder: Path, node: Path, older: Path) -> None:
    """Write the gateway's file and what it names."""
    (folder / "tools.py").write_text(TOOLS)
    (folder / "weather.json").write_text(json.dumps(WEATHER))
    script = node / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    (folder / "gateway.toml").write_text(f"""
store = "sqlite:///{folder}/gateway.db"
[listen]
port = {PORT}
[access]
tokens = true
[servers.everything]
command = "{node_of(node)}"
args = ["{script}", "stdio"]
prefix = "every_"
[servers.clock]
command = "{older}/bin/mcp-server-time"
prefix = "clock_"
[[sources]]
path = "tools.py"
[[sources]]
path = "weather.json"
[[rules]]
verdict = "deny"
tools = "launch"
[views.narrow]
tools = ["add", "wipe", "clock_get_*"]
[callers.{NARROW}]
view = "narrow"
""")


class Weather(http.server.BaseHTTPRequestHandler):
    """The web service that the OpenAPI document describes."""

    def do_GET(self) -> None:
        """Tell the weather."""
        body = json.dumps({"weather": f"fog in {self.path.rpartition('/')[2]}"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def weather() -> Iterator[None]:
    """Serve the weather while inside."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", WEATHER_PORT), Weather) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


class Gateway:
    """The gateway's process, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._file = str(folder / "gateway.toml")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until clients are let in."""
        command = [WIELDY, "serve", self._file]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        wait_for_port(PORT, self._process)

    def kill(self) -> None:
        """End it without a chance to say good-bye."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, how)
        self._process.wait(60)


class LibraryClient:
    """A client library in a process of its own, which tells how far it is."""

    def __init__(self, library: str, python: Path, token: str) -> None:
        self.library = library
        target = {
            "who": library,
            "url": f"{GATEWAY}/mcp",
            "headers": {"Authorization": f"Bearer {token}"},
            "calls": {name: arguments for name, (arguments, _) in CALLS.items()},
            "resources": [RESOURCE],
            "prompts": [PROMPT],
        }
        script = f"judges/mcp/use_{library}.py"
        self._process = subprocess.Popen(
            [str(python / "bin/python"), script, json.dumps(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> dict[str, Any]:
        """What it says next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.library} ended with {self._process.wait(SECONDS)}")
        told: dict[str, Any] = json.loads(line)
        return told

    def go_on(self) -> None:
        """Let it continue."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()


def judge_report(library: str, report: dict[str, Any]) -> list[str]:
    """What is wrong with what a client saw and got."""
    faults, narrow = [], library == NARROW
    names = set(report["names"])
    if narrow and names != SEEN:
        faults.append(f"it sees {sorted(names)}")
    if (not narrow and not {*CALLS, *SEEN} <= names) or "launch" in names:
        faults.append(f"it sees {sorted(names)}")
    wanted = {name: part for name, (_, part) in CALLS.items()}
    wanted |= {RESOURCE: "Everything", PROMPT: "simple prompt", "new session": "5"}
    for what, part in wanted.items():
        went_well, said = report[what]
        hidden = narrow and what not in {*SEEN, "new session"}
        right = not went_well if hidden else went_well and part in said
        if not right:
            faults.append(f"{what}: {'ok' if went_well else 'failed'}: {said[:300]}")
    print(f"{library}: the same session after the kill: {report['same session']}", flush=True)
    return faults


def judge_parked(library: str, said: str, headers: dict[str, str]) -> list[str]:
    """Approve the call of a client in another process; what is wrong with what becomes of it."""
    with httpx2.Client(base_url=f"{GATEWAY}/api", headers=headers, timeout=60) as api:
        waiting = api.get("/pending").json()["pending"]
        own = [call for call in waiting if call["caller"] == library]
        if len(own) != 1 or own[0]["call_id"] not in said:
            return [f"parked: {said[:300]}, and {own} waits"]
        call_id = own[0]["call_id"]
        token = headers["Authorization"].removeprefix("Bearer ")
        store = os.environ["WIELDY_STORE"]
        run([WIELDY, "approve", call_id, "--token", token, "--store", store])
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            call = api.get(f"/calls/{call_id}").json()
            if call["state"] not in ("pending", "approved", "started"):
                right = (call["state"], call["value"]) == ("ok", f"wiped {library}")
                return [] if right else [f"approved: {call}"]
            time.sleep(0.1)
    return [f"{call_id} was approved and has not run"]


def judge_inspector(node: Path, token: str, folder: Path) -> list[str]:
    """List and read with the Inspector; gives what is wrong."""
    entry = {
        "type": "streamable-http",
        "url": f"{GATEWAY}/mcp",
        "headers": {"Authorization": f"Bearer {token}"},
    }
    config = folder / "inspector.json"
    config.write_text(json.dumps({"mcpServers": {"gateway": entry}}))
    launcher = node / "node_modules/@modelcontextprotocol/inspector/clients/launcher"
    inspector = [str(node_of(node)), str(launcher / "build/index.js"), "--cli"]
    inspector += ["--config", str(config), "--server", "gateway", "--method"]
    faults = []
    for method, part in (
        (["tools/list"], "clock_get_current_time"),
        (["tools/call", "--tool-name", "every_echo", "--tool-arg", "message=hi"], "Echo: hi"),
        (["resources/list"], RESOURCE),
        (["prompts/list"], PROMPT),
    ):
        said = run([*inspector, *method])
        if part not in said:
            faults.append(f"{method}: {said[:300]}")
    return faults


def try_all(gateway: Gateway, clients: list[LibraryClient], ann: str) -> dict[str, list[str]]:
    """Let all clients do everything; what is wrong, by client."""
    headers = {"Authorization": f"Bearer {ann}"}
    faults = {}
    for client in clients:
        said = client.hear()["parked"]
        faults[client.library] = judge_parked(client.library, said, headers)
        client.go_on()
    for client in clients:
        client.hear()
    gateway.kill()
    gateway.start()
    for client in clients:
        client.go_on()
    for client in clients:
        faults[client.library] += judge_report(client.library, client.hear())
    return faults


def make_token(name: str, *roles: str) -> str:
    """A token of the gateway's store."""
    options = [word for role in roles for word in ("--role", role)]
    made = run([WIELDY, "token", "make", name, *options, "--json"])
    token: str = json.loads(made)["token"]
    return token


def main() -> int:
    """Start everything, and try; gives the exit code."""
    node, older, newer = map(Path, sys.argv[1:])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        stack.enter_context(weather())
        write_file(folder, node, older)
        os.environ["WIELDY_STORE"] = f"sqlite:///{folder}/gateway.db"
        ann = make_token("ann", "approve")
        tokens = {library: make_token(library) for library in (*LIBRARIES, "inspector")}
        gateway = Gateway(folder)
        gateway.start()
        stack.callback(gateway.stop)
        clients = [
            LibraryClient(library, older if generation == 1 else newer, tokens[library])
            for library, generation in LIBRARIES.items()
        ]
        for client in clients:
            stack.callback(client.close)
        faults = try_all(gateway, clients, ann)
        faults["inspector"] = judge_inspector(node, tokens["inspector"], folder)
    for name, found in faults.items():
        print(f"{name}: {'failed' if found else 'ok'}", flush=True)
        for fault in found:
            print(f"    {fault}", file=sys.stderr)
    left = left_behind()
    for pid, line in left.items():
        print(f"left behind: {pid} {line}", file=sys.stderr)
    return 1 if left or any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
