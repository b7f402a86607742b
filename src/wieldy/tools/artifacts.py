"""Tools with which a model reads large results and writes documents."""

import asyncio
from typing import Annotated, Any, Literal

from pydantic import Field

from wieldy.core.context import Context
from wieldy.core.limits.handles import parse_handle
from wieldy.core.limits.model_results import READING_TOOL, KeptText
from wieldy.core.tool import Tool
from wieldy.store.artifacts.artifact import ArtifactEdit
from wieldy.toolbox import Toolbox

from .grep import grep_lines

_MAX_CHARACTERS = 20_000
_MAX_LISTED = 200
_MAX_MATCHED = 2_000
_Count = Annotated[int, Field(ge=1, le=100_000)]


def add_artifact_tools(box: Toolbox, write: bool = False) -> list[Tool]:
    """Add tools that read, and optionally change, the artifacts of the caller's session.

    An artifact is named by its handle `artifact://id@version`, or by its id, which means the
    current version. Without a store, large results that are kept in memory can be read.

    Args:
        box: the toolbox, which needs a store for `write`.
        write: add the tools that list, create and change artifacts too.

    Returns:
        The tools that were added.

    Raises:
        StoreError: the box has no store, and the tools are to write.

    Example:
        `add_artifact_tools(box, write=True)`
    """
    if write:
        # This raises now, rather than in a later call, if there is no store.
        _ = box.artifacts
    tools = _ArtifactTools(box)
    # What these show is cut by themselves, and the rest must not be kept once more.
    added = [
        box.add(tools.read, READING_TOOL, read_only=True, max_result=0),
        box.add(tools.head, "artifact_head", read_only=True, max_result=0),
        box.add(tools.tail, "artifact_tail", read_only=True, max_result=0),
        box.add(tools.grep, "artifact_grep", read_only=True, max_result=0),
    ]
    if write:
        added += [
            box.add(tools.list, "artifact_list", read_only=True),
            box.add(tools.create, "artifact_create"),
            box.add(tools.update, "artifact_update"),
            box.add(tools.rewrite, "artifact_rewrite"),
        ]
    return added


