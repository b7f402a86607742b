"""Documents and large results of a session, with every version they have had."""

import asyncio
import builtins
import secrets
import time
from typing import Any

from sqlalchemy import Connection, Row

from wieldy.core.call import Call
from wieldy.core.canonical import digest_of
from wieldy.core.errors import (
    ArtifactNotFound,
    ArtifactTaken,
    StoreUnavailable,
    VersionConflict,
    WieldyError,
)
from wieldy.store.store_access import StoreAccess

from . import artifact_rows as rows
from .artifact import Artifact, ArtifactEdit, Head, Version, format_handle, parse_handle
from .difference import unified_diff
from .fuzzy import splice_passage

_LONGEST_ID = 500
# Of writers that meet, one gets through each time; who is beaten as often as this gives up, after
# some twenty seconds.
_MOST_TRIES = 400
_LONGEST_PAUSE = 0.05


class Artifacts:
    """The artifacts of all sessions. A session sees its own, and no session is one too.

    Every change makes a version, and old versions stay. `expect=` is the version
    that the writer has seen: if it is not the current one any more, the change is a
    `VersionConflict`. Without it a change is made to whatever is current.
    """

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def create(
        self,
        id: str,
        content: str,
        title: str | None = None,
        content_type: str = "markdown",
        session: str | None = None,
        *,
        by: str | None = None,
    ) -> ArtifactEdit:
        """Make an artifact; `ArtifactTaken` if the session has one of this id."""
        _check_id(id)
        session = session or None
        first = _row(secrets.token_hex(16), 1, "create", content, by)
        head = {
            **rows.place(session, id),
            "birth": first["birth"],
            "session": session,
            "id": id,
            "title": title,
            "content_type": content_type,
            "version": 1,
            "created_at": first["at"],
            "changed_at": first["at"],
        }
        if not await self._store.write(lambda connection: rows.put(connection, head, first)):
            raise ArtifactTaken(id)
        return ArtifactEdit(id, 1, "create")

    async def read(
        self, id: str, version: int | None = None, session: str | None = None
    ) -> Artifact:
        """One version of an artifact, the current one if none is named."""
        return _artifact(*await self._find(id, version, session))

    async def open(self, reference: str, session: str | None = None) -> Artifact:
        """The artifact of a handle `artifact://id@version`, or of an id."""
        id, version = parse_handle(reference)
        return await self.read(id, version, session)

    async def list(self, session: str | None = None) -> builtins.list[Head]:
        """The artifacts of a session, the oldest first."""
        found = await self._store.read(lambda c: rows.find_all(c, session or None))
        return [_shown(row) for row in found]

    async def everywhere(
        self, id: str | None = None, limit: int | None = None
    ) -> builtins.list[Head]:
        """The artifacts of all sessions, or those of an id; what was changed last comes first."""
        found = await self._store.read(lambda c: rows.find_everywhere(c, id, limit))
        return [_shown(row) for row in found]

    async def versions(self, id: str, session: str | None = None) -> builtins.list[Version]:
        """The history of an artifact, the oldest version first."""

        def read(connection: Connection) -> builtins.list[Row[Any]]:
            return rows.find_history(connection, _head(connection, id, session).birth)

        found = await self._store.read(read)
        return [
            Version(row.version, row.kind, row.size, row.at, row.by, row.similarity)
            for row in found
        ]

    async def diff(
        self, id: str, old: int, new: int | None = None, session: str | None = None
    ) -> str:
        """A unified diff from one version to another, or to the current one."""
        before = await self.read(id, old, session)
        after = await self.read(id, new, session)
        return await asyncio.to_thread(
            unified_diff, before.content, after.content, before.handle, after.handle
        )

    async def update(
        self,
        id: str,
        old: str,
        new: str,
        session: str | None = None,
        expect: int | None = None,
        *,
        by: str | None = None,
    ) -> ArtifactEdit:
        """Replace the passage `old`, which stands there once, or what comes nearest to it.

        A near match may differ by an edit distance of 0.3 times the passage's length.
        The change says what was matched and how alike it is.
        """
        if not old:
            raise ValueError("old is empty: it is the passage that new replaces")
        for tries in range(_MOST_TRIES):
            head, current = await self._current(id, session, expect)
            # On a thread: a near match in a long text takes its time.
            made = await asyncio.to_thread(splice_passage, id, current.content, old, new)
            row = _row(head.birth, head.version + 1, made.kind, made.content, by)
            row["similarity"] = made.similarity if made.kind == "update_fuzzy" else None
            if await self._advance(head.key, row):
                return ArtifactEdit(id, row["version"], made.kind, made.similarity, made.matched)
            await _pause(tries)
        raise await self._beaten(id, session, head.version)

    async def rewrite(
        self,
        id: str,
        content: str,
        session: str | None = None,
        expect: int | None = None,
        *,
        by: str | None = None,
    ) -> ArtifactEdit:
        """Replace the whole text."""
        for tries in range(_MOST_TRIES):
            head = await self._store.read(lambda c: _head(c, id, session))
            _check_expected(head, expect)
            row = _row(head.birth, head.version + 1, "rewrite", content, by)
            if await self._advance(head.key, row):
                return ArtifactEdit(id, row["version"], "rewrite")
            await _pause(tries)
        raise await self._beaten(id, session, head.version)

    async def delete(self, id: str, session: str | None = None) -> None:
        """Take an artifact away, with all its versions."""
        head = await self._store.read(lambda c: _head(c, id, session))
        await self._store.write(lambda connection: rows.remove(connection, head.key, head.birth))

    async def spill(self, call: Call, whole: str) -> str:
        """Keep the whole of a large result, and give the handle of it.

        The artifact has the id of the call. A call that runs once more makes a
        further version, unless its result is the same.
        """
        id = call.id if len(call.id) <= _LONGEST_ID else digest_of(call.id)
        session = call.scope.session
        title = f"Result of {call.tool}"
        try:
            await self.create(id, whole, title, "text", session, by=call.id)
        except ArtifactTaken:
            last = await self.read(id, session=session)
            if last.content == whole:
                return last.handle
            return (await self.rewrite(id, whole, session, by=call.id)).handle
        return format_handle(id, 1)

    async def _find(
        self, id: str, version: int | None, session: str | None
    ) -> tuple[Row[Any], Row[Any]]:
        """The row of an artifact and of one of its versions."""

        def read(connection: Connection) -> tuple[Row[Any], Row[Any]]:
            head = _head(connection, id, session)
            number = head.version if version is None else version
            if not 0 < number <= head.version:
                raise ArtifactNotFound(id, number, head.version)
            found = rows.find_version(connection, head.birth, number)
            if found is None:
                # It was deleted in between.
                raise ArtifactNotFound(id)
            return head, found

        return await self._store.read(read)

    async def _current(
        self, id: str, session: str | None, expect: int | None
    ) -> tuple[Row[Any], Row[Any]]:
        head, current = await self._find(id, None, session)
        _check_expected(head, expect)
        return head, current

    async def _advance(self, key: str, row: dict[str, Any]) -> bool:
        return await self._store.write(lambda connection: rows.advance(connection, key, row))

    async def _beaten(self, id: str, session: str | None, seen: int) -> WieldyError:
        head = await self._store.read(lambda c: _head(c, id, session))
        if head.version != seen:
            return VersionConflict(id, seen, head.version)
        return StoreUnavailable("somebody is changing the artifact all the time", "Try again.")


