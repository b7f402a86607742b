"""`wieldy artifacts`: the documents and large results that calls have left."""

from dataclasses import asdict
from typing import Any

from wieldy.core.errors import WieldyError

from . import exits, screen
from .environment import kept

_COLUMNS = ("artifact", "version", "type", "changed", "title")
_HISTORY = ("version", "how", "size", "at", "by")


class ArtifactQuestion(WieldyError):
    """What was asked about an artifact can't be answered as asked."""


async def _show_all(artifacts: Any, session: str | None, as_json: bool) -> None:
    found = await artifacts.list(session=session)
    if as_json:
        screen.put([_timed(asdict(each)) for each in found])
    elif found:
        rows = (
            (
                each.id,
                each.version,
                each.content_type,
                screen.local(each.changed_at),
                each.title or "",
            )
            for each in found
        )
        screen.table(_COLUMNS, rows)
    else:
        screen.say("There are no artifacts" + ("." if session is None else " in this session."))


async def _show_history(artifacts: Any, id: str, session: str | None, as_json: bool) -> None:
    found = await artifacts.versions(id, session=session)
    if as_json:
        screen.put([_timed(asdict(each)) for each in found])
        return
    rows = ((e.version, e.kind, e.size, screen.local(e.at), e.by or "") for e in found)
    screen.table(_HISTORY, rows)


async def _show_one(
    artifacts: Any, id: str, version: int | None, session: str | None, as_json: bool
) -> None:
    artifact = await artifacts.read(id, version=version, session=session)
    if as_json:
        screen.put(_timed(asdict(artifact)))
    else:
        screen.show(artifact.content.removesuffix("\n"))


async def _show_difference(
    artifacts: Any, id: str, versions: str, session: str | None, as_json: bool
) -> None:
    old, _, new = versions.partition("..")
    if not old.isdecimal() or not (new.isdecimal() or not new):
        raise ArtifactQuestion(
            f"--diff takes a version or two, such as 1 or 1..3, not {versions!r}."
        )
    text = await artifacts.diff(id, int(old), int(new) if new else None, session=session)
    if as_json:
        screen.put({"id": id, "old": int(old), "new": int(new) if new else None, "diff": text})
    else:
        screen.show(text.removesuffix("\n"))


def run_artifacts(
    store: str | None,
    id: str | None,
    session: str | None,
    version: int | None,
    history: bool,
    difference: str | None,
    as_json: bool,
) -> int:
    """Print the artifacts of a session, or one, its history or what changed; the exit code."""

    async def read() -> int:
        if id is None and (version is not None or history or difference is not None):
            raise ArtifactQuestion(
                "--version, --versions and --diff are about one artifact: name it."
            )
        box: Any = kept(store)
        async with box:
            artifacts = box.artifacts
            if id is None:
                await _show_all(artifacts, session, as_json)
            elif history:
                await _show_history(artifacts, id, session, as_json)
            elif difference is not None:
                await _show_difference(artifacts, id, difference, session, as_json)
            else:
                await _show_one(artifacts, id, version, session, as_json)
        return exits.OK

    return exits.guarded(lambda runner: runner.run(read()))


def _timed(data: dict[str, Any]) -> dict[str, Any]:
    """The data with its moments as programs take them."""
    times = ("at", "created_at", "changed_at")
    return {key: screen.moment(v) if key in times else v for key, v in data.items()}
