"""Statements that are compiled once per kind of database and then run as they are."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Dialect, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.dml import ReturningInsert

_Compiled = tuple[str, list[tuple[str, Any]], dict[str, Any]]


class Prepared:
    """A Core statement without Core's cost per execution."""

    def __init__(self, build: Callable[[Dialect], ClauseElement]) -> None:
        self._build = build
        self._compiled: dict[str, _Compiled] = {}

    def first(self, connection: Connection, values: dict[str, Any]) -> Any:
        """Execute with these values and give the first row, if any; what is not given is NULL."""
        dialect = connection.dialect
        sql, parameters, defaults = self._compiled.get(dialect.name) or self._compile(dialect)
        given = {**defaults, **values}.get
        bound = tuple(
            [given(name) if bind is None else bind(given(name)) for name, bind in parameters]
        )
        if dialect.name != "sqlite":
            return connection.exec_driver_sql(sql, bound).first()
        # Where no server is asked, what SQLAlchemy adds to an execution costs more than it.
        cursor = connection.connection.cursor()
        cursor.execute(sql, bound)
        row = cursor.fetchone()
        cursor.close()
        return row

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled: Any = self._build(dialect).compile(dialect=dialect)
        binds = compiled._bind_processors
        parameters = [(name, binds.get(name)) for name in compiled.positiontup]
        made = (str(compiled), parameters, compiled.params)
        self._compiled[dialect.name] = made
        return made


def insert_new(dialect: Dialect, table: Table, values: dict[str, Any]) -> ReturningInsert[Any]:
    """An insert that gives no row, instead of an error, where there is one already."""
    if dialect.name == "postgresql":
        return (
            postgresql.insert(table).values(values).on_conflict_do_nothing().returning(table.c.id)
        )
    return sqlite.insert(table).values(values).on_conflict_do_nothing().returning(table.c.id)


def insert_or_update(
    dialect: Dialect, table: Table, values: dict[str, Any], changes: dict[str, Any]
) -> Any:
    """An insert that changes the row instead, where there is one already."""
    insert: Any = postgresql.insert if dialect.name == "postgresql" else sqlite.insert
    key = list(table.primary_key)
    return insert(table).values(values).on_conflict_do_update(index_elements=key, set_=changes)
