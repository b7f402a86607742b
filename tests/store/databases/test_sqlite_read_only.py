"""A store file that can only be read: nothing runs, and what is there can be looked at."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import wieldy
from tests.cli.terminal import make_token
from tests.forking.forked_program import run_program
from tests.forking.launch_files import INSTALLED
from tests.store.server import Server
from wieldy import StoreUnavailable, Toolbox
from wieldy.store.databases.database import shown_address

SOURCE = str(Path(wieldy.__file__).parents[1])
TOOLS = """
from pathlib import Path

from wieldy import Toolbox

box = Toolbox(store="sqlite:///wieldy.db")


@box.tool
def work(n: int) -> int:
    return n * 2


@box.tool(permission="confirm")
def wipe(path: str) -> str:
    return f"wiped {path}"
"""
COMMAND = [sys.executable, "-c", "from wieldy.cli import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"}
# Added after the step from which on a file is read as it is.
LATER_COLUMNS = (
    ("wieldy_calls", "caller"),
    ("wieldy_calls", "run"),
    ("wieldy_rules", "caller"),
    ("wieldy_rules", "criteria"),
)
# Root may write anywhere, unless it is told that it may not.
BOUND = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
PRIVATE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
# A file system of its own, which nobody else sees and nobody may write to.
READ_ONLY_DISK = """
mount -t tmpfs none "$0" && cp tools.py wieldy.db "$0" && mount -o remount,bind,ro "$0" || exit 9
cd "$0" && exec "$@"
"""

FULL_DISK = """
mount -t tmpfs -o size=1m none "$0" && cp tools.py wieldy.db "$0" && cd "$0" || exit 9
cat /dev/zero > ballast
exec "$@"
"""


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """What a program does there."""
    return subprocess.run(
        arguments, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )


def ask(folder: Path, *arguments: str) -> Any:
    """What a command says to programs who may not write where it does not say that they may."""
    done = run_program([INSTALLED, *arguments, "--json"], folder, ENVIRONMENT, BOUND)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(folder: Path, *arguments: str) -> tuple[int, str]:
    """How a command ends, and what it says then."""
    done = run_program([INSTALLED, *arguments], folder, ENVIRONMENT, BOUND)
    assert not done.stdout
    return done.returncode, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with tools, and a store with a call that ran, one that waits and one expired."""
    (tmp_path / "tools.py").write_text(TOOLS)

    async def fill() -> None:
        async with Toolbox(store=f"sqlite:///{tmp_path}/wieldy.db") as box:

            @box.tool
            def work(n: int) -> int:
                """Work."""
                return n * 2

            box.add(lambda path: None, name="wipe", permission="confirm")
            await box.call("work", {"n": 1}, session="ann")
            await box.call("wipe", {"path": "/a"})
            expired = await box.call("wipe", {"path": "/b"})
            await box.artifacts.create("plan", "Rest.\n")
            await box.store.runs.begin("one", "planner", '{"prompt": {"input": "Hi."}}', "{}")
        with closing(sqlite3.connect(tmp_path / "wieldy.db")) as file, file:
            file.execute("UPDATE wieldy_calls SET expires_at = 1 WHERE id = ?", (expired.call.id,))

    asyncio.run(fill())
    yield tmp_path
    tmp_path.chmod(0o755)


@pytest.mark.parametrize(
    ("file", "around"),
    [(0o444, 0o555), (0o444, 0o755), (0o644, 0o555)],
    ids=["file and folder", "file", "folder"],
)
def test_what_can_only_be_read_is_read_and_left_as_it_is(
    folder: Path, file: int, around: int
) -> None:
    (folder / "wieldy.db").chmod(file)
    folder.chmod(around)
    there = sorted(folder.iterdir())

    assert [entry["tool"] for entry in ask(folder, "log")] == ["wipe", "wipe", "work"]
    assert [entry["tool"] for entry in ask(folder, "log", "--session", "ann")] == ["work"]
    assert [parked["arguments"] for parked in ask(folder, "pending")] == [{"path": "/a"}]
    assert [each["run_id"] for each in ask(folder, "runs")] == ["one"]
    assert ask(folder, "runs", "one")["agent"] == "planner"
    assert [artifact["id"] for artifact in ask(folder, "artifacts")] == ["plan"]
    assert ask(folder, "artifacts", "plan")["content"] == "Rest.\n"
    assert sorted(folder.iterdir()) == there


