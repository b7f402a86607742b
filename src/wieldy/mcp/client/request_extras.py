"""Data that belongs to one request to a server, besides the protocol's own."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar

import mcp_types as types

# A function that takes a log message of the server.
Hear = Callable[[types.LoggingMessageNotificationParams], None]


class RequestExtras:
    """A running request: its headers, the receiver of its log messages, and whether it was sent.

    The transport records here that it has sent the request. A request that was never sent, or
    that the server rejected, certainly did not run.
    """

    __slots__ = ("headers", "hear", "sent", "status", "turned_away")

    def __init__(self, headers: Mapping[str, str] | None = None, hear: Hear | None = None) -> None:
        self.headers = headers or {}
        self.hear = hear
        self.sent = False
        self.status: int | None = None
        self.turned_away = False

    @property
    def surely_did_not_run(self) -> bool:
        """Whether the request certainly did not run, so that it can be sent again."""
        return self.turned_away or not self.sent


# The transports run in the sender's context, even if they use tasks of their own.
current_errand: ContextVar[RequestExtras | None] = ContextVar("wieldy_mcp_errand", default=None)
