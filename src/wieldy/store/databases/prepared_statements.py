"""Statements that are compiled once per kind of database and then run as they are."""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar

from sqlalchemy import Connection, Dialect, Double, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.dml import ReturningInsert

from .tables import Free

Values = Sequence[Any]


class Prepared:
    """A Core statement without Core's cost per execution.

    `build` makes the statement for a kind of database. `names` are its parameters, and values
    are passed in that order.
    """

    def __init__(self, names: Sequence[str], build: Callable[[Dialect], ClauseElement]) -> None:
        self.names = tuple(names)
        self._build = build
        self._elsewhere: dict[str, Compiled] = {}

    @cached_property
    def in_sqlite(self) -> "Compiled":
        """The statement for the driver itself; running it through SQLAlchemy would cost more."""
        return self._compile_for(sqlite.dialect())

    def touches(self, connection: Connection, values: Values) -> bool:
        """Execute with these values; returns whether a row was written."""
        dialect = connection.dialect
        if dialect.name == "sqlite":
            file: Any = connection.connection.driver_connection
            here = self.in_sqlite
            touched: int = file.execute(here.sql, here.bound(values)).rowcount
            return touched > 0
        compiled = self._elsewhere.get(dialect.name)
        if compiled is None:
            compiled = self._elsewhere[dialect.name] = self._compile_for(dialect)
        return connection.exec_driver_sql(compiled.sql, tuple(compiled.bound(values))).rowcount > 0

    def touches_each(self, file: Any, rows: list[Values]) -> bool:
        """Execute in SQLite for all these rows; returns whether each of them was written."""
        here = self.in_sqlite
        touched: int = file.executemany(here.sql, [here.bound(values) for values in rows]).rowcount
        return touched == len(rows)

    def _compile_for(self, dialect: Dialect) -> "Compiled":
        return Compiled(self._build(dialect).compile(dialect=dialect), self.names)


class Compiled:
    """A statement as a driver takes it."""

    __slots__ = ("_binds", "_free", "_order", "sql")

    def __init__(self, compiled: Any, names: Sequence[str]) -> None:
        self.sql = str(compiled)
        places: list[str] = compiled.positiontup
        self._order = [names.index(name) for name in places]
        binds = compiled._bind_processors
        self._binds = [(i, binds[name]) for i, name in enumerate(places) if name in binds]
        # Values in the right order are passed on directly, unless a text may have to be packed.
        types = {i: compiled.binds[name].type for i, name in enumerate(places)}
        straight = self._order == list(range(len(names))) and all(
            isinstance(types[i], Free | Double) for i, _ in self._binds
        )
        free = [i for i, kind in types.items() if isinstance(kind, Free)]
        self._free = free if straight else None

    def bound(self, values: Values) -> Values:
        """The values in the statement's order, as the database takes them."""
        if self._free is not None:
            for place in self._free:
                text = values[place]
                if text is not None and not (text.isascii() and text.isprintable()):
                    break
            else:
                return values
        bound = [values[place] for place in self._order]
        for place, bind in self._binds:
            bound[place] = bind(bound[place])
        return bound


class Write:
    """An operation that writes one row; equal operations of many callers run as one statement.

    A `brief` one is quick enough to run on the caller's thread.
    """

    __slots__ = ("brief", "statement", "values")
    # The result if the row is written.
    done: ClassVar[Any]

    def __init__(self, statement: Prepared, values: Values, brief: bool = False) -> None:
        self.statement = statement
        self.values = values
        self.brief = brief

    def __call__(self, connection: Connection) -> Any:
        if self.statement.touches(connection, self.values):
            return self.done
        return self.otherwise(connection)

    def touches_each(self, file: Any, writes: "Sequence[Any]") -> bool:
        """Run writes of this statement in SQLite; returns whether each of them found its row."""
        return self.statement.touches_each(file, [write.values for write in writes])

    def otherwise(self, connection: Connection) -> Any:
        """Handle that no row was written; returns the result."""
        raise NotImplementedError

    def settled(self) -> None:
        """Called on any thread when the write has become durable later than expected."""

    def refused(self) -> None:
        """Called on any thread when the write was refused for good."""

    def smaller(self, error: BaseException) -> "Write | None":
        """The write without the value that the database refused; None if it has no such value."""


class PairedWrite(Write):
    """A write with an addition: a row of another table, which is inserted after the first row.

    The addition is inserted only if it is new, because a write that runs again can't know whether
    it came that far before.
    """

    __slots__ = ("added",)
    addition: ClassVar[Prepared]

    def __init__(self, statement: Prepared, values: Values, added: Values) -> None:
        super().__init__(statement, values)
        self.added = added

    def __call__(self, connection: Connection) -> Any:
        done = super().__call__(connection)
        if done == self.done:
            self.addition.touches(connection, self.added)
        return done

    def touches_each(self, file: Any, writes: "Sequence[Any]") -> bool:
        if not super().touches_each(file, writes):
            return False
        self.addition.touches_each(file, [write.added for write in writes])
        return True


def start_insert(dialect: Dialect, table: Table) -> Any:
    """An insert that can say what happens if the row exists already."""
    return (postgresql if dialect.name == "postgresql" else sqlite).insert(table)


@cache
def insert_if_new(table: Table, names: tuple[str, ...]) -> Prepared:
    """An insert of these columns that does nothing if the row exists already."""
    values: dict[str, Any] = {name: bindparam(name) for name in names}

    def build(dialect: Dialect) -> ClauseElement:
        found: ClauseElement = start_insert(dialect, table).values(values).on_conflict_do_nothing()
        return found

    return Prepared(names, build)


def insert_new(dialect: Dialect, table: Table, values: dict[str, Any]) -> ReturningInsert[Any]:
    """An insert that returns no row, instead of an error, if the row exists already."""
    insert = start_insert(dialect, table).values(values).on_conflict_do_nothing()
    returning: ReturningInsert[Any] = insert.returning(table.c.id)
    return returning


def insert_or_update(
    dialect: Dialect, table: Table, values: dict[str, Any], changes: dict[str, Any]
) -> Any:
    """An insert that updates the row if it exists already."""
    key = list(table.primary_key)
    insert = start_insert(dialect, table).values(values)
    return insert.on_conflict_do_update(index_elements=key, set_=changes)
