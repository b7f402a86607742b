"""A backup holds a store as it was at one moment, and fills an empty store of either kind."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wieldy
from tests.forking.forked_program import run_program
from tests.store.server import Server
from wieldy import Call, Scope, Secret, Status, Toolbox
from wieldy.store.backup.backup_file import BackupError
from wieldy.store.backup.store_backup import write_backup
from wieldy.store.backup.store_restore import check_backup, restore_backup
from wieldy.store.databases.migrations import STEPS
from wieldy.store.rollups import RollupKey, RollupSum

Execute = Callable[[str], str]
ODD = "nul \0, a lone \ud800, \x01, ü, 💧, \u2028 and \n"


def environment() -> dict[str, str]:
    """The environment of a program that finds this library."""
    return {**os.environ, "PYTHONPATH": str(Path(wieldy.__file__).parents[1])}


def find_files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern))


def make_box(url: str) -> Toolbox:
    box = Toolbox(store=url)

    @box.tool
    async def echo(text: str) -> str:
        """Give back what came."""
        return text

    @box.tool(permission="confirm")
    async def login(user: str, password: Secret) -> str:
        """Log in."""
        return f"{user} {len(password.get_secret_value())}"

    return box


async def fill(box: Toolbox) -> str:
    """Put something of each kind into a store; gives the id of a call that waits."""
    await box.call(Call("echo", {"text": ODD}, Scope(session=ODD, caller="ann")))
    waits = await box.call("login", {"user": "ann", "password": "do-not-show-this"})
    await box.store.artifacts.create("notes", ODD, title=ODD)
    await box.store.tokens.make("ann", ["call", "approve"])
    now = int(time.time())
    await box.store.rollups.add({RollupKey(now, "echo", None, "ok"): RollupSum()})
    await box.save_state("mine")
    await box.standing.allow("echo", session="known")
    return waits.call.id


@pytest.fixture
def other(url: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of the other kind."""
    if url.startswith("postgresql"):
        return f"sqlite:///{tmp_path}/other.db"
    server: Server = request.getfixturevalue("server")
    return server.new_database()


