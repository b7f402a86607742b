"""Serve artifacts as MCP resources, to each client its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from wieldy.core.errors import StoreError
from wieldy.wire.answer_content import make_encodable

from .call_results import complete_result
from .callers import caller_name
from .pages import page_after

if TYPE_CHECKING:
    from wieldy.store.artifacts.artifact import Head
    from wieldy.store.artifacts.artifacts import Artifacts

_SCHEME = "artifact://"
Request = ServerRequestContext[Any, Any]


def serve_artifacts(server: Server[Any], artifacts: "Artifacts") -> None:
    """Let clients list and read artifacts: their own with tokens, those of nobody without."""

    async def listed(ctx: Request, params: PaginatedRequestParams) -> dict[str, Any]:
        with _store_errors():
            found = await artifacts.list(session=caller_name())
        shown, cursor = page_after(found, params.cursor, lambda artifact: artifact.id)
        return complete_result(
            {"resources": [_describe_artifact(each) for each in shown], **cursor}
        )

    async def read(ctx: Request, params: ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        if not uri.startswith(_SCHEME):
            raise _missing_error(uri)
        try:
            with _store_errors():
                found = await artifacts.open(uri, session=caller_name())
        except (LookupError, ValueError):
            # A client must not learn that another client has an artifact of this name.
            raise _missing_error(uri) from None
        contents = {"uri": uri, "mimeType": _media_type(found.content_type), "text": found.content}
        return complete_result({"contents": [make_encodable(contents)]})

    async def templates(ctx: Request, params: PaginatedRequestParams) -> dict[str, Any]:
        template = {
            "uriTemplate": "artifact://{id}@{version}",
            "name": "artifact",
            "description": "One version of an artifact that a tool has made.",
        }
        return complete_result({"resourceTemplates": [template]})

    server.add_request_handler("resources/list", PaginatedRequestParams, listed)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, templates)


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
    """Turn errors of the store into an internal error, which hides their messages from clients."""
    try:
        yield
    except StoreError as error:
        raise MCPError(INTERNAL_ERROR, "The store can't be read now. Try again later.") from error


def _missing_error(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, "There is no such resource.", {"uri": uri})


def artifacts_of(box: object) -> "Artifacts | None":
    """The artifacts of a box, if it has a store for them."""
    if not getattr(box, "recorded", False):
        return None
    return cast("Artifacts | None", getattr(box, "artifacts", None))