def test_what_would_be_written_is_refused_and_nothing_runs(folder: Path) -> None:
    token = make_token(folder)
    (folder / "wieldy.db").chmod(0o444)
    said = "its file can only be read"
    what_to_do = "Check who may write to it and to its folder."

    [waiting] = [parked["call_id"] for parked in ask(folder, "pending")]
    for command in (["approve", waiting, "tools.py"], ["deny", waiting]):
        code, message = refused(folder, *command, "--token", token)
        assert (code, said in message, what_to_do in message) == (2, True, True)
    for arguments in (["work", "--arg", "n=1"], ["wipe", "--arg", "path=/c"]):
        code, message = refused(folder, "call", *arguments)
        assert (code, "was not run" in message, what_to_do in message) == (1, True, True)

    assert len(ask(folder, "log")) == 3


def test_a_file_that_another_process_writes_is_read_as_it_is_now(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "wieldy.db", isolation_level=None)) as other:
        other.execute("UPDATE wieldy_calls SET tool = 'play' WHERE tool = 'work'")
        assert (folder / "wieldy.db-wal").stat().st_size > 0
        for file in folder.glob("wieldy.db*"):
            file.chmod(0o444)
        folder.chmod(0o555)
        assert [entry["tool"] for entry in ask(folder, "log")] == ["wipe", "wipe", "play"]


async def listed(file: Path | str) -> list[str]:
    """The tools of the recorded calls, as a box reads them."""
    async with Toolbox(store=f"sqlite:///{file}?timeout=0.1") as box:
        return [entry.call.tool for entry in await box.ledger.list()]


async def test_a_link_to_a_file_that_another_process_writes_shows_what_is_there_now(
    folder: Path,
) -> None:
    link = folder / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(folder / "wieldy.db")
    with closing(sqlite3.connect(folder / "wieldy.db", isolation_level=None)) as other:
        other.execute("UPDATE wieldy_calls SET tool = 'play' WHERE tool = 'work'")
        other.execute("BEGIN IMMEDIATE")
        assert await listed(link) == ["wipe", "wipe", "play"]


@pytest.mark.parametrize("around", [0o755, 0o555], ids=["in a folder", "in a read-only folder"])
def test_a_copy_with_its_log_is_read_and_nothing_is_put_beside_it(
    folder: Path, around: int
) -> None:
    copy = folder / "copy"
    copy.mkdir()
    with closing(sqlite3.connect(folder / "wieldy.db", isolation_level=None)) as other:
        other.execute("UPDATE wieldy_calls SET tool = 'play' WHERE tool = 'work'")
        for name in ("wieldy.db", "wieldy.db-wal"):
            (copy / name).write_bytes((folder / name).read_bytes())
            (copy / name).chmod(0o444)
    copy.chmod(around)
    assert [entry["tool"] for entry in ask(copy, "log")] == ["wipe", "wipe", "play"]
    assert sorted(file.name for file in copy.iterdir()) == ["wieldy.db", "wieldy.db-wal"]
    copy.chmod(0o755)


@pytest.mark.parametrize(
    "name",
    ["a b.db", "a#b.db", "a%b.db", "a%3Fb.db", "a&mode=rw.db", "für.db", os.fsdecode(b"a\xff.db")],
)
async def test_a_file_of_any_name_is_written_and_read(folder: Path, name: str) -> None:
    async with Toolbox(store=f"sqlite:///{folder}/{name}") as box:
        box.add(lambda: "done", name="work")
        (await box.call("work")).unwrap()
    [entry] = ask(folder, "log", "--store", f"sqlite:///{folder}/{name}")
    assert entry["state"] == "ok"
    file = folder / name.replace("%3F", "?")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await listed(f"{folder}/{name}") == ["work"]


