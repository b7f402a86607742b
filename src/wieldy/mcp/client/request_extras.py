"""What travels with one request to a server, beside the protocol's own."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar

import mcp_types as types

# Takes a message of the server's log.
Hear = Callable[[types.LoggingMessageNotificationParams], None]


class RequestExtras:
    """One request under way: its own headers, who hears messages about it, and its fate.

    Whoever puts the request on the wire says so here. A request that was never sent,
    or that the server turned away at the door, surely did not run.
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
        """Whether sending it again can't run it twice."""
        return self.turned_away or not self.sent


# The transports work in the context of whoever sends, also where they use tasks of their own.
current_errand: ContextVar[RequestExtras | None] = ContextVar("wieldy_mcp_errand", default=None)
