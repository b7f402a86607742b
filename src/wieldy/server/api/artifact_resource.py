"""Artifacts: list them, and read and compare their versions."""

from dataclasses import asdict

from pydantic import Field
from starlette.responses import Response

from wieldy.store.artifacts.artifact import Artifact
from wieldy.store.artifacts.artifact_errors import ArtifactNotFound

from .answer_shapes import (
    AnswerShape,
    Cursor,
    CutPart,
    Input,
    Limit,
    Moment,
    PlainText,
    cut_long,
    make_cursor,
)
from .api_operations import Asked, operation
from .api_problems import Problem, not_found
from .call_parts import OCTETS, serve_file

_SESSION = Field(
    None,
    max_length=500,
    description="The session that has it. Where tokens are used, your own if you leave it out.",
)
_VERSION = Field(None, ge=1, le=2**31 - 1)
# Other types, such as HTML, are saved as text, which nothing runs.
_SUFFIXES = {"markdown": "md", "json": "json"}


class ArtifactsQuery(Input):
    """Which artifacts to list."""

    session: str | None = _SESSION
    limit: Limit = 50
    cursor: Cursor = None


class ArtifactHead(AnswerShape):
    """An artifact in a list."""

    id: PlainText
    version: int
    title: PlainText | None
    content_type: PlainText
    session: PlainText | None
    created_at: Moment
    changed_at: Moment


class ArtifactPage(AnswerShape):
    """Artifacts, the one changed last first."""

    artifacts: list[ArtifactHead]
    next_cursor: str | None


class FileQuery(Input):
    """Which version to read."""

    session: str | None = _SESSION
    version: int | None = _VERSION


class ArtifactQuery(FileQuery):
    """Which version to read, and how much of it."""

    whole: bool = Field(False, description="Whether to answer a long text whole.")


class ArtifactText(AnswerShape):
    """One version of an artifact."""

    id: PlainText
    version: int
    content: PlainText
    title: PlainText | None
    content_type: PlainText
    session: PlainText | None
    kind: str
    at: Moment
    by: PlainText | None
    untrusted: bool = Field(description="Whether the text came from outside.")
    cut: list[CutPart]


class OwnerQuery(Input):
    """Whose artifact is meant."""

    session: str | None = _SESSION


class ArtifactVersion(AnswerShape):
    """One version in the history of an artifact."""

    version: int
    kind: str
    size: int
    at: Moment
    by: PlainText | None
    similarity: float | None


class ArtifactHistory(AnswerShape):
    """The versions of an artifact, the oldest first."""

    versions: list[ArtifactVersion]


class DiffQuery(OwnerQuery):
    """Which versions to compare."""

    old: int = Field(ge=1, le=2**31 - 1)
    new: int | None = _VERSION


class ArtifactDiff(AnswerShape):
    """The differences between two versions."""

    diff: PlainText = Field(description="A unified diff.")


@operation("GET", "/artifacts", ArtifactPage, query=ArtifactsQuery)
async def list_artifacts(asked: Asked) -> ArtifactPage:
    """List artifacts, the one changed last first.

    Callers see those of their own session; with the role approve or administer you see all.
    """
    query: ArtifactsQuery = asked.query
    place = asked.place(float, (str, type(None)), str)
    artifacts = asked.store.artifacts
    if asked.sees_all and query.session is None:
        after = None if place is None else (place[0], place[1], place[2])
        found = await artifacts.everywhere(limit=query.limit + 1, after=after)
    else:
        heads = await artifacts.list(_find_session(asked, query.session))
        heads.sort(key=lambda head: (head.changed_at, head.id), reverse=True)
        if place is not None:
            heads = [head for head in heads if (head.changed_at, head.id) < (place[0], place[2])]
        found = heads
    shown = found[: query.limit]
    last = shown[-1] if len(found) > len(shown) else None
    more = None if last is None else make_cursor(float(last.changed_at), last.session, last.id)
    heads_told = [ArtifactHead.model_validate(asdict(head)) for head in shown]
    return ArtifactPage(artifacts=heads_told, next_cursor=more)


@operation("GET", "/artifacts/{id}", ArtifactText, query=ArtifactQuery)
async def get_artifact(asked: Asked) -> ArtifactText:
    """Read one version of an artifact, the current one if none is named."""
    found = await _read_version(asked)
    cuts: list[CutPart] = []
    content = cut_long("content", found.content, asked.query.whole, cuts)
    return ArtifactText.model_validate({**asdict(found), "content": content, "cut": cuts})


@operation("GET", "/artifact-files/{id}", None, query=FileQuery, media_type=OCTETS)
async def get_artifact_file(asked: Asked) -> Response:
    """Read one version of an artifact whole, as a download."""
    found = await _read_version(asked)
    content = found.content.encode("utf-8", "replace")
    return serve_file(
        content, f"artifact-{found.version}.{_SUFFIXES.get(found.content_type, 'txt')}"
    )


@operation("GET", "/artifact-versions/{id}", ArtifactHistory, query=OwnerQuery)
async def list_artifact_versions(asked: Asked) -> ArtifactHistory:
    """List the versions of an artifact, the oldest first."""
    session = _find_session(asked, asked.query.session)
    try:
        found = await asked.store.artifacts.versions(asked.part("id"), session)
    except ArtifactNotFound:
        raise _not_there() from None
    return ArtifactHistory(versions=[ArtifactVersion.model_validate(asdict(v)) for v in found])


@operation("GET", "/artifact-diffs/{id}", ArtifactDiff, query=DiffQuery)
async def compare_artifact_versions(asked: Asked) -> ArtifactDiff:
    """Compare two versions of an artifact."""
    query: DiffQuery = asked.query
    session = _find_session(asked, query.session)
    try:
        text = await asked.store.artifacts.diff(asked.part("id"), query.old, query.new, session)
    except ArtifactNotFound:
        raise _not_there() from None
    return ArtifactDiff(diff=text)


async def _read_version(asked: Asked) -> Artifact:
    query: FileQuery = asked.query
    session = _find_session(asked, query.session)
    try:
        return await asked.store.artifacts.read(asked.part("id"), query.version, session)
    except ArtifactNotFound:
        raise _not_there() from None


def _find_session(asked: Asked, session: str | None) -> str | None:
    """The session whose artifacts are meant; another's looks as if it had none."""
    if asked.sees_all:
        return session
    if session not in (None, asked.name):
        raise _not_there()
    return asked.name


def _not_there() -> Problem:
    return not_found("artifact or version", "GET /api/artifacts")
