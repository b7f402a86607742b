"""What is done all the time looks at the calls that are open, however many have ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from tests.store.conftest import Execute
from wieldy import Toolbox

MANY = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
    INSERT INTO wieldy_calls (id, tool, state, partial, proposed_at, ended_at, owner, value)
    SELECT 'ended ' || i, 'work', 'ok', 0, i, i, 'somebody', '"a value of some length"' FROM n
"""


@contextmanager
def listening() -> Iterator[dict[str, Any]]:
    """The statements that are executed inside, with their values."""
    said: dict[str, Any] = {}

    def hear(_c: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        if "wieldy_calls" in statement and statement.startswith(("SELECT", "UPDATE", "DELETE")):
            said[statement] = values

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield said
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


async def test_no_step_that_is_made_often_goes_through_all_calls(
    url: str, execute: Execute
) -> None:
    box = Toolbox(store=url)

    @box.tool(permission="confirm")
    async def work() -> None:
        """Do something."""

    async with box:
        await box.call("work", session="s")
        await box.artifacts.create("a", "text", session="s")
        execute(MANY)
        execute("ANALYZE wieldy_calls")
        with listening() as said:
            for status in ("pending", "approved", "started", "unknown"):
                await box.ledger.list(status=status)
            await box.ledger.list(session="s")
            await box.pending()
            await box.pending(agent="a", session="s")
            await box.recover()
            await box.store.delete_session("s")
            await box.close()
        assert any("owner NOT IN" in statement.replace("(", "") for statement in said)
        assert any("DELETE FROM wieldy_owners" in statement for statement in said)
        for statement, values in said.items():
            plan = await planned(box, statement, values)
            assert "Seq Scan on wieldy_calls" not in plan, f"{statement}\n{plan}"
            assert "SCAN wieldy_calls" not in plan, f"{statement}\n{plan}"
            if "coalesce" in statement:
                # Those of a session that wait are few, those that have ended may be many.
                assert "wieldy_calls_waiting" in plan, f"{statement}\n{plan}"
            assert "SCAN wieldy_artifacts" not in plan, f"{statement}\n{plan}"


async def planned(box: Toolbox, statement: str, values: Any) -> str:
    """How the database would execute a statement."""
    sqlite = "?" in statement
    explain = f"EXPLAIN {'QUERY PLAN ' if sqlite else ''}{statement}"
    rows = await box.store.read(lambda c: c.exec_driver_sql(explain, values).all())
    return "\n".join(str(row[-1]) for row in rows)
