"""Use real MCP servers as tools: list them, call them, kill one, lock them, leave none behind.

Usage: servers.py NODE PYTHON, the folders where the servers are installed. It is run in a
namespace of its own, so every process in sight is one of its own.
"""

import asyncio
import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import left_behind, node_of, processes

from wieldy import Outcome, Toolbox
from wieldy.mcp.lock import Lock
from wieldy.mcp.suspicion import suspicions

KILLED = "memory"
# What a person would be shown about these servers, all of them harmless.
MAX_FINDINGS = 2


@dataclass(frozen=True)
class Case:
    """A server, how many tools it has at least, and a call with a part of its answer."""

    command: list[str]
    tools: int
    tool: str
    arguments: Mapping[str, Any]
    answer: str
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> dict[str, Any]:
        """The server as an `mcpServers` file has it."""
        return {"command": self.command[0], "args": self.command[1:], "env": dict(self.env)}


class Page(http.server.BaseHTTPRequestHandler):
    """A web site of one page."""

    def do_GET(self) -> None:
        """Give the page, and no robots.txt."""
        there = self.path != "/robots.txt"
        self.send_response(200 if there else 404)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"a page from nearby" if there else b"")

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def site() -> Iterator[str]:
    """The address of the web site while inside."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/page"
        server.shutdown()


def cases(node: Path, python: Path, work: Path, page: str) -> dict[str, Case]:
    """The servers, each over something that it can work on."""
    (work / "note.txt").write_text("a note", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", str(work / "repo")], check=True)

    def of_npm(name: str, *more: str) -> list[str]:
        script = node / f"node_modules/@modelcontextprotocol/server-{name}/dist/index.js"
        return [str(node_of(node)), str(script), *more]

    def of_pypi(name: str, *more: str) -> list[str]:
        return [str(python / f"bin/mcp-server-{name}"), *more]

    thought = {"thought": "so", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    ann = {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["reads"]}
    (work / "memory.jsonl").write_text(json.dumps(ann), encoding="utf-8")
    memory = {"MEMORY_FILE_PATH": str(work / "memory.jsonl")}
    return {
        "everything": Case(of_npm("everything", "stdio"), 13, "echo", {"message": "hi"}, "hi"),
        "filesystem": Case(
            of_npm("filesystem", str(work)),
            14,
            "read_text_file",
            {"path": str(work / "note.txt")},
            "a note",
        ),
        KILLED: Case(of_npm("memory"), 9, "read_graph", {}, "Ann", memory),
        "thinking": Case(
            of_npm("sequential-thinking"), 1, "sequentialthinking", thought, "thoughtNumber"
        ),
        "time": Case(of_pypi("time"), 2, "get_current_time", {"timezone": "UTC"}, "UTC"),
        "git": Case(
            of_pypi("git"), 12, "git_status", {"repo_path": str(work / "repo")}, "No commits yet"
        ),
        "fetch": Case(
            of_pypi("fetch", "--allow-private-ips"), 1, "fetch", {"url": page}, "a page from nearby"
        ),
    }


class Judge:
    """Tries things on a toolbox with all the servers, and notes what is wrong."""

    def __init__(self, tried: Mapping[str, Case]) -> None:
        self.cases = tried
        self.faults: list[str] = []

    @property
    def config(self) -> dict[str, Any]:
        """The servers as an `mcpServers` file has them."""
        return {"mcpServers": {name: case.entry for name, case in self.cases.items()}}

    def expect(self, holds: bool, fault: str) -> None:
        """Note a fault unless something holds."""
        if not holds:
            self.faults.append(fault)

    def listed(self, box: Toolbox) -> None:
        """Each server has the tools it is known for, and perhaps more for such a client."""
        for name, case in self.cases.items():
            found = len(box.mcp[name].tools)
            self.expect(found >= case.tools, f"{name}: {found} tools, not {case.tools}")
        print(f"{len(box)} tools of {len(self.cases)} servers", flush=True)

    async def called(self, box: Toolbox) -> None:
        """Each server answers, twice at the same time."""
        calls = [(case.tool, case.arguments) for case in self.cases.values() for _ in range(2)]
        outcomes = iter(await box.call_many(calls))
        for name, case in self.cases.items():
            for outcome in (next(outcomes), next(outcomes)):
                self.answered(name, case, outcome)

    def answered(self, name: str, case: Case, outcome: Outcome) -> None:
        """The outcome is the one that is expected of the server."""
        right = outcome.ok and case.answer in outcome.text
        said = f"{outcome.status}: {outcome.text[:300]!r}"
        self.expect(right, f"{name}: {case.tool} gave {said}")

    async def killed(self, box: Toolbox) -> None:
        """A server that dies is started again, and the others don't notice."""
        [pid] = pids_of(self.cases[KILLED])
        os.kill(pid, signal.SIGKILL)
        first = await box.call("read_graph")
        again = await box.call("read_graph")
        print(f"after a kill: {first.status}, then {again.status}", flush=True)
        self.answered(KILLED, self.cases[KILLED], again)
        new = pids_of(self.cases[KILLED])
        self.expect(len(new) == 1 and new != [pid], f"{KILLED} runs as {new}, and was {pid}")
        await self.called(box)

    def suspected(self, box: Toolbox) -> None:
        """Little is found suspicious in what these servers say of themselves."""
        found = [(tool, each) for tool in box for each in suspicions(tool)]
        for tool, each in found:
            print(f"{tool.source} {tool.name} {each.place}: {each.kind}: {each.passage}")
        print(f"{len(found)} findings in {len(box)} tools", flush=True)
        self.expect(len(found) <= MAX_FINDINGS, f"{len(found)} findings are too many")

    async def locked(self, box: Toolbox, path: Path) -> None:
        """What is started again is as it was locked; what is not as locked is held back."""
        lock = Lock.of(box)
        changed = lock.tools["echo"].model_copy(update={"source": "mcp:another"})
        Lock({**lock.tools, "echo": changed}).write(path)
        async with Toolbox(lock=path) as again:
            await again.add_mcp(self.config)
            differ = [(each.name, each.fields) for each in lock.compare(again)]
            self.expect(not differ, f"changed since they were locked: {differ}")
            missing = {*box.names} - {*again.names}
            self.expect(missing == {"echo"}, f"the lock holds back {missing}, not echo")


def pids_of(case: Case) -> list[int]:
    """The processes that are the server itself, not whoever looks after it."""
    whole = " ".join(case.command)
    return [pid for pid, line in processes().items() if line.strip() == whole]


async def try_all(judge: Judge, work: Path) -> None:
    """Do everything with one toolbox, and some of it with a second."""
    async with Toolbox() as box:
        await box.add_mcp(judge.config)
        judge.listed(box)
        await judge.called(box)
        await judge.killed(box)
        judge.suspected(box)
        await judge.locked(box, work / "tools.lock")


def main() -> int:
    """Try the servers; gives the exit code."""
    node, python = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder, site() as page:
        # Some servers compare paths after following links.
        work = Path(folder).resolve()
        judge = Judge(cases(node, python, work, page))
        asyncio.run(try_all(judge, work))
        for pid, line in left_behind().items():
            judge.expect(False, f"left behind: {pid} {line}")
    for fault in judge.faults:
        print(fault, file=sys.stderr)
    return 1 if judge.faults else 0


if __name__ == "__main__":
    sys.exit(main())