class _ArtifactTools:
    def __init__(self, box: Toolbox) -> None:
        self._box = box

    async def read(
        self,
        artifact: str,
        context: Context,
        start: Annotated[int, Field(ge=1)] = 1,
        count: _Count | None = None,
        unit: Literal["lines", "characters"] = "lines",
    ) -> str:
        """Read a part of an artifact.

        Args:
            artifact: its handle artifact://id@version, or its id
            start: the first line or character to read, counted from 1
            count: how many, 200 lines or 20,000 characters if not given
            unit: what start and count are counted in
        """
        found = await self._open(artifact, context)
        if unit == "characters":
            return _cut_excerpt(found, start - 1, start - 1 + (count or _MAX_CHARACTERS))
        first, last = _line_range(found.content, start - 1, start - 1 + (count or 200))
        return _cut_excerpt(found, first, last)

    async def head(self, artifact: str, context: Context, lines: _Count = 50) -> str:
        """Read the first lines of an artifact.

        Args:
            artifact: its handle artifact://id@version, or its id
            lines: how many
        """
        found = await self._open(artifact, context)
        return _cut_excerpt(found, *_line_range(found.content, 0, lines))

    async def tail(self, artifact: str, context: Context, lines: _Count = 50) -> str:
        """Read the last lines of an artifact.

        Args:
            artifact: its handle artifact://id@version, or its id
            lines: how many
        """
        found = await self._open(artifact, context)
        total = _count_lines(found.content)
        start, end = _line_range(found.content, max(0, total - lines), total)
        return _cut_excerpt(found, max(start, end - _MAX_CHARACTERS), end)

    async def grep(
        self,
        artifact: str,
        pattern: str,
        context: Context,
        ignore_case: bool = False,
        around: Annotated[int, Field(ge=0, le=20)] = 0,
        most: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> str:
        """Find the lines of an artifact that match a regular expression.

        Args:
            artifact: its handle artifact://id@version, or its id
            pattern: a regular expression without look-around and back-references
            ignore_case: whether large and small letters are the same
            around: how many lines to show before and after each match
            most: how many matches to show
        """
        found = await self._open(artifact, context)
        shown = await asyncio.to_thread(
            grep_lines, found.content, pattern, ignore_case, around, most
        )
        if len(shown) > _MAX_CHARACTERS:
            counts = shown[shown.rindex("[") :]
            shown = f"{shown[:_MAX_CHARACTERS]}…\n[cut: ask for fewer matches]\n{counts}"
        return f"{shown}\n[{found.handle}]"

    async def list(self, context: Context) -> dict[str, Any]:
        """List the artifacts of this session, the newest last."""
        heads = await self._box.artifacts.list(context.scope.session)
        shown = [
            {"handle": head.handle, "title": head.title, "content_type": head.content_type}
            for head in heads[-_MAX_LISTED:]
        ]
        return {"artifacts": shown, "total": len(heads)}

    async def create(
        self,
        id: str,
        content: str,
        context: Context,
        title: str | None = None,
        content_type: str = "markdown",
    ) -> dict[str, Any]:
        """Keep a new document.

        Args:
            id: a short name for it, new in this session
            content: the whole text
            title: what people see
            content_type: what the text is, such as markdown, python or json
        """
        session, by = context.scope.session, context.call_id
        made = await self._box.artifacts.create(id, content, title, content_type, session, by=by)
        return _edit_receipt(made)

    async def update(
        self, artifact: str, old_str: str, new_str: str, context: Context
    ) -> dict[str, Any]:
        """Replace one passage of a document. Small differences to what stands there are allowed.

        Args:
            artifact: its id, or the handle of the version that the change is made for
            old_str: the passage to replace, long enough to stand there only once
            new_str: what replaces it
        """
        id, seen = parse_handle(artifact)
        session, by = context.scope.session, context.call_id
        # The answer tells what stood there, and so does an error.
        await self._open(id, context)
        made = await self._box.artifacts.update(id, old_str, new_str, session, seen, by=by)
        return _edit_receipt(made)

    async def rewrite(self, artifact: str, content: str, context: Context) -> dict[str, Any]:
        """Replace the whole text of a document.

        Args:
            artifact: its id, or the handle of the version that the change is made for
            content: the whole new text
        """
        id, seen = parse_handle(artifact)
        session, by = context.scope.session, context.call_id
        made = await self._box.artifacts.rewrite(id, content, session, seen, by=by)
        return _edit_receipt(made)

    async def _open(self, reference: str, context: Context) -> KeptText:
        found = await self._box.results.open(reference, context.scope.session)
        if found.untrusted:
            context.mark_untrusted()
        return found


def _edit_receipt(made: ArtifactEdit) -> dict[str, Any]:
    receipt: dict[str, Any] = {"handle": made.handle, "kind": made.kind}
    if made.kind == "update_fuzzy" and made.matched is not None:
        rest = len(made.matched) - _MAX_MATCHED
        cut = f"… ({rest:,} more characters)" if rest > 0 else ""
        receipt["similarity"] = round(made.similarity, 4)
        receipt["matched"] = made.matched[:_MAX_MATCHED] + cut
    return receipt


def _cut_excerpt(artifact: KeptText, start: int, end: int) -> str:
    """A part of the text within the limit, followed by a line that says which part it is."""
    content = artifact.content
    start = min(start, len(content))
    end = min(end, len(content), start + _MAX_CHARACTERS)
    shown = content[start:end]
    first = content.count("\n", 0, start) + 1
    last = content.count("\n", 0, max(start, end - 1)) + 1
    part = (
        f"lines {first:,}-{last:,} of {_count_lines(content):,}, "
        f"characters {start + 1:,}-{end:,} of {len(content):,}"
        if shown
        else f"nothing: there are {_count_lines(content):,} lines, {len(content):,} characters"
    )
    gap = "" if shown.endswith("\n") or not shown else "\n"
    return f"{shown}{gap}[{part}, {artifact.handle}]"


def _count_lines(content: str) -> int:
    return content.count("\n") + (0 if content.endswith("\n") or not content else 1)


def _line_range(content: str, first: int, last: int) -> tuple[int, int]:
    """The positions in characters where these lines start and end."""
    start = _line_start(content, 0, first)
    return start, _line_start(content, start, last - first)


def _line_start(content: str, at: int, lines: int) -> int:
    """The start of the line that is this many lines further on."""
    for _ in range(lines):
        found = content.find("\n", at)
        if found < 0:
            return len(content)
        at = found + 1
    return at
