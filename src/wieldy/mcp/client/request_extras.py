"""Data that belongs to one request to a server, besides the protocol's own."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import mcp_types as types

# A function that takes a log message of the server.
Hear = Callable[[types.LoggingMessageNotificationParams], None]


# A function that answers a request of the server, in MCP's JSON shape; None declines it.
AskClient = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | None]]


class AnswerLost(Exception):
    """The connection ended before the answer arrived, so the request may have run."""


class CallingClient(Protocol):
    """The client of a gateway whose call is running."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the client sent beside its call, for the server."""

    @property
    def log_level(self) -> str | None:
        """The least important messages that the client wants, if it has said so."""

    async def ask(self, server: str, request: dict[str, Any]) -> Mapping[str, Any] | None:
        """Ask the client what a server wants to know; None if it can't be asked or declines."""


class RequestExtras:
    """A running request: its headers, the receivers of the server's messages and questions.

    It also says whether the request was sent.

    The transport records here that it has sent the request. A request that was never sent, or
    that the server rejected, certainly did not run.
    """

    __slots__ = ("ask", "headers", "hear", "sent", "status", "turned_away")

    def __init__(
        self,
        headers: Mapping[str, str] | None = None,
        hear: Hear | None = None,
        ask: AskClient | None = None,
    ) -> None:
        self.headers = headers or {}
        self.hear = hear
        self.ask = ask
        self.sent = False
        self.status: int | None = None
        self.turned_away = False

    @property
    def surely_did_not_run(self) -> bool:
        """Whether the request certainly did not run, so that it can be sent again."""
        return self.turned_away or not self.sent


# The transports run in the sender's context, even if they use tasks of their own.
current_errand: ContextVar[RequestExtras | None] = ContextVar("wieldy_mcp_errand", default=None)
# The client whose call is running here, set by whoever serves it.
calling_client: ContextVar[CallingClient | None] = ContextVar("wieldy_mcp_client", default=None)
