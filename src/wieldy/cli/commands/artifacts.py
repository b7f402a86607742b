"""`wieldy artifacts`: show the documents and large results in the store."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from wieldy.cli import exits, screen
from wieldy.cli.store_choice import StoreChoice
from wieldy.core.errors import WieldyError
from wieldy.core.limits.handles import parse_handle
from wieldy.core.timestamps import iso_time
from wieldy.store.artifacts.artifact import Head

if TYPE_CHECKING:
    from wieldy.store.store import Store

_COLUMNS = ("artifact", "version", "session", "type", "changed", "title")
_HISTORY = ("version", "how", "size", "at", "by")


class ArtifactQuestion(WieldyError):
    """The options don't name an artifact, or not in a usable way."""


async def _show_all(store: "Store", session: str | None, limit: int, as_json: bool) -> None:
    if session is None:
        # One artifact more than is shown is read, to know whether there are more.
        found = await store.artifacts.everywhere(limit=limit + 1 if limit else None)
    else:
        found = sorted(await store.artifacts.list(session), key=lambda head: -head.changed_at)
    shown = found[: limit or None]
    if as_json:
        screen.put([_with_times(asdict(each)) for each in shown])
    elif shown:
        screen.table(_COLUMNS, map(_head_row, shown))
    else:
        where = store.address if session is None else f"session {session} of {store.address}"
        screen.say(f"There are no artifacts in {where}.")
    if len(found) > len(shown):
        screen.say(f"The newest {len(shown)} are shown; --limit 0 shows all.")


def _head_row(head: Head) -> tuple[object, ...]:
    changed = screen.local(head.changed_at)
    session = head.session or ""
    return head.id, head.version, session, head.content_type, changed, head.title or ""


async def _session_of(store: "Store", id: str, choice: StoreChoice) -> str | None:
    """The session of an artifact if the user named none; no session comes before any session."""
    sessions = [head.session for head in await store.artifacts.everywhere(id, limit=4)]
    if not sessions:
        raise ArtifactQuestion(
            f"No session has an artifact {id!r} in {store.address}. "
            f"{choice.command('artifacts')} lists the artifacts."
        )
    if None in sessions:
        return None
    if len(sessions) > 1:
        some = ", ".join(map(repr, sessions[:3]))
        raise ArtifactQuestion(
            f"More than one session has {id!r}, such as {some}. Choose one with --session."
        )
    return str(sessions[0])


async def _show_history(artifacts: Any, id: str, session: str | None, as_json: bool) -> None:
    found = await artifacts.versions(id, session=session)
    if as_json:
        screen.put([_with_times(asdict(each)) for each in found])
        return
    rows = ((e.version, e.kind, e.size, screen.local(e.at), e.by or "") for e in found)
    screen.table(_HISTORY, rows)


async def _show_one(
    artifacts: Any, id: str, version: int | None, session: str | None, as_json: bool
) -> None:
    artifact = await artifacts.read(id, version=version, session=session)
    if as_json:
        screen.put(_with_times(asdict(artifact)))
    else:
        screen.show(artifact.content.removesuffix("\n"))


async def _show_difference(
    artifacts: Any, id: str, versions: str, session: str | None, as_json: bool
) -> None:
    old, _, new = versions.partition("..")
    if not old.isdecimal() or not (new.isdecimal() or not new):
        raise ArtifactQuestion(
            f"--diff takes one version or two, such as 1 or 1..3, not {versions!r}."
        )
    text = await artifacts.diff(id, int(old), int(new) if new else None, session=session)
    if as_json:
        screen.put({"id": id, "old": int(old), "new": int(new) if new else None, "diff": text})
    else:
        screen.show(text.removesuffix("\n"))


def run_artifacts(
    choice: StoreChoice,
    reference: str | None,
    session: str | None,
    version: int | None,
    history: bool,
    difference: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Print artifacts, or one of them, its history or a diff; returns the exit code."""

    async def read() -> int:
        if reference is None and (version is not None or history or difference is not None):
            raise ArtifactQuestion("--version, --versions and --diff need the id of an artifact.")
        if limit < 0:
            raise ArtifactQuestion("--limit takes a number that is not negative; 0 shows all.")
        async with choice.read() as box:
            artifacts = box.artifacts
            if reference is None:
                await _show_all(box.store, session, limit, as_json)
                return exits.OK
            id, named = parse_handle(reference)
            where = session or await _session_of(box.store, id, choice)
            if history:
                await _show_history(artifacts, id, where, as_json)
            elif difference is not None:
                await _show_difference(artifacts, id, difference, where, as_json)
            else:
                chosen = named if version is None else version
                await _show_one(artifacts, id, chosen, where, as_json)
        return exits.OK

    return exits.guarded(lambda runner: runner.run(read()))


def _with_times(data: dict[str, Any]) -> dict[str, Any]:
    """The data with its times in ISO 8601."""
    times = ("at", "created_at", "changed_at")
    return {key: iso_time(v) if key in times else v for key, v in data.items()}
