"""The record of calls: filtered, whole, for programs, and live."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.child_process import ChildProcess
from tests.cli.conftest import Command
from tests.cli.terminal import SECONDS, Terminal
from tests.forking.launch_files import WIELDY
from wieldy import Context, Toolbox
from wieldy.cli.moments import MomentError, read_moment
from wieldy.core.choices import Durability
from wieldy.store.row_values import STATES


def fill(path: Path, calls: int = 3, durability: Durability = "full") -> None:
    """Make some calls of two tools in two sessions, all good but the last."""

    async def make() -> None:
        async with Toolbox(store=f"sqlite:///{path}", durability=durability) as box:
            box.add(lambda a: a + 1, name="add")
            box.add(lambda a: a, name="other")
            pairs = [("add", {"a": number}) for number in range(calls)]
            await box.call_many(pairs, session="first")
            await box.call("other", {"a": "x"}, session="second")
            await box.call("nothing", {"a": "x"})

    asyncio.run(make())


@pytest.fixture
def store(folder: Path) -> Path:
    fill(folder / "wieldy.db")
    return folder / "wieldy.db"


def logged(command: Command, *arguments: str) -> list[dict[str, Any]]:
    done = command("log", "--json", *arguments)
    assert done.exit_code == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_the_log_is_a_table_with_the_newest_first(command: Command, store: Path) -> None:
    done = command("log")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    heading = ["time", "call", "tool", "state", "took", "session", "arguments", "result"]
    assert lines[0].split() == heading
    assert [line.split()[3] for line in lines[1:]] == ["nothing", "other", "add", "add", "add"]
    assert "There is no tool named 'nothing'" in lines[1]


def test_the_log_is_filtered_by_tool_status_session_and_time(command: Command, store: Path) -> None:
    def tools(*arguments: str) -> list[str]:
        return [entry["tool"] for entry in logged(command, *arguments)]

    assert tools("--tool", "other") == ["other"]
    assert tools("--state", "error") == ["nothing"]
    assert tools("--session", "first") == ["add"] * 3
    assert len(tools("--since", "1h")) == 5
    assert tools("--until", "1h") == []
    later = datetime.now() + timedelta(hours=1)
    assert tools("--since", later.isoformat()) == []
    assert len(tools("--until", later.isoformat(timespec="minutes"))) == 5
    assert tools("--limit", "2") == ["nothing", "other"]


def test_a_cut_log_says_that_it_is_cut(command: Command, store: Path) -> None:
    done = command("log", "--limit", "2")
    assert len(done.stdout.splitlines()) == 3
    assert "The newest 2 are shown; --limit 0 shows all." in done.stderr
    assert "shown" not in command("log", "--limit", "5").stderr


def test_an_entry_for_programs_has_all_that_is_known(command: Command, store: Path) -> None:
    entry = logged(command, "--tool", "add", "--limit", "1")[0]
    assert entry["arguments"] == {"a": 2}
    assert (entry["state"], entry["value"], entry["error"]) == ("ok", 3, None)
    assert (entry["session"], entry["decision"]) == ("first", None)
    assert datetime.fromisoformat(entry["proposed_at"]).tzinfo is not None


def test_an_entry_tells_who_decided_and_what_the_tool_reports(
    command: Command, folder: Path
) -> None:
    async def make() -> str:
        async with Toolbox(store=f"sqlite:///{folder}/wieldy.db") as box:

            @box.tool(permission="confirm", idempotent=True, retries=1)
            async def paid(context: Context) -> str:
                """Cost something, at the second attempt."""
                context.report(cost=0.5, model="small")
                if context.attempt == 1:
                    raise ConnectionError("once more")
                return "done"

            receipt = await box.call("paid")
            await box.approve(receipt.call.id, by="ann")
            tool = box.get("paid")
            assert tool is not None
            return tool.fingerprint

    fingerprint = asyncio.run(make())
    [entry] = logged(command)
    assert (entry["fingerprint"], entry["attempts"]) == (fingerprint, 2)
    assert (entry["cost"], entry["meta"]) == (1.0, {"model": "small"})
    assert (entry["decision"]["by"], entry["value"]) == ("ann", "done")
    whole = command("log", entry["call_id"]).stdout
    decided = datetime.fromisoformat(entry["decision"]["at"]).astimezone()
    assert f"approved by ann, {decided:%Y-%m-%d %H:%M:%S}" in whole
    assert fingerprint in whole


def test_one_call_is_shown_whole_also_by_the_beginning_of_its_id(
    command: Command, store: Path
) -> None:
    newest = logged(command, "--limit", "1")[0]["call_id"]
    done = command("log", newest)
    assert done.exit_code == 0
    assert "There is no tool named 'nothing'" in done.stdout
    assert json.loads(command("log", newest, "--json").stdout)["call_id"] == newest
    several = command("log", newest[:12])
    assert several.exit_code == 2
    assert "More than one id begins with" in several.stderr
    missing = command("log", newest + "x")
    assert missing.exit_code == 2
    assert f"Did you mean {newest}" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--state", "eror"), "There is no state 'eror'. Did you mean error?"),
        (("--since", "yesterday"), "--since takes an age"),
        (("--until", "2026-13-01"), "--until takes an age"),
        (("--limit", "-1"), "--limit takes a number"),
        (
            ("--store", "sqlite:///typo.db"),
            "There is no store at typo.db. The path is relative, so this is /",
        ),
        (("--store", "sqlite:////no/typo.db"), "There is no store at /no/typo.db.\n"),
        (("--store", "mysql://x/y"), "a store is sqlite:///file.db or postgresql://"),
        (("--follow", "--since", "2h"), "--follow shows new calls"),
    ],
)
def test_a_wrong_question_is_a_usage_error(
    command: Command, store: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = command("log", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (store.parent / "typo.db").exists()


def test_the_store_comes_from_the_environment_or_is_asked_for(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = command("log")
    assert missing.exit_code == 2
    assert "WIELDY_STORE" in missing.stderr
    fill(folder / "mine.db")
    monkeypatch.setenv("WIELDY_STORE", "sqlite:///mine.db")
    assert len(logged(command)) == 5


def test_an_empty_log_is_said_to_be_empty(command: Command, store: Path) -> None:
    done = command("log", "--session", "no such")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "No matching call is recorded in sqlite:///wieldy.db." in done.stderr
    assert logged(command, "--session", "no such") == []


def test_two_thousand_calls_are_all_shown(command: Command, folder: Path) -> None:
    fill(folder / "wieldy.db", 2_000, "normal")
    assert len(command("log", "--limit", "0").stdout.splitlines()) == 2_003
    assert len(logged(command, "--limit", "0")) == 2_002


@pytest.fixture
def following(folder: Path, store: Path) -> Iterator["subprocess.Popen[str]"]:
    process = ChildProcess(
        [WIELDY, "log", "--follow", "--json", "--limit", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=folder,
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=SECONDS)


def test_following_gives_a_line_for_each_call_and_each_change(
    following: "subprocess.Popen[str]", folder: Path, command: Command, ann: str
) -> None:
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["tool"] == "nothing"
    call_id = command("call", "wipe", "--arg", "path=a").stdout.strip()
    waiting = json.loads(following.stdout.readline())
    assert (waiting["call_id"], waiting["state"]) == (call_id, "pending")
    command("approve", call_id, "tools.py")
    while (entry := json.loads(following.stdout.readline()))["state"] != "ok":
        assert entry["state"] in ("approved", "started")
    assert (entry["call_id"], entry["value"]) == (call_id, "wiped a 1")
    following.send_signal(signal.SIGINT)
    rest, said = following.communicate(timeout=SECONDS)
    assert (following.returncode, rest, said) == (0, "", "")


def test_following_shows_lines_to_a_person(folder: Path, store: Path, command: Command) -> None:
    terminal = Terminal("log", "--follow", cwd=folder)
    try:
        terminal.wait_for("There is no tool named 'nothing'")
        command("call", "echo", "--arg", "text=seen")
        terminal.wait_for("seen")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.ends_with() == 0
    finally:
        terminal.close()


LARGE = 250_000


def fill_large(path: Path, calls: int) -> None:
    """Add calls with large values to a store."""
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.executemany(
            "INSERT INTO wieldy_calls (id, tool, state, partial, proposed_at, ended_at, value) "
            "VALUES (?, 'large', 'ok', 0, ?, 1, ?)",
            ((f"large {n}", n, json.dumps("x" * LARGE)) for n in range(calls)),
        )


@pytest.mark.parametrize("limit", ["0", "2", "5", "6"])
def test_an_array_is_the_same_however_it_is_written(
    command: Command, store: Path, limit: str
) -> None:
    for asked in (("--limit", limit), ("--limit", limit, "--session", "no such")):
        shown = command("log", "--json", *asked).stdout
        assert shown == json.dumps(json.loads(shown), indent=2) + "\n"


def memory_taken(minimum: int) -> int:
    """How much the whole log took while it was written, in bytes."""
    asked = [WIELDY, "log", "--limit", "0", "--json"]
    with ChildProcess[bytes](asked, stdout=subprocess.PIPE) as process:
        out = process.stdout
        assert out is not None
        length = sum(map(len, iter(lambda: out.read(1 << 16), b"")))
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, length > minimum) == (0, True)
    return used.ru_maxrss * 1024


def test_what_the_log_holds_does_not_grow_with_the_calls(store: Path) -> None:
    fill_large(store, 20)
    before = memory_taken(20 * LARGE)
    with contextlib.closing(sqlite3.connect(store)) as file, file:
        file.execute("DELETE FROM wieldy_calls WHERE tool = 'large'")
    fill_large(store, 400)
    assert memory_taken(400 * LARGE) - before < 400 * LARGE / 2


def test_a_log_that_is_stopped_is_a_whole_array(store: Path) -> None:
    fill_large(store, 200)
    asked = [WIELDY, "log", "--limit", "0", "--json"]
    with ChildProcess[bytes](asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1000)
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said.decode().strip()) == (130, "Stopped.")
    assert 0 < len(json.loads(first + rest)) < 200


def test_a_store_that_breaks_on_the_way_leaves_a_whole_array(store: Path) -> None:
    fill_large(store, 100)
    asked = [WIELDY, "log", "--limit", "0", "--json"]
    with ChildProcess[bytes](asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1000)
        with contextlib.closing(sqlite3.connect(store)) as file, file:
            file.execute("ALTER TABLE wieldy_calls RENAME TO gone")
        rest, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert b"no such table" in said
    assert 0 < len(json.loads(first + rest)) < 100


def test_a_long_table_is_written_as_it_is_read(command: Command, store: Path) -> None:
    with contextlib.closing(sqlite3.connect(store)) as file, file:
        file.executemany(
            "INSERT INTO wieldy_calls (id, tool, state, partial, proposed_at) "
            "VALUES (?, 'many', 'ok', 0, ?)",
            ((f"a {'longer ' * (n < 500)}id {n}", n) for n in range(2500)),
        )
    lines = command("log", "--limit", "0").stdout.splitlines()
    assert len(lines) == 2506
    assert lines[0].split()[:3] == ["time", "call", "tool"]
    assert [line.split("id ")[1].split()[0] for line in lines[6:]] == [
        str(n) for n in range(2499, -1, -1)
    ]


def test_a_reader_who_goes_away_ends_the_log_quietly(folder: Path) -> None:
    fill(folder / "wieldy.db", 3_000, "normal")
    reading, writing = os.pipe()
    process = ChildProcess(
        [WIELDY, "log", "--limit", "0", "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    _, said = process.communicate(timeout=SECONDS)
    assert "Traceback" not in said


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from("smhdw")), min_size=1, max_size=4))
def test_a_length_of_time_is_that_long_ago(pieces: list[tuple[int, str]]) -> None:
    sizes = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    text = "".join(f"{number}{unit}" for number, unit in pieces)
    moment = read_moment(text, "--since")
    assert moment is not None
    expected = datetime.now().timestamp() - sum(n * sizes[unit] for n, unit in pieces)
    assert abs(moment - expected) < 60


@given(st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)))
def test_a_date_is_the_local_one(moment: datetime) -> None:
    assert read_moment(moment.isoformat(), "--since") == moment.timestamp()


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with contextlib.suppress(MomentError):
        assert isinstance(read_moment(text, "--since"), float)


def test_every_status_can_be_asked_for(command: Command, store: Path) -> None:
    found = [entry for state in STATES for entry in logged(command, "--state", state)]
    assert len(found) == 5


@pytest.mark.parametrize("name", ["log", "pending", "artifacts"])
def test_who_looks_does_not_prune_in_the_place_of_the_application(
    command: Command, store: Path, name: str
) -> None:
    def asked(sql: str) -> list[Any]:
        with contextlib.closing(sqlite3.connect(store)) as connection, connection:
            return connection.execute(sql).fetchall()

    # The application may keep calls for ever; the command can't know.
    asked("UPDATE wieldy_calls SET proposed_at = 1, ended_at = 1")
    asked("UPDATE wieldy_chores SET done_at = 0")
    assert command(name).exit_code == 0
    assert asked("SELECT count(*) FROM wieldy_calls") == [(5,)]
    assert asked("SELECT done_at FROM wieldy_chores") == [(0,)]


def test_a_changed_mode_and_a_dry_run_are_in_the_log(command: Command, folder: Path) -> None:
    async def make() -> None:
        async with Toolbox(store=f"sqlite:///{folder}/wieldy.db") as box:
            box.add(lambda a: a, name="other")
            box.set_mode("dry-run", session="s", by="ann")
            await box.call("other", {"a": "x"}, session="s")

    asyncio.run(make())
    dry, mode = logged(command)
    assert (dry["state"], mode["state"]) == ("dry_run", "mode")
    assert dry["because"].startswith("in the mode dry-run, only read-only tools run")
    assert dry["value"].startswith("Not run: other with")
    assert (mode["tool"], mode["session"], mode["value"]) == ("set_mode", "s", "none → dry-run")
    assert [each["state"] for each in logged(command, "--session", "s")] == ["dry_run", "mode"]
    assert [each["state"] for each in logged(command, "--state", "mode")] == ["mode"]
    table = command("log").stdout
    assert "set_mode" in table and "none → dry-run" in table
    whole = command("log", mode["call_id"]).stdout
    assert "the mode was changed by ann" in whole
