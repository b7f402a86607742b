"""Ids are found by how they begin, in the same way on every database."""

from hypothesis import given
from hypothesis import strategies as st

from tests.store.conftest import Execute
from tests.store.test_plans import MANY, listening, planned
from wieldy import Call, Toolbox
from wieldy.store.databases.id_ranges import _following


def add(a: int) -> int:
    """Add one."""
    return a + 1


async def test_ids_are_found_by_how_they_begin(url: str) -> None:
    async with Toolbox(store=url) as box:
        box.add(add)
        made = [(await box.call("add", {"a": number})).call.id for number in range(3)]
        assert list(await box.ledger.ids()) == made[::-1]
        assert list(await box.ledger.ids(made[1])) == [made[1]]
        assert list(await box.ledger.ids("call_", limit=2)) == made[:0:-1]
        for odd in ("%", "_all", "CALL_", "nothing", "\\"):
            assert await box.ledger.ids(odd) == ()


HOSTILE = ["a", "A", "ab", "a%", "a_", "a*", "a\\", "é", "e\u0301", "É", "ß", "ss", "\x01", "a b"]
ODDER = [
    "a\0",
    "a\0b",
    "\ud800",
    "a\ud800",
    "\U0010ffff",
    "\U0010ffffa",
    "\ud7ff",
    "\ue000",
    "\x02",
]


async def test_a_beginning_is_compared_character_by_character(url: str) -> None:
    ids = [*HOSTILE, *ODDER]
    async with Toolbox(store=url) as box:
        box.add(add)
        for call_id in ids:
            await box.call(Call("add", {"a": 1}, id=call_id))
        for prefix in ids:
            expected = {call_id for call_id in ids if call_id.startswith(prefix)}
            assert set(await box.ledger.ids(prefix)) == expected


@given(st.text(min_size=1), st.text(), st.text())
def test_what_begins_so_is_a_range(prefix: str, rest: str, other: str) -> None:
    after = _following(prefix)
    begins, beside = (prefix + rest).encode(), other.encode()
    assert begins >= prefix.encode()
    assert after is None or begins < after.encode()
    if not other.startswith(prefix):
        within = beside >= prefix.encode() and (after is None or beside < after.encode())
        assert not within


async def test_a_beginning_is_found_by_the_index(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        box.add(add)
        await box.call(Call("add", {"a": 1}, id="mine"))
        execute(MANY)
        execute("ANALYZE wieldy_calls")
        with listening() as said:
            assert await box.ledger.ids("min") == ("mine",)
            assert len(await box.ledger.ids("ended", limit=3)) == 3
        assert said
        for statement, values in said.items():
            plan = await planned(box, statement, values)
            assert "Seq Scan" not in plan, f"{statement}\n{plan}"
            assert "SCAN wieldy_calls" not in plan, f"{statement}\n{plan}"
            assert "Sort" not in plan, plan
            assert "TEMP B-TREE" not in plan, plan


async def test_a_store_of_the_step_before_finds_ids_too(url: str, execute: Execute) -> None:
    async with Toolbox(store=url) as box:
        box.add(add)
        await box.call(Call("add", {"a": 1}, id="B"))
        await box.call(Call("add", {"a": 1}, id="a"))
    if url.startswith("postgresql"):
        execute('ALTER TABLE wieldy_calls ALTER COLUMN id TYPE TEXT COLLATE "en-x-icu"')
    execute("DELETE FROM wieldy_version WHERE number > 5")
    async with Toolbox(store=url) as box:
        assert await box.ledger.ids("B") == ("B",)
        assert await box.ledger.ids("a") == ("a",)
        assert [entry.call.id for entry in await box.ledger.list()] == ["a", "B"]