async def test_a_path_that_begins_with_two_slashes_is_read(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "wieldy.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await listed(f"/{folder}/wieldy.db") == ["wipe", "wipe", "work"]


def test_a_folder_that_nobody_may_enter_is_said_to_be_one(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    (folder / "wieldy.db").rename(closed / "wieldy.db")
    closed.chmod(0)
    kept_out = [*BOUND[:1], "--bounding-set=-dac_override,-dac_read_search"] if BOUND else []
    done = run(folder, *kept_out, *COMMAND, "log", "--store", "sqlite:///closed/wieldy.db")
    closed.chmod(0o755)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Check the folder and its permissions." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.needs("mounts")
@pytest.mark.parametrize(
    ("disk", "said"),
    [(READ_ONLY_DISK, "its file can only be read"), (FULL_DISK, "has space left")],
    ids=["read-only", "full"],
)
def test_a_disk_that_takes_nothing_is_read(folder: Path, disk: str, said: str) -> None:
    there = folder / "disk"
    there.mkdir()
    asking = [*PRIVATE, "sh", "-c", disk, str(there), *COMMAND]

    listed = run(folder, *asking, "log", "--json")
    assert listed.returncode == 0, listed.stderr
    assert [entry["tool"] for entry in json.loads(listed.stdout)] == ["wipe", "wipe", "work"]
    refused = run(folder, *asking, "call", "work", "--arg", "n=1")
    assert refused.returncode == 1
    assert "was not run" in refused.stderr
    assert said in refused.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("INSERT INTO wieldy_version VALUES (999)", "Upgrade wieldy"),
        ("DELETE FROM wieldy_version WHERE number > 4", "brought up to date"),
        ("DROP TABLE wieldy_version", "its file can only be read"),
    ],
)
def test_a_file_of_another_version_is_said_to_be_one(folder: Path, change: str, said: str) -> None:
    with closing(sqlite3.connect(folder / "wieldy.db")) as file, file:
        file.execute(change)
    (folder / "wieldy.db").chmod(0o444)
    code, message = refused(folder, "log")
    assert (code, said in message) == (2, True)


def test_a_file_that_only_lacks_indexes_and_columns_is_read(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "wieldy.db")) as file, file:
        for name in ("over", "tool", "late", "caller", "parent"):
            file.execute(f"DROP INDEX wieldy_calls_{name}")
        for table, column in LATER_COLUMNS:
            file.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        file.execute("DELETE FROM wieldy_version WHERE number > 5")
    (folder / "wieldy.db").chmod(0o444)
    for asked in (["--tool", "work"], ["--state", "ok"], ["--session", "ann"]):
        [entry] = ask(folder, "log", *asked)
        assert (entry["tool"], entry["caller"]) == ("work", None)
    assert ask(folder, "pending")[0]["tool"] == "wipe"
    assert ask(folder, "log", entry["call_id"])["tool"] == "work"


async def test_a_locked_file_is_read_before_it_was_ever_opened(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "wieldy.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with Toolbox(store=f"sqlite:///{folder}/wieldy.db?timeout=0.1") as box:
            assert len(await box.ledger.list()) == 3
            with pytest.raises(StoreUnavailable, match="another process holds the database"):
                await box.sessions.append("ann", "hello")


async def test_a_server_that_takes_no_writes_says_so(server: Server) -> None:
    url = server.new_database()
    async with Toolbox(store=url) as box:
        await box.ledger.list()
    setting = f"ALTER DATABASE {url.rpartition('/')[2]} {{}} default_transaction_read_only {{}}"
    server.execute(setting.format("SET", "= on"), "postgres")
    try:
        async with Toolbox(store=url) as box:
            with pytest.raises(StoreUnavailable, match="Name the server that takes writes"):
                await box.ledger.list()
    finally:
        server.execute(setting.format("RESET", ""), "postgres")


def test_a_name_that_is_no_text_can_be_shown() -> None:
    # SQLAlchemy 2.1 quotes what is no letter, and 2.0 does not.
    shown = shown_address("sqlite:///calls\udcff.db")
    assert unquote(shown) == "sqlite:///calls\ufffd.db"
