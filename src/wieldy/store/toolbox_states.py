"""States of a toolbox, kept under names."""

import time
from typing import Any

from sqlalchemy import Connection, select

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.core.call import check_id
from wieldy.core.errors import NotKept, StoreError

from .databases.database import Operation
from .databases.prepared_statements import insert_or_update
from .databases.tables import states


def save(name: str, state: dict[str, Any]) -> Operation[None]:
    """The operation that saves a state, in place of an earlier one."""
    check_id("the name of a state", name)
    values = {"state": dump_json(state, MAX_WRAPPED), "saved_at": time.time()}

    def write(connection: Connection) -> None:
        connection.execute(
            insert_or_update(connection.dialect, states, {"name": name, **values}, values)
        )

    return write


def load(name: str) -> Operation[Any]:
    """The operation that reads a state; `NotKept` if there is none of this name."""

    def read(connection: Connection) -> Any:
        text = connection.scalar(select(states.c.state).where(states.c.name == name))
        if text is None:
            raise NotKept("state", name)
        try:
            return parse_json(text, MAX_WRAPPED)
        except ValueError as error:
            reason = f"the state {name!r} can't be read ({error})"
            raise StoreError(reason, "Save it again.") from error

    return read
