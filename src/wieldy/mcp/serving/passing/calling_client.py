"""The client whose call runs, as the servers behind reach it."""

from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    LOG_LEVEL_META_KEY,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
)
from pydantic import BaseModel, ValidationError

from wieldy.mcp.serving.questions import introduce_request, missing_capabilities

from .passed_meta import foreign_meta

Request = ServerRequestContext[Any, Any]
LOG_LEVEL = "wieldy_log_level"
_SENT: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "elicitation/create": (ElicitRequest, ElicitResult),
    "sampling/createMessage": (CreateMessageRequest, CreateMessageResult),
}


class ServedClient:
    """One client while its call runs.

    Only clients of the older protocol can be asked in the middle of a call; a server of the
    newer protocol asks by its result instead.
    """

    def __init__(self, ctx: Request, patience: float) -> None:
        self._ctx = ctx
        self._patience = patience
        self.meta: Mapping[str, Any] = foreign_meta(ctx.meta)
        self.log_level = wanted_level(ctx)

    async def ask(self, server: str, request: dict[str, Any]) -> Mapping[str, Any] | None:
        """Ask the client what a server wants to know; None if it can't be asked or declines."""
        session, method = self._ctx.session, str(request.get("method"))
        sent, received = _SENT[method]
        asked = introduce_request(request, server)
        if missing_capabilities({method: asked}, session.client_capabilities):
            return None
        if not session.can_send_request:
            return None
        try:
            answer = await session.send_request(
                sent.model_validate(asked),  # type: ignore[arg-type]
                received,
                request_read_timeout_seconds=self._patience,
                metadata=ServerMessageMetadata(related_request_id=self._ctx.request_id),
            )
        except (MCPError, ValidationError):
            # The client refused, went away, or answered something else.
            return None
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def wanted_level(ctx: Request) -> str | None:
    """The least important log messages that a client wants; None if it has not said so."""
    asked = (ctx.meta or {}).get(LOG_LEVEL_META_KEY)
    if isinstance(asked, str):
        return asked
    # The SDK has no public way from a session to its connection.
    level = ctx.session._connection.state.get(LOG_LEVEL)
    return level if isinstance(level, str) else None
