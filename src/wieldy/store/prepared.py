"""Statements that are compiled once per kind of database and then run as they are."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Dialect, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.dml import ReturningInsert

_Compiled = tuple[str, list[tuple[str, Any]], dict[str, Any]]


class Prepared:
    """A Core statement without Core's cost per execution.

    `build` makes it for a kind of database and for the names of the values that come
    with it: what is not written costs nothing.
    """

    def __init__(self, build: Callable[[Dialect, tuple[str, ...]], ClauseElement]) -> None:
        self._build = build
        self._compiled: dict[tuple[str, ...], _Compiled] = {}

    def touches(self, connection: Connection, values: dict[str, Any]) -> bool:
        """Execute with these values; whether there was a row to write."""
        dialect = connection.dialect
        key = (dialect.name, *values)
        sql, parameters, defaults = self._compiled.get(key) or self._compile(dialect, key)
        given = {**defaults, **values}
        bound = tuple(
            [given[name] if bind is None else bind(given[name]) for name, bind in parameters]
        )
        if dialect.name != "sqlite":
            return connection.exec_driver_sql(sql, bound).rowcount > 0
        # Where no server is asked, what SQLAlchemy adds to an execution costs more than it.
        file: Any = connection.connection.driver_connection
        touched: int = file.execute(sql, bound).rowcount
        return touched > 0

    def _compile(self, dialect: Dialect, key: tuple[str, ...]) -> _Compiled:
        compiled: Any = self._build(dialect, key[1:]).compile(dialect=dialect)
        binds = compiled._bind_processors
        parameters = [(name, binds.get(name)) for name in compiled.positiontup]
        made = (str(compiled), parameters, compiled.params)
        self._compiled[key] = made
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


def insert_named(dialect: Dialect, table: Table, names: tuple[str, ...]) -> ClauseElement:
    """An insert that does nothing, instead of raising, where there is such a row already."""
    insert = postgresql.insert if dialect.name == "postgresql" else sqlite.insert
    values: dict[str, Any] = {name: bindparam(name) for name in names}
    return insert(table).values(values).on_conflict_do_nothing()
