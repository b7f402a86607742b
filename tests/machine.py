"""What this machine permits, found out once before the tests.

A test that needs more than an ordinary process has the mark `needs`, with the names of abilities
from the table below. Where the machine refuses one of them, the test is skipped, and the last lines
of the run say how many were, why, and what would allow them. With CI=true every skipped test fails,
whatever it was skipped for: nobody reads the last lines there.
"""

import atexit
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from typing import NamedTuple, TypeVar

import pytest

# Where the processes that share the tests find what the first one has found out.
_FOUND = "WIELDY_TESTS_REFUSED"
_NO_ROOT = os.geteuid() != 0
# Not root, not a user of the system.
_NOBODY = ("setpriv", "--reuid=65000", "--regid=65000", "--clear-groups")


class Ability(NamedTuple):
    """Something that a machine may refuse."""

    # Gives what the machine says if it refuses, and nothing if it permits.
    find_refusal: Callable[[], str]
    # How to allow it.
    allowed_by: str


def _try(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or f"{words[0]} ended with {done.returncode}"


def _unshare(*options: str) -> tuple[str, ...]:
    return ("unshare", *(["--map-root-user"] if _NO_ROOT else []), *options)


def _find_mounts() -> str:
    return _try(*_unshare("--mount"), "mount", "-t", "tmpfs", "none", "/tmp")


def _find_networks() -> str:
    return _try(*_unshare("--net", "--pid", "--fork"), "true")


def _find_browser_sandbox() -> str:
    # Chromium makes these, and never runs as root.
    user = () if _NO_ROOT else _NOBODY
    refusal = _try(*user, "unshare", "--user", "--net", "true")
    if not refusal:
        return ""
    # Its own helper may serve where they are refused. The user has no home here, and without one
    # Chromium ends before it looks for that. Its last processes outlive it a little.
    home = tempfile.mkdtemp(prefix="wieldy-browser-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    if not _NO_ROOT:
        os.chown(home, 65_000, 65_000)
    chromium = ("chromium", "--headless", f"--user-data-dir={home}", "--dump-dom", "about:blank")
    # What Chromium says has many lines, and the refusal is the reason for them.
    return _try(*user, "env", f"HOME={home}", *chromium) and refusal


def _find_sandbox() -> str:
    return _try("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")


def _find_memory_groups() -> str:
    """Try what the sandbox does, in the words of a shell, with both versions of cgroups."""
    return _try(
        "sh",
        "-c",
        "set -e; own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup); "
        'if [ -n "$own" ]; then top=/sys/fs/cgroup/memory$own limit=memory.limit_in_bytes; '
        "else own=$(sed -n 's/^0:://p' /proc/self/cgroup); limit=memory.max; "
        '  top=$(dirname "/sys/fs/cgroup$own"); fi; '
        'made=$top/of-tests-$$; mkdir "$made"; trap \'rmdir "$made"\' EXIT; '
        'echo 1000000 > "$made/$limit"',
    )


def _find_ipv6() -> str:
    try:
        with socket.socket(socket.AF_INET6) as listener:
            listener.bind(("::1", 0))
    except OSError as error:
        return str(error)
    return ""


_CONTAINER = "in a container: --cap-add SYS_ADMIN --security-opt seccomp=unconfined"
_USERS = "for an ordinary user: sudo sysctl user.max_user_namespaces=10000"
ABILITIES = {
    "mounts": Ability(_find_mounts, f"{_CONTAINER}; {_USERS}"),
    "networks": Ability(_find_networks, f"{_CONTAINER}; {_USERS}"),
    "a browser's sandbox": Ability(_find_browser_sandbox, f"{_CONTAINER}; {_USERS}"),
    "the sandbox": Ability(_find_sandbox, f"{_CONTAINER}; {_USERS}"),
    "memory cgroups": Ability(
        _find_memory_groups, "as root, or in a cgroup of one's own: systemd-run --user --scope"
    ),
    "ipv6": Ability(_find_ipv6, "sudo sysctl net.ipv6.conf.lo.disable_ipv6=0"),
}


def pytest_configure(config: pytest.Config) -> None:
    """Look once, before processes that share the tests are started."""
    config.addinivalue_line("markers", "needs(*abilities): what the machine has to permit")
    if _FOUND not in os.environ:
        refused = {name: ability.find_refusal() for name, ability in ABILITIES.items()}
        os.environ[_FOUND] = json.dumps({name: said for name, said in refused.items() if said})


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run no test that can't pass here."""
    for mark in item.iter_markers("needs"):
        for ability in mark.args:
            require(ability)


def require(ability: str) -> None:
    """End the test that runs if the machine refuses an ability. Fixtures call it too."""
    # A name that is not in the table is a mistake of the test's.
    allowed_by = ABILITIES[ability].allowed_by
    said = json.loads(os.environ[_FOUND]).get(ability)
    if said:
        refusal = said.splitlines()[-1]
        pytest.skip(f"this machine refuses {ability} ({refusal}); what allows it: {allowed_by}")


_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test that skips itself fail in CI."""
    return _fail_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let a file that skips itself fail in CI."""
    return _fail_skipped((yield))


def _fail_skipped(report: _Report) -> _Report:
    if report.skipped and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        report.outcome = "failed"
        report.longrepr = f"CI=true, and a test is skipped. {report.longrepr[2]}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not run, why, and what would allow it."""
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    for reason, count in sorted(reasons.items()):
        tests = "test" if count == 1 else "tests"
        terminalreporter.write_line(f"NOT RUN: {count} {tests}, because {reason}")
