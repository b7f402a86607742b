"""Let other people's MCP clients use our server, over a pipe and over HTTP.

Usage: clients.py NODE OLDER NEWER, the folders where the clients are installed. It is run
in a namespace of its own, so every process in sight is one of its own.
"""

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from processes import left_behind, node_of, running, wait_for_port

PORT = 8766
BOX = [sys.executable, "judges/mcp/box.py"]
TARGETS: dict[str, dict[str, Any]] = {
    "a pipe": {"command": BOX},
    "HTTP": {"url": f"http://127.0.0.1:{PORT}/mcp"},
}
OLDER = ("langchain", "pydantic_ai", "mcp_use")
NEWER = ("fastmcp", "openai_agents")
# What can never be called is not listed.
NAMES = {"add", "repeat", "fail", "misfit"}
SECONDS = 90
# Each call: whether it goes well, and what is said.
CALLS = {
    "add": (True, "5"),
    "default": (True, "7"),
    "repeat": (True, "こんにちは"),
    "fail": (False, "no such thing"),
    "refuse": (False, "denied"),
    "misfit": (False, "does not fit its output schema"),
}


def run(command: list[str]) -> str:
    """What a command prints, or why it does not."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode != 0:
        said = (done.stderr + done.stdout)[-2000:]
        raise RuntimeError(f"exit code {done.returncode}: {said}")
    return done.stdout


def judge_library(python: Path, library: str, target: dict[str, Any]) -> list[str]:
    """List and call with a library; gives what is wrong."""
    script = f"judges/mcp/use_{library}.py"
    report = json.loads(run([str(python / "bin/python"), script, json.dumps(target)]))
    faults = []
    if {*report["names"]} != NAMES:
        faults.append(f"it sees {report['names']}")
    for call, (right, part) in CALLS.items():
        went_well, said = report[call]
        if went_well is not right or part not in said:
            faults.append(f"{call}: {'ok' if went_well else 'failed'}: {said[:300]}")
    return faults


def judge_inspector(node: Path, target: dict[str, Any]) -> list[str]:
    """List and call with the Inspector; gives what is wrong."""
    if "command" in target:
        entry = {"type": "stdio", "command": target["command"][0], "args": target["command"][1:]}
    else:
        entry = {"type": "streamable-http", "url": target["url"]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump({"mcpServers": {"box": entry}}, config)
        config.flush()
        launcher = node / "node_modules/@modelcontextprotocol/inspector/clients/launcher"
        inspector = [str(node_of(node)), str(launcher / "build/index.js"), "--cli"]
        inspector += ["--config", config.name, "--server", "box", "--method"]
        # Strict: what a provider might not take in a schema is a failure too.
        listed = json.loads(run([*inspector, "tools/list", "--strict"]))
        called = json.loads(
            run([*inspector, "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3"])
        )
    faults = []
    names = {tool["name"] for tool in listed["tools"]}
    if names != NAMES:
        faults.append(f"it sees {sorted(names)}")
    if called.get("isError") or called["content"][0]["text"] != "5":
        faults.append(f"add: {called}")
    return faults


def main() -> int:
    """Try every client on every way to the server; gives the exit code."""
    node, older, newer = map(Path, sys.argv[1:])
    tries = {"inspector": partial(judge_inspector, node)}
    for python, libraries in ((older, OLDER), (newer, NEWER)):
        tries |= {library: partial(judge_library, python, library) for library in libraries}
    wrong = 0
    with running([*BOX, "--port", str(PORT)]) as server:
        wait_for_port(PORT, server)
        for name, attempt in tries.items():
            for way, target in TARGETS.items():
                try:
                    faults = attempt(target)
                except (RuntimeError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
                    faults = [f"{type(error).__name__}: {error}"]
                print(f"{name} over {way}: {'ok' if not faults else 'failed'}", flush=True)
                for fault in faults:
                    print(f"    {fault}", file=sys.stderr)
                wrong += len(faults)
    for pid, line in left_behind().items():
        print(f"left behind: {pid} {line}", file=sys.stderr)
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
