"""Resources for clients: artifacts, each client its own, and those of the servers behind."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from wieldy.core.errors import StoreError
from wieldy.core.limits.model_results import KeptText, ModelResults
from wieldy.wire.answer_content import make_encodable

from .call_results import complete_result
from .callers import caller_name
from .pages import page_after
from .passing.passed_requests import PassedRequests, show_definition

if TYPE_CHECKING:
    from wieldy.store.artifacts.artifact import Head
    from wieldy.store.artifacts.artifacts import Artifacts

_SCHEME = "artifact://"
# A text that is larger than one answer is read in parts, each from one of its characters on.
_FROM, _POSITION = "?from=", re.compile(r"[1-9][0-9]{0,14}", re.ASCII)
_TEMPLATE = {
    "uriTemplate": "artifact://{id}@{version}",
    "name": "artifact",
    "description": "One version of an artifact that a tool has made.",
}
Request = ServerRequestContext[Any, Any]


class ServedResources:
    """Lists and reads resources. With tokens each client sees its own artifacts, else nobody's."""

    def __init__(
        self, results: ModelResults, artifacts: "Artifacts | None", passed: PassedRequests
    ) -> None:
        self._results = results
        self._artifacts = artifacts
        self._passed = passed

    async def list(self, ctx: Request, params: PaginatedRequestParams) -> dict[str, Any]:
        """The artifacts, and after them the resources of the servers behind."""
        found: list[dict[str, Any]] = []
        if self._artifacts is not None:
            with _store_errors():
                found += map(_describe_artifact, await self._artifacts.list(session=caller_name()))
        behind = (await self._passed.catalogues.current("resources")).resources
        found += map(show_definition, behind.values())
        shown, cursor = page_after(found, params.cursor, lambda each: each["uri"])
        return complete_result({"resources": shown, **cursor})

    async def read(self, ctx: Request, params: ReadResourceRequestParams) -> dict[str, Any]:
        """The content of one resource."""
        uri = str(params.uri)
        if uri.startswith(_SCHEME):
            return await self._read_artifact(uri)
        found = await self._passed.read_resource(uri)
        if found is None:
            raise _missing_error(uri)
        return found

    async def list_templates(self, ctx: Request, params: PaginatedRequestParams) -> dict[str, Any]:
        """The templates of URIs that can be read."""
        found: list[dict[str, Any]] = [] if self._artifacts is None else [_TEMPLATE]
        behind = (await self._passed.catalogues.current("templates")).templates
        found += map(show_definition, behind.values())
        shown, cursor = page_after(found, params.cursor, lambda each: each["uriTemplate"])
        return complete_result({"resourceTemplates": shown, **cursor})

    async def _read_artifact(self, uri: str) -> dict[str, Any]:
        handle, _, asked = uri.partition(_FROM)
        start = int(asked) if _POSITION.fullmatch(asked) else 1
        try:
            with _store_errors():
                found = await self._results.open(handle, caller_name())
        except (LookupError, ValueError):
            # A client must not learn that another client has an artifact of this name.
            raise _missing_error(uri) from None
        return complete_result(
            {"contents": make_encodable(_show_part(found, uri, start, self._most))}
        )

    @property
    def _most(self) -> int:
        """The number of characters that one answer has."""
        return self._results.max_result or sys.maxsize


def _show_part(found: KeptText, uri: str, start: int, most: int) -> list[dict[str, Any]]:
    """A part of a text that begins at a character, and after it where the next part is."""
    whole, end = found.content, start - 1 + most
    kind = _media_type(getattr(found, "content_type", "text"))
    shown = [{"uri": uri, "mimeType": kind, "text": whole[start - 1 : end]}]
    if end >= len(whole):
        return shown
    following = f"{found.handle}{_FROM}{end + 1}"
    said = f"[characters {start:,}-{end:,} of {len(whole):,}; the next are at {following}]"
    return [*shown, {"uri": following, "mimeType": "text/plain", "text": said}]


def _describe_artifact(artifact: "Head") -> dict[str, Any]:
    facts = {
        "uri": artifact.handle,
        "name": artifact.id,
        "mimeType": _media_type(artifact.content_type),
    }
    named = {**facts, "title": artifact.title} if artifact.title else facts
    return cast("dict[str, Any]", make_encodable(named))


def _media_type(content_type: str) -> str:
    """The media type of a kind of text, such as `markdown`."""
    kind = "plain" if content_type == "text" else content_type
    return kind if "/" in kind else f"text/{kind}"


@contextmanager
def _store_errors() -> Iterator[None]:
    """A store that can't be read is not the client's fault, and its words are not for clients."""
    try:
        yield
    except StoreError as error:
        raise MCPError(INTERNAL_ERROR, "The store can't be read now. Try again later.") from error


def _missing_error(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, "There is no such resource.", {"uri": uri})


def artifacts_of(box: object) -> "Artifacts | None":
    """The artifacts of a box that keeps some."""
    if not getattr(box, "recorded", False):
        return None
    return cast("Artifacts | None", getattr(box, "artifacts", None))
