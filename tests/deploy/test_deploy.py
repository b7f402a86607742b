"""The files in `deploy/` fit the command, and systemd accepts the unit."""

import configparser
import json
import re
import shlex
import subprocess
from pathlib import Path

from tests.forking.launch_files import INSTALLED
from wieldy.server.config.gateway_file import ListenTable

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "wieldy.service"
CONTAINER = ROOT / "deploy" / "Containerfile"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    # A unit can't name a path that has a space.
    command = tmp_path / "wieldy"
    command.symlink_to(INSTALLED)
    unit = tmp_path / "wieldy.service"
    unit.write_text(UNIT.read_text().replace("/opt/wieldy/bin/wieldy", str(command)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_waits_longer_than_running_calls_may_take() -> None:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(UNIT)
    service = read["Service"]
    assert float(service["TimeoutStopSec"]) > ListenTable().grace
    for line in (service["ExecStartPre"], service["ExecStart"]):
        words = shlex.split(line)
        done = subprocess.run([INSTALLED, words[1], "--help"], capture_output=True, timeout=120)
        assert done.returncode == 0, line


def test_the_container_file_copies_what_is_there_and_starts_the_gateway() -> None:
    text = re.sub(r"^#.*\n", "", CONTAINER.read_text(), flags=re.M)
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line]
    known = "FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD"
    assert {name for name, _ in lines} <= {*known.split()}
    for name, rest in lines:
        if name == "COPY" and not rest.startswith("--from"):
            assert all((ROOT / each).exists() for each in rest.split()[:-1]), rest
    facts = dict(lines)
    assert json.loads(facts["ENTRYPOINT"]) == ["wieldy"]
    assert json.loads(facts["CMD"])[0] == "serve"
    assert facts["STOPSIGNAL"] == "SIGTERM"
    compile(json.loads(facts["HEALTHCHECK"].split("CMD ")[1])[2], "check", "exec")
    assert facts["USER"] == "wieldy", "the gateway is not root"
