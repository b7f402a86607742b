"""A row that can't be read is named, and never hides the other rows."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli.terminal import wieldy
from wieldy import CorruptRow, Status, Toolbox
from wieldy.store.backup.backup_file import BackupError
from wieldy.store.backup.store_backup import write_backup
from wieldy.store.backup.store_restore import restore_backup
from wieldy.store.databases.tables import access_tokens, artifacts, calls, runs

Execute = Callable[[str], str]
_NUMBERS = (int, float)
# By these a list finds its rows: with others, a row is in no list of its kind.
_KEYS = ("state", "parent", "session", "key", "shelf")
_TEXT = [each.name for each in calls.columns if each.type.python_type not in _NUMBERS]
_NOT_TEXT = "CAST(X'22ff22' AS TEXT)"


def make_box(url: str) -> Toolbox:
    box = Toolbox(store=url)

    @box.tool
    async def work(n: int) -> str:
        """Work."""
        return f"{n} is done"

    box.add(work, name="risky", permission="confirm")
    return box


@pytest.mark.parametrize(
    "column", [each for each in _TEXT if each not in ("id", "state", "idempotency_key")]
)
async def test_bytes_that_are_no_text_hide_no_other_row(tmp_path: Path, column: str) -> None:
    path = tmp_path / "store.db"
    async with make_box(f"sqlite:///{path}") as box:
        ended = [await box.call("work", {"n": n}) for n in range(3)]
        parked = [await box.call("risky", {"n": n}) for n in range(3)]
        with closing(sqlite3.connect(path)) as other, other:
            for outcome in (ended[1], parked[1]):
                statement = f"UPDATE wieldy_calls SET {column} = {_NOT_TEXT} WHERE id = ?"
                other.execute(statement, (outcome.call.id,))

        entries = {entry.call.id: entry for entry in await box.ledger.list()}
        assert len(entries) == 6
        assert "can't be read" in str(entries[ended[1].call.id].error)
        for kept in (ended[0], ended[2]):
            assert entries[kept.call.id].value == kept.value
        pending = {each.id for each in await box.pending()}
        assert pending == {parked[0].call.id, parked[2].call.id}
        with pytest.raises(CorruptRow, match=ended[1].call.id):
            await box.ledger.get(ended[1].call.id)
        assert (await box.approve(parked[0].call.id)).value == "0 is done"


async def test_a_damaged_message_is_named_and_the_others_are_read(
    url: str, execute: Execute
) -> None:
    async with Toolbox(store=url) as box:
        await box.sessions.append("ann", "one", "two", "three")
        await box.sessions.append("bob", "four")
        execute("UPDATE wieldy_messages SET message = '{' WHERE position = 1")

        with pytest.raises(CorruptRow, match="message 1 of session ann") as caught:
            await box.sessions.read("ann")
        assert "delete it from wieldy_messages" in str(caught.value)
        assert await box.sessions.read("ann", limit=1) == ["three"]
        assert await box.sessions.read("ann", upto=1) == ["one"]
        assert await box.sessions.read("bob") == ["four"]
        with pytest.raises(CorruptRow):
            await box.sessions.export()
        assert [each.id for each in await box.sessions.list()] == ["bob", "ann"]


async def test_a_damaged_run_is_named_and_the_others_are_listed(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        kept = box.store.runs
        for name in ("one", "two", "three"):
            await kept.begin(name, "agent", "{}", "{}")
        execute("UPDATE wieldy_runs SET request = '{' WHERE id = 'two'")

        found = {run.id: run.error for run in await kept.list()}
        assert found.keys() == {"one", "two", "three"}
        assert [name for name, error in found.items() if error is not None] == ["two"]
        with pytest.raises(CorruptRow, match="the row of run two can't be read"):
            await kept.get("two")


_ODD = ["CAST(X'22ff22' AS TEXT)", "X'00ff'", "'{'", "7", "'soon'", "'[[1]]'", "'{\"a\":1}'"]


@pytest.mark.parametrize("odd", _ODD)
async def test_a_value_of_another_kind_hides_nothing_in_any_list(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "store.db"
    async with make_box(f"sqlite:///{path}") as box:
        kept, tokens = box.store.runs, box.store.tokens
        for name in ("a", "b", "c"):
            await box.call("risky", {"n": 1})
            await kept.begin(name, "agent", "{}", "{}")
            await tokens.make(name, ("approve",))
            await box.store.artifacts.create(name, "text")
        for table, lost in ((calls, _KEYS), (runs, _KEYS), (access_tokens, ()), (artifacts, _KEYS)):
            for column in table.columns:
                if column.primary_key or column.name in lost:
                    continue
                with closing(sqlite3.connect(path)) as other, other:
                    before = other.execute(f"SELECT rowid, {column.name} FROM {table.name}")
                    [_, (rowid, value), _] = before.fetchall()
                    change = f"UPDATE {table.name} SET {column.name} = %s WHERE rowid = {rowid}"
                    with suppress(sqlite3.IntegrityError):
                        other.execute(change % odd)
                found = {
                    "pending": len(await box.pending()),
                    "calls": len(await box.ledger.list()),
                    "runs": len(await kept.list()),
                    "tokens": len(await tokens.list()),
                    "artifacts": len(await box.store.artifacts.list()),
                }
                assert found.pop("pending") >= 2, column
                assert found == dict.fromkeys(found, 3), column
                with closing(sqlite3.connect(path)) as other, other:
                    other.execute(change % "?", (value,))


async def test_facts_of_a_call_that_are_no_object_are_its_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with make_box(f"sqlite:///{path}") as box:
        outcome = await box.call("work", {"n": 1})
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE wieldy_calls SET metadata = '[[1]]'")
        with pytest.raises(CorruptRow, match="metadata is no object"):
            await box.ledger.get(outcome.call.id)
        [entry] = await box.ledger.list()
        assert (entry.state, entry.call.id) == ("unknown", outcome.call.id)


@pytest.mark.parametrize("odd", ["'{'", "'7'", "'[1]'", "'{}'"])
def test_a_damaged_run_is_shown_on_the_command_line(tmp_path: Path, odd: str) -> None:
    async def make() -> None:
        async with Toolbox(store=f"sqlite:///{tmp_path}/wieldy.db") as box:
            for name in ("one", "two"):
                await box.store.runs.begin(name, "agent", '{"prompt": {"input": "Hi."}}', "{}")
                await box.store.runs.begin(f"{name}-step", "agent", '{"prompt": {}}', "[]")

    asyncio.run(make())
    with closing(sqlite3.connect(tmp_path / "wieldy.db")) as other, other:
        other.execute(f"UPDATE wieldy_runs SET request = {odd} WHERE id = 'two'")
    for words in (["runs"], ["runs", "--json"], ["runs", "two"], ["runs", "two-step", "--json"]):
        done = wieldy(*words, cwd=tmp_path)
        assert "Traceback" not in done.stderr
        if len(words) == 1 or words[1] == "--json":
            assert done.returncode == 0 and "one" in done.stdout and "two" in done.stdout


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("wieldy_calls", "proposed_at", "soon"),
        ("wieldy_calls", "tool", 7),
        ("wieldy_calls", "state", None),
        ("wieldy_calls", "seconds", [1]),
        ("wieldy_sessions", "next", "many"),
        ("wieldy_sessions", "updated_at", True),
    ],
)
async def test_a_crafted_backup_with_an_odd_row_is_refused(
    url: str, tmp_path: Path, table: str, column: str, value: object
) -> None:
    path, crafted = tmp_path / "backup", tmp_path / "crafted"
    async with make_box(f"sqlite:///{tmp_path}/from.db") as box:
        await box.call("work", {"n": 1})
        await box.sessions.append("ann", "hello")
        await write_backup(box.store, path)
    craft(path, crafted, table, column, value)

    async with make_box(url) as box:
        with pytest.raises(BackupError, match=f"a row of {table} whose {column} can't be"):
            await restore_backup(box.store, crafted)
        assert await box.ledger.list() == []
        assert await restore_backup(box.store, path) > 0
        assert [entry.status for entry in await box.ledger.list()] == [Status.OK]


def craft(path: Path, crafted: Path, table: str, column: str, value: object) -> None:
    """Change a value of a backup as somebody does who makes the digest fit."""
    lines, changed, place = [], False, None
    for line in path.read_text().splitlines()[:-1]:
        content = json.loads(line)
        if isinstance(content, dict) and "table" in content:
            place = content["columns"].index(column) if content["table"] == table else None
        elif isinstance(content, list) and place is not None:
            content[place], changed = value, True
        lines.append(json.dumps(content, separators=(",", ":")) + "\n")
    assert changed
    digest = sha256("".join(lines).encode()).hexdigest()
    rows = sum(line.startswith("[") for line in lines)
    end = json.dumps({"rows": rows, "sha256": digest}, separators=(",", ":"))
    crafted.write_text("".join(lines) + end + "\n")
