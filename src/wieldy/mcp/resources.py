"""Artifacts as MCP resources, each client its own."""

import base64
import re
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, cast

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, ReadResourceRequestParams

from wieldy.core.errors import WieldyError

from .callers import caller_name
from .pages import page
from .results import complete

_ADDRESS = re.compile(r"artifact://(?P<id>[^@]+)(?:@(?P<version>\d+))?\Z")
Request = ServerRequestContext[Any, Any]


class Artifact(Protocol):
    """One version of something a tool has made."""

    @property
    def id(self) -> str:
        """Its id, the same for all versions."""

    @property
    def version(self) -> int:
        """Which version this is."""

    @property
    def title(self) -> str:
        """What it is called."""

    @property
    def content_type(self) -> str:
        """Its media type."""

    @property
    def content(self) -> str | bytes:
        """What it holds."""


class Artifacts(Protocol):
    """Where artifacts are kept, by session."""

    def list(self, session: str | None = None) -> Awaitable[Sequence[Artifact]]:
        """The artifacts of a session, their latest versions."""

    def read(
        self, id: str, version: int | None = None, session: str | None = None
    ) -> Awaitable[Artifact]:
        """One artifact of a session."""


def serve_artifacts(server: Server[Any], artifacts: Artifacts) -> None:
    """Let clients list and read artifacts: with tokens each its own, else those of nobody."""

    async def listed(ctx: Request, params: PaginatedRequestParams) -> dict[str, Any]:
        found = await artifacts.list(session=caller_name())
        shown, cursor = page(found, params.cursor, lambda artifact: artifact.id)
        return complete({"resources": [_described(each) for each in shown], **cursor})

    async def read(ctx: Request, params: ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        address = _ADDRESS.match(uri)
        if address is None:
            raise _missing(uri)
        version = address["version"]
        try:
            found = await artifacts.read(
                address["id"],
                version=None if version is None else int(version),
                session=caller_name(),
            )
        except (WieldyError, LookupError):
            raise _missing(uri) from None
        return complete({"contents": [_contents(uri, found)]})

    async def templates(ctx: Request, params: PaginatedRequestParams) -> dict[str, Any]:
        template = {
            "uriTemplate": "artifact://{id}@{version}",
            "name": "artifact",
            "description": "One version of an artifact that a tool has made.",
        }
        return complete({"resourceTemplates": [template]})

    server.add_request_handler("resources/list", PaginatedRequestParams, listed)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, templates)


def _described(artifact: Artifact) -> dict[str, Any]:
    return {
        "uri": f"artifact://{artifact.id}@{artifact.version}",
        "name": artifact.id,
        "title": artifact.title,
        "mimeType": artifact.content_type,
    }


def _contents(uri: str, artifact: Artifact) -> dict[str, Any]:
    facts = {"uri": uri, "mimeType": artifact.content_type}
    content = artifact.content
    if isinstance(content, bytes):
        return {**facts, "blob": base64.b64encode(content).decode("ascii")}
    return {**facts, "text": content}


def _missing(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, "There is no such resource.", {"uri": uri})


def artifacts_of(box: object) -> Artifacts | None:
    """The artifacts of a box that keeps some."""
    if not getattr(box, "recorded", False):
        return None
    return cast("Artifacts | None", getattr(box, "artifacts", None))