async def _pause(tries: int) -> None:
    """Let those who are faster finish."""
    await asyncio.sleep(min(tries / 1000, _LONGEST_PAUSE))


def _head(connection: Connection, id: str, session: str | None) -> Row[Any]:
    found = rows.find(connection, session or None, id)
    if found is None:
        raise ArtifactNotFound(id)
    return found


def _artifact(head: Row[Any], version: Row[Any]) -> Artifact:
    return Artifact(
        head.id,
        version.version,
        version.content,
        head.title,
        head.content_type,
        head.session,
        version.kind,
        version.at,
        version.by,
    )


def _row(birth: str, version: int, kind: str, content: str, by: str | None) -> dict[str, Any]:
    if not isinstance(content, str):
        raise TypeError(f"an artifact is text, not {type(content).__name__}")
    return {
        "birth": birth,
        "version": version,
        "mark": secrets.token_hex(16),
        "kind": kind,
        "content": content,
        "size": len(content),
        "at": time.time(),
        "by": by,
    }


def _shown(row: Row[Any]) -> Head:
    return Head(
        row.id,
        row.version,
        row.title,
        row.content_type,
        row.session,
        row.created_at,
        row.changed_at,
    )


def _check_id(id: str) -> None:
    if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID:
        raise ValueError(f"an artifact's id is text of 1 to {_LONGEST_ID} characters")


def _check_expected(head: Row[Any], expect: int | None) -> None:
    if expect is not None and head.version != expect:
        raise VersionConflict(head.id, expect, head.version)
