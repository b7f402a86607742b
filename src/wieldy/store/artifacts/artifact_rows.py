"""The operations on artifacts. Each may run twice, and recognises its own earlier work."""

from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, tuple_, update

from wieldy.core.canonical import digest_of
from wieldy.store.databases.prepared_statements import insert_if_new
from wieldy.store.databases.tables import artifact_versions as versions
from wieldy.store.databases.tables import artifacts

# The end of a page of artifacts: when the last one changed, its session and its id.
Place = tuple[float, str | None, str]


def place(session: str | None, id: str) -> dict[str, str]:
    """The columns by which an artifact is found."""
    return {"key": digest_of([session, id]), "shelf": session_shelf(session)}


def session_shelf(session: str | None) -> str:
    """The column by which all artifacts of a session are found."""
    return digest_of([session])


def find(connection: Connection, session: str | None, id: str) -> Row[Any] | None:
    """The row of an artifact."""
    key = place(session, id)["key"]
    return connection.execute(select(artifacts).where(artifacts.c.key == key)).first()


def find_version(connection: Connection, birth: str, version: int) -> Row[Any] | None:
    """The row of one version."""
    return connection.execute(select(versions).where(*_version_is(birth, version))).first()


def find_all(connection: Connection, session: str | None) -> list[Row[Any]]:
    """The artifacts of a session, the oldest first."""
    query = select(artifacts).where(artifacts.c.shelf == session_shelf(session))
    return [*connection.execute(query.order_by(artifacts.c.created_at, artifacts.c.key))]


def find_everywhere(
    connection: Connection, id: str | None, limit: int | None, after: Place | None = None
) -> list[Row[Any]]:
    """The artifacts of all sessions, or those of an id; the one changed last comes first."""
    newest = (artifacts.c.changed_at.desc(), artifacts.c.key.desc())
    query = select(artifacts).order_by(*newest).limit(limit)
    if after is not None:
        changed_at, session, last = after
        before = (changed_at, place(session, last)["key"])
        query = query.where(tuple_(artifacts.c.changed_at, artifacts.c.key) < before)
    return [*connection.execute(query if id is None else query.where(artifacts.c.id == id))]


def find_history(connection: Connection, birth: str) -> list[Row[Any]]:
    """The versions of an artifact without their text, the oldest first."""
    columns = [column for column in versions.c if column.name != "content"]
    query = select(*columns).where(versions.c.birth == birth).order_by(versions.c.version)
    return [*connection.execute(query)]


def put(connection: Connection, head: dict[str, Any], first: dict[str, Any]) -> bool:
    """Insert an artifact with its first version; False if one of this id exists already."""
    if insert_if_new(artifacts, tuple(head)).touches(connection, tuple(head.values())):
        connection.execute(insert(versions).values(first))
        return True
    there = select(artifacts.c.birth).where(artifacts.c.key == head["key"])
    return bool(connection.scalar(there) == head["birth"])


def advance(connection: Connection, key: str, row: dict[str, Any]) -> bool:
    """Add the next version; False if somebody else did, or if the artifact is gone."""
    birth, number = row["birth"], row["version"]
    before = (*_head_is(key, birth), artifacts.c.version == number - 1)
    # A transaction that is changing the artifact is not waited for: transactions that change
    # several artifacts would wait for each other.
    mine = select(artifacts.c.key).where(*before).with_for_update(skip_locked=True)
    if connection.scalar(mine) is not None:
        connection.execute(
            update(artifacts).where(*before).values(version=number, changed_at=row["at"])
        )
        connection.execute(insert(versions).values(row))
        return True
    made = select(versions.c.mark).where(*_version_is(birth, number))
    return bool(connection.scalar(made) == row["mark"])


def remove(connection: Connection, key: str, birth: str) -> None:
    """Delete an artifact and its versions."""
    connection.execute(delete(artifacts).where(*_head_is(key, birth)))
    connection.execute(delete(versions).where(versions.c.birth == birth))


def _version_is(birth: str, version: int) -> tuple[Any, Any]:
    return versions.c.birth == birth, versions.c.version == version


def _head_is(key: str, birth: str) -> tuple[Any, Any]:
    return artifacts.c.key == key, artifacts.c.birth == birth
