"""Find ids by how they begin, over the index of a primary key."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, select, type_coerce
from sqlalchemy import Text as SqlText

from .tables import calls, pack_text

# Text that was packed begins with this, and is in no order that says how it began.
_PACKED = "\x01"
_AT_ONCE = 100


def ids_beginning(connection: Connection, prefix: str, limit: int | None) -> list[str]:
    """The ids of calls that begin with this text, the last in their order first."""
    plain = _range(prefix).limit(limit)
    found = [] if pack_text(prefix) != prefix else [*connection.scalars(plain)]
    packed = connection.scalars(_range(_PACKED).execution_options(yield_per=_AT_ONCE))
    found.extend(call_id for call_id in packed if call_id.startswith(prefix))
    return found[:limit]


def _range(begin: str) -> Select[Any]:
    """The ids that begin so, as they are stored."""
    # Bound as an id, the beginning of packed text would be packed itself.
    stored: ColumnElement[str] = type_coerce(calls.c.id, SqlText)
    query = select(calls.c.id).where(stored >= begin).order_by(calls.c.id.desc())
    after = _following(begin)
    return query if after is None else query.where(stored < after)


def _following(prefix: str) -> str | None:
    """The first text after all that begin with this one; None if there is none."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if code <= 0x10FFFF:
            # Halves of pairs are no characters.
            return prefix[:place] + chr(0xE000 if code == 0xD800 else code)
    return None