async def test_a_backup_moves_everything_between_databases(
    url: str, other: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.backup", tmp_path / "second.backup"
    async with make_box(url) as box:
        waiting = await fill(box)
        rows = await write_backup(box.store, first)
        token = await box.store.tokens.make("bob")
    async with make_box(other) as box:
        assert await restore_backup(box.store, first) == rows
        assert await write_backup(box.store, second) == rows
        [echoed] = await box.ledger.list(tool="echo")
        done = await box.approve(waiting, by="bob")
        known = {each.name for each in await box.store.tokens.list()}
        assert await box.store.tokens.find(token) is None

    assert first.read_text().splitlines()[1:-1] == second.read_text().splitlines()[1:-1]
    assert (echoed.outcome().value, echoed.call.scope.session) == (ODD, ODD)
    assert (done.status, done.value, known) == (Status.OK, "ann 16", {"ann"})
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    counts = count_rows(first)
    filled = ("calls", "artifacts", "artifact_versions", "tokens", "rollups", "states", "rules")
    assert all(counts[f"wieldy_{name}"] for name in filled)
    assert not {"wieldy_owners", "wieldy_version", "wieldy_chores"} & {*counts}


WRITER = """
import asyncio, sys
from wieldy import Toolbox

async def main():
    async with Toolbox(store=sys.argv[1]) as box:
        for number in range(1_000_000):
            await box.store.sessions.append(f"s{number}", "x", "y", "z")
            print(number, flush=True)

asyncio.run(main())
"""


def count_rows(file: Path) -> dict[str, int]:
    """How many rows of each table a backup has."""
    table, counts = "", {}
    for line in file.read_text().splitlines():
        content = json.loads(line)
        if isinstance(content, dict):
            table = content.get("table", "")
            counts[table] = 0
        else:
            counts[table] += 1
    return counts


async def test_a_backup_is_of_one_moment_although_another_process_writes(
    url: str, tmp_path: Path
) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, url, env=environment(), stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    try:
        async with make_box(url) as box:
            for number in range(4):
                for _ in range(20):
                    assert await writer.stdout.readline()
                await write_backup(box.store, tmp_path / f"{number}.backup")
    finally:
        writer.kill()
        await writer.communicate()

    counts = [count_rows(tmp_path / f"{number}.backup") for number in range(4)]
    for found in counts:
        assert found["wieldy_messages"] == 3 * found["wieldy_sessions"] > 0
    assert counts[0]["wieldy_sessions"] < counts[3]["wieldy_sessions"]


async def test_a_restored_store_knows_what_was_going_on_as_after_a_crash(
    url: str, tmp_path: Path
) -> None:
    box, begun, go_on = Toolbox(store=url), asyncio.Event(), asyncio.Event()

    @box.tool
    async def hang() -> None:
        """Wait."""
        begun.set()
        await go_on.wait()

    async with box:
        calling = asyncio.create_task(box.call("hang"))
        await begun.wait()
        await write_backup(box.store, tmp_path / "copy")
        go_on.set()
        await calling
    async with Toolbox(store=f"sqlite:///{tmp_path}/other.db") as copy:
        await restore_backup(copy.store, tmp_path / "copy")
        assert [entry.state for entry in await copy.ledger.list()] == ["unknown"]


async def test_only_an_empty_store_is_filled_and_no_file_is_replaced(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "copy"
    async with make_box(url) as box:
        await fill(box)
        await write_backup(box.store, file)
        before = file.read_bytes()
        with pytest.raises(BackupError, match="there already"):
            await write_backup(box.store, file)
        with pytest.raises(BackupError, match="not empty"):
            await restore_backup(box.store, file)
        assert len(await box.ledger.list()) == 2
    assert file.read_bytes() == before
    assert find_files(tmp_path, ".*") == []


def change_lines(change: Callable[[list[bytes]], object]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        change(lines)
        return b"".join(lines)

    return changed


def heading(**facts: Any) -> Callable[[bytes], bytes]:
    def change(lines: list[bytes]) -> None:
        lines[0] = json.dumps({**json.loads(lines[0]), **facts}).encode() + b"\n"

    return change_lines(change)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda content: b"", "cut"),
    "cut in a line": (lambda content: content[:-20], "cut"),
    "cut after a line": (change_lines(lambda lines: lines.pop()), "cut"),
    "cut in the middle": (lambda content: content[: len(content) // 2], "cut"),
    "one letter": (lambda content: content.replace(b"ann", b"eve", 1), "changed"),
    "a row less": (change_lines(lambda lines: lines.pop(2)), "changed"),
    "a row twice": (change_lines(lambda lines: lines.insert(2, lines[2])), "changed"),
    "more at the end": (lambda content: content + b"[]\n", "changed"),
    "another file": (lambda content: b"SQLite format 3\0\n", "damaged"),
    "other JSON": (lambda content: b"[1]\n[2]\n", "not a backup"),
    "a deep file": (lambda content: b"[" * 100_000 + b"\n", "damaged"),
    "a newer step": (heading(step=len(STEPS) + 1), "newer version"),
    "a newer format": (heading(format=2), "newer version"),
    "no step": (heading(step="x"), "changed"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A backup."""
    folder = tmp_path_factory.mktemp("good")

    async def make() -> None:
        async with make_box(f"sqlite:///{folder}/store.db") as box:
            await fill(box)
            await write_backup(box.store, folder / "copy")

    asyncio.run(make())
    return (folder / "copy").read_bytes()


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_backup_is_refused_and_changes_nothing(
    damage: str, good: bytes, tmp_path: Path
) -> None:
    change, reason = DAMAGES[damage]
    file = tmp_path / "copy"
    file.write_bytes(change(good))
    async with make_box(f"sqlite:///{tmp_path}/store.db") as box:
        with pytest.raises(BackupError, match=reason):
            await restore_backup(box.store, file)
        assert await box.ledger.list() == []
        assert await box.store.tokens.list() == []


async def test_what_can_not_be_opened_is_said(url: str, tmp_path: Path) -> None:
    async with make_box(url) as box:
        with pytest.raises(BackupError, match="can't be written"):
            await write_backup(box.store, tmp_path / "nowhere" / "copy")
        with pytest.raises(BackupError, match="can't be read"):
            await restore_backup(box.store, tmp_path / "copy")


LIMITED = """
import asyncio, resource, sys
from wieldy import Toolbox
from wieldy.store.backup.store_backup import write_backup

async def main():
    async with Toolbox(store=sys.argv[1]) as box:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
        await write_backup(box.store, sys.argv[2])

asyncio.run(main())
"""
KILLED = """
import asyncio, os, signal, sys
from wieldy import Toolbox
from wieldy.store.backup.store_backup import write_backup
from wieldy.store.backup.store_restore import check_backup, restore_backup

async def main():
    work = write_backup if sys.argv[1] == "backup" else restore_backup
    async with Toolbox(store=sys.argv[2]) as box:
        await work(box.store, sys.argv[3], lambda rows: os.kill(os.getpid(), signal.SIGKILL))

asyncio.run(main())
"""


def run_text(text: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(text)
    return run_program([str(program), *arguments])


async def test_a_disk_without_room_leaves_no_file_behind(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    async with make_box(store) as box:
        # Such letters take twice as many bytes in the backup as in the store.
        await box.store.artifacts.create("notes", "\u2028" * 700_000)

    done = run_text(LIMITED, tmp_path, store, str(tmp_path / "copy"))

    assert "BackupError" in done.stderr and "can't be written" in done.stderr
    assert find_files(tmp_path, "*copy*") == []


async def test_a_kill_in_the_middle_leaves_no_file_and_an_empty_store(
    url: str, other: str, tmp_path: Path
) -> None:
    file = tmp_path / "copy"
    async with make_box(url) as box:
        now = time.time()
        kept = {RollupKey(int(now) - n, "echo", None, "ok"): RollupSum() for n in range(1_500)}
        await box.store.rollups.add(kept)

        died = run_text(KILLED, tmp_path, "backup", url, str(file))
        assert (died.returncode, file.exists()) == (-signal.SIGKILL, False)
        assert find_files(tmp_path, ".*") == []
        rows = await write_backup(box.store, file)

    died = run_text(KILLED, tmp_path, "restore", other, str(file))
    assert died.returncode == -signal.SIGKILL
    async with make_box(other) as box:
        assert await box.store.rollups.read(now - 3600, now, 3600) == []
        assert await restore_backup(box.store, file) == rows


async def test_a_system_without_files_that_have_no_name_writes_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    async with make_box(f"sqlite:///{tmp_path}/store.db") as box:
        await fill(box)
        await write_backup(box.store, tmp_path / "copy")
        with pytest.raises(BackupError, match="there already"):
            await write_backup(box.store, tmp_path / "copy")
    await check_backup(tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    assert find_files(tmp_path, ".*") == []
