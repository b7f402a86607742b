"""Let MCP's conformance suite judge our server and our client.

Usage: conformance.py FOLDER, where the suite and its Node are installed. It is run in a
network namespace, because the suite's mock servers listen on every interface.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from processes import node_of, running, wait_for_port

VERSIONS = ("2025-11-25", "2026-07-28")
# What the examples of the official SDK pass. Less would mean that something was not looked at.
LEAST = {
    ("server", "2025-11-25"): 84,
    ("server", "2026-07-28"): 152,
    ("client", "2025-11-25"): 247,
    ("client", "2026-07-28"): 405,
    # The extension for tasks is newer than those examples: all that the suite checks.
    ("tasks", "2026-07-28"): 44,
}
PORT = 8765
SERVER = [sys.executable, "tests/conformance/server.py", "--port", str(PORT)]
TASK_SERVER = [sys.executable, "tests/conformance/task_server.py", "--port", str(PORT)]
CLIENT = f"{sys.executable} tests/conformance/client.py"
SUITE_SECONDS, SCENARIO_SECONDS = 300, 60
_SCENARIO = re.compile(r"^  - (\S+) \[", re.MULTILINE)
_HARMLESS = {"SUCCESS", "INFO", "SKIPPED"}


class Suite:
    """The suite at one version of the protocol, and what it found."""

    def __init__(self, folder: Path, version: str, results: Path) -> None:
        script = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
        self._command = [str(node_of(folder)), str(script)]
        self._version = version
        self._results = results

    def scenarios(self, side: str) -> list[str]:
        """The scenarios that apply to one side, or to the extension for tasks."""
        if side == "tasks":
            # Those of extensions belong to no version.
            listed = self._start(30, "list", "--server")
            return [name for name in _SCENARIO.findall(listed.stdout) if name.startswith(side)]
        return _SCENARIO.findall(self._run(30, "list", f"--{side}").stdout)

    def judge_server(self) -> list[str]:
        """Run every scenario against our server; gives what is wrong."""
        with running(SERVER) as server:
            wait_for_port(PORT, server)
            url = f"http://127.0.0.1:{PORT}/mcp"
            asked = ("server", "--url", url, "--suite", "all")
            done = self._judge("server", SUITE_SECONDS, *asked)
            return [*done, *self._verdict("server")]

    def judge_client(self) -> list[str]:
        """Run every scenario against our client, one after the other; gives what is wrong."""
        faults = []
        for scenario in self.scenarios("client"):
            arguments = ("client", "--command", CLIENT, "--scenario", scenario)
            faults += self._judge("client", SCENARIO_SECONDS, *arguments)
        return [*faults, *self._verdict("client")]

    def judge_tasks(self) -> list[str]:
        """Run every scenario about tasks against a server of ours; gives what is wrong."""
        faults = []
        with running(TASK_SERVER) as server:
            wait_for_port(PORT, server)
            url = f"http://127.0.0.1:{PORT}/mcp"
            for scenario in self.scenarios("tasks"):
                arguments = ("server", "--url", url, "--scenario", scenario, "--force")
                faults += self._judge("tasks", SCENARIO_SECONDS, *arguments)
        return [*faults, *self._verdict("tasks")]

    def _judge(self, side: str, seconds: int, *arguments: str) -> list[str]:
        place = str(self._results / side)
        bound = str(SCENARIO_SECONDS * 1000 // 2)
        try:
            done = self._run(seconds, *arguments, "--timeout", bound, "-o", place)
        except subprocess.TimeoutExpired:
            return [f"{' '.join(arguments)}: not done after {seconds} s"]
        if done.returncode == 0:
            return []
        said = (done.stdout + done.stderr)[-3000:]
        return [f"{' '.join(arguments)}: exit code {done.returncode}\n{said}"]

    def _run(self, seconds: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._start(seconds, *arguments, "--spec-version", self._version)

    def _start(self, seconds: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def _verdict(self, side: str) -> list[str]:
        """Read the results that the suite left, whatever it said."""
        faults, count = [], Counter[str]()
        place = self._results / side
        files = sorted(place.rglob("checks.json"))
        for file in files:
            for check in json.loads(file.read_text(encoding="utf-8")):
                count[check["status"]] += 1
                if check["status"] not in _HARMLESS:
                    name = file.parent.relative_to(place)
                    why = check.get("errorMessage") or check.get("details") or ""
                    faults.append(f"{name}: {check['status']} {check['id']}: {why}")
        ran = [
            re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", str(f.parent.relative_to(place)))
            for f in files
        ]
        missing = sorted({*self.scenarios(side)} - {*ran})
        if missing:
            faults.append(f"never judged: {', '.join(missing)}")
        least = LEAST[side, self._version]
        if count["SUCCESS"] < least:
            faults.append(f"{count['SUCCESS']} checks passed, and {least} can")
        bad = sum(number for status, number in count.items() if status not in _HARMLESS)
        print(f"{side} {self._version}: {count['SUCCESS']} passed, {bad} failed", flush=True)
        return [f"{side} {self._version}: {fault}" for fault in faults]


def main() -> int:
    """Judge both sides at each version; gives the exit code."""
    folder = Path(sys.argv[1])
    faults = []
    with tempfile.TemporaryDirectory() as results:
        for version in VERSIONS:
            suite = Suite(folder, version, Path(results, version))
            faults += [*suite.judge_server(), *suite.judge_client()]
            if ("tasks", version) in LEAST:
                faults += suite.judge_tasks()
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
