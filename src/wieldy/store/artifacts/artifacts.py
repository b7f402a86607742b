"""Documents and large results of a session, with every version they have had."""

import asyncio
import builtins
import secrets
import time
from typing import Any

from sqlalchemy import Connection, Row

from wieldy.core.active_call import current_call
from wieldy.core.call import Call
from wieldy.core.canonical import digest_of
from wieldy.core.errors import StoreUnavailable, WieldyError
from wieldy.core.limits.handles import format_handle, parse_handle
from wieldy.store.store_access import StoreAccess

from . import artifact_rows as rows
from .artifact import Artifact, ArtifactEdit, Head, Version
from .artifact_errors import ArtifactNotFound, ArtifactTaken, VersionConflict
from .difference import unified_diff
from .fuzzy import splice_passage

_MAX_ID = 500
# When writers collide, one of them succeeds each time. A writer that has failed this many times
# gives up, after some twenty seconds.
_MAX_TRIES = 400
_MAX_PAUSE = 0.05


class Artifacts:
    """The artifacts of all sessions. A session sees only its own; None is a session of its own.

    Every change makes a new version, and old versions stay. `expect=` is the version that the
    writer has seen: if it is no longer the current one, the change raises `VersionConflict`.
    Without it the change is made to whatever is current.
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
        untrusted: bool = False,
    ) -> ArtifactEdit:
        """Make an artifact.

        Args:
            id: The artifact's id.
            content: The text.
            title: A title for people.
            content_type: The kind of text.
            session: The session that gets the artifact.
            by: Who makes it, for the history.
            untrusted: Whether the text comes from outside; whoever reads it is told.

        Returns:
            The change, with the handle of version 1.

        Raises:
            ArtifactTaken: The session has an artifact of this id.

        Example:
            `await box.artifacts.create("plan", "# Plan", session="ann")`
        """
        _check_id(id)
        session = session or None
        first = _version_row(secrets.token_hex(16), 1, "create", content, by)
        head = {
            **rows.place(session, id),
            "birth": first["birth"],
            "session": session,
            "id": id,
            "title": title,
            "content_type": content_type,
            "untrusted": 1 if untrusted else None,
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
        """Read one version of an artifact.

        Args:
            id: The artifact's id.
            version: The version's number; None reads the current one.
            session: The session that has the artifact.

        Returns:
            The version, with its text.

        Raises:
            ArtifactNotFound: The session has no such artifact, or it has no such version.

        Example:
            `(await box.artifacts.read("plan", session="ann")).content`
        """
        return _build_artifact(*await self._find(id, version, session))

    async def open(self, reference: str, session: str | None = None) -> Artifact:
        """Read an artifact by its handle.

        Args:
            reference: A handle such as `artifact://id@version`, or an id.
            session: The session that has the artifact.

        Returns:
            The version, with its text.

        Raises:
            ArtifactNotFound: The session has no such artifact, or it has no such version.
        """
        id, version = parse_handle(reference)
        return await self.read(id, version, session)

    async def list(self, session: str | None = None) -> builtins.list[Head]:
        """List the artifacts of a session, the oldest first.

        Args:
            session: The session.

        Returns:
            The artifacts, without their text.
        """
        found = await self._store.read(lambda c: rows.find_all(c, session or None))
        return [_build_head(row) for row in found]

    async def everywhere(
        self,
        id: str | None = None,
        limit: int | None = None,
        *,
        after: tuple[float, str | None, str] | None = None,
    ) -> builtins.list[Head]:
        """List the artifacts of all sessions, the one changed last first.

        Args:
            id: Only artifacts of this id.
            limit: The most artifacts to list; None lists all.
            after: When an artifact changed, its session and its id: list only those after it.

        Returns:
            The artifacts, without their text.
        """
        found = await self._store.read(lambda c: rows.find_everywhere(c, id, limit, after))
        return [_build_head(row) for row in found]

    async def versions(self, id: str, session: str | None = None) -> builtins.list[Version]:
        """List the versions of an artifact, the oldest first.

        Args:
            id: The artifact's id.
            session: The session that has the artifact.

        Returns:
            What made each version, and when.

        Raises:
            ArtifactNotFound: The session has no such artifact.
        """

        def read(connection: Connection) -> builtins.list[Row[Any]]:
            return rows.find_history(connection, _find_head(connection, id, session).birth)

        found = await self._store.read(read)
        return [
            Version(row.version, row.kind, row.size, row.at, row.by, row.similarity)
            for row in found
        ]

    async def diff(
        self, id: str, old: int, new: int | None = None, session: str | None = None
    ) -> str:
        """Compare two versions of an artifact.

        Args:
            id: The artifact's id.
            old: The number of the earlier version.
            new: The number of the later version; None compares with the current one.
            session: The session that has the artifact.

        Returns:
            A unified diff.

        Raises:
            ArtifactNotFound: The session has no such artifact, or it has no such version.
        """
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
        """Replace a passage of the text.

        If the passage is not there word for word, the nearest one is replaced, as long as its edit
        distance is at most 0.3 times the passage's length.

        Args:
            id: The artifact's id.
            old: The passage, which must be there once.
            new: The text that replaces it.
            session: The session that has the artifact.
            expect: The version that the writer has seen.
            by: Who makes the change, for the history.

        Returns:
            The change, with what was matched and how alike it is.

        Raises:
            ArtifactNotFound: The session has no such artifact.
            PassageNotFound: Nothing near enough to the passage is there.
            PassageRepeated: The passage is there more than once.
            VersionConflict: The current version is not the expected one.

        Example:
            `await box.artifacts.update("plan", "Monday", "Tuesday", session="ann")`
        """
        if not old:
            raise ValueError("old is empty: it is the passage that new replaces")
        for tries in range(_MAX_TRIES):
            head, current = await self._find_current(id, session, expect)
            # This runs on a thread, because a near match in a long text takes time.
            made = await asyncio.to_thread(splice_passage, id, current.content, old, new)
            row = _version_row(head.birth, head.version + 1, made.kind, made.content, by)
            row["similarity"] = made.similarity if made.kind == "update_fuzzy" else None
            if await self._advance(head.key, row):
                return ArtifactEdit(id, row["version"], made.kind, made.similarity, made.matched)
            await _let_others_write(tries)
        raise await self._conflict_error(id, session, head.version)

    async def rewrite(
        self,
        id: str,
        content: str,
        session: str | None = None,
        expect: int | None = None,
        *,
        by: str | None = None,
    ) -> ArtifactEdit:
        """Replace the whole text.

        Args:
            id: The artifact's id.
            content: The new text.
            session: The session that has the artifact.
            expect: The version that the writer has seen.
            by: Who makes the change, for the history.

        Returns:
            The change, with the handle of the new version.

        Raises:
            ArtifactNotFound: The session has no such artifact.
            VersionConflict: The current version is not the expected one.
        """
        for tries in range(_MAX_TRIES):
            head = await self._store.read(lambda c: _find_head(c, id, session))
            _check_expected(head, expect)
            row = _version_row(head.birth, head.version + 1, "rewrite", content, by)
            if await self._advance(head.key, row):
                return ArtifactEdit(id, row["version"], "rewrite")
            await _let_others_write(tries)
        raise await self._conflict_error(id, session, head.version)

    async def delete(self, id: str, session: str | None = None) -> None:
        """Delete an artifact with all its versions.

        Args:
            id: The artifact's id.
            session: The session that has the artifact.

        Raises:
            ArtifactNotFound: The session has no such artifact.
        """
        head = await self._store.read(lambda c: _find_head(c, id, session))
        await self._store.write(lambda connection: rows.remove(connection, head.key, head.birth))

    async def spill(self, call: Call, whole: str, *, untrusted: bool | None = None) -> str:
        """Keep the whole of a large result.

        The artifact has the id of the call. A call that runs again makes another version, unless
        its result is the same.

        Args:
            call: The call.
            whole: The whole text.
            untrusted: Whether it comes from outside; None asks the running call.

        Returns:
            The handle of the artifact.
        """
        id = call.id if len(call.id) <= _MAX_ID else digest_of(call.id)
        session = call.scope.session
        title = f"Result of {call.tool}"
        if untrusted is None:
            active = current_call.get()
            untrusted = active is not None and active.outside is not None
        try:
            await self.create(id, whole, title, "text", session, by=call.id, untrusted=untrusted)
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
            head = _find_head(connection, id, session)
            number = head.version if version is None else version
            if not 0 < number <= head.version:
                raise ArtifactNotFound(id, number, head.version)
            found = rows.find_version(connection, head.birth, number)
            if found is None:
                # The artifact was deleted between the two reads.
                raise ArtifactNotFound(id)
            return head, found

        return await self._store.read(read)

    async def _find_current(
        self, id: str, session: str | None, expect: int | None
    ) -> tuple[Row[Any], Row[Any]]:
        head, current = await self._find(id, None, session)
        _check_expected(head, expect)
        return head, current

    async def _advance(self, key: str, row: dict[str, Any]) -> bool:
        return await self._store.write(lambda connection: rows.advance(connection, key, row))

    async def _conflict_error(self, id: str, session: str | None, seen: int) -> WieldyError:
        head = await self._store.read(lambda c: _find_head(c, id, session))
        if head.version != seen:
            return VersionConflict(id, seen, head.version)
        return StoreUnavailable("somebody is changing the artifact all the time", "Try again.")


async def _let_others_write(tries: int) -> None:
    """Let faster writers finish."""
    await asyncio.sleep(min(tries / 1000, _MAX_PAUSE))


def _find_head(connection: Connection, id: str, session: str | None) -> Row[Any]:
    found = rows.find(connection, session or None, id)
    if found is None:
        raise ArtifactNotFound(id)
    return found


def _build_artifact(head: Row[Any], version: Row[Any]) -> Artifact:
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
        bool(head.untrusted),
    )


def _version_row(
    birth: str, version: int, kind: str, content: str, by: str | None
) -> dict[str, Any]:
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


def _build_head(row: Row[Any]) -> Head:
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
    if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID:
        raise ValueError(f"an artifact's id is text of 1 to {_MAX_ID} characters")


def _check_expected(head: Row[Any], expect: int | None) -> None:
    if expect is not None and head.version != expect:
        raise VersionConflict(head.id, expect, head.version)
