"""Find ids by their beginning, with the index of a primary key."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, select, type_coerce
from sqlalchemy import Text as SqlText

from .tables import calls, pack_text

# Packed text begins with this, and its order does not follow the original text.
_PACKED = "\x01"
_AT_ONCE = 100


def ids_beginning(connection: Connection, prefix: str, limit: int | None) -> list[str]:
    """The ids of calls that begin with this text, in reverse order."""
    plain = _id_range(prefix).limit(limit)
    found = [] if pack_text(prefix) != prefix else [*connection.scalars(plain)]
    packed = connection.scalars(_id_range(_PACKED).execution_options(yield_per=_AT_ONCE))
    found.extend(call_id for call_id in packed if call_id.startswith(prefix))
    return found[:limit]


def _id_range(begin: str) -> Select[Any]:
    """The range of the stored ids that begin with a text."""
    # If it were bound as an id, the beginning of packed text would be packed again.
    stored: ColumnElement[str] = type_coerce(calls.c.id, SqlText)
    query = select(calls.c.id).where(stored >= begin).order_by(calls.c.id.desc())
    after = _following(begin)
    return query if after is None else query.where(stored < after)


def _following(prefix: str) -> str | None:
    """The first text after all texts that begin with this one, or None."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if code <= 0x10FFFF:
            # Surrogates are not characters.
            return prefix[:place] + chr(0xE000 if code == 0xD800 else code)
    return None
