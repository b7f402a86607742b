"""Send what a running call shows as progress notifications and log messages."""

from math import inf, nextafter
from typing import Any, get_args

from mcp.server.context import ServerRequestContext
from mcp_types import LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams

from wieldy.core.block import Block, Notice, Progress, Text
from wieldy.core.limits.bounded_result import MAX_RESULT

from .passing.calling_client import wanted_level

# From the least important to the most important.
_LEVELS: tuple[str, ...] = get_args(LoggingLevel)
_MAX_NAME = 200


class Teller:
    """Reports the progress of a call to its client, if the client asked for that.

    The protocol requires each value to be larger than the one before. Each piece of streamed
    text is the message of a notification whose value is one more. Notices are log messages
    for clients that have asked for some.
    """

    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._session = ctx.session
        self._request_id = ctx.request_id
        self._wanted = wanted_level(ctx)
        self._last = -inf
        self._counted = False
        # How many more characters are told on the way; the result has its own bound.
        self._left = MAX_RESULT

    async def tell(self, item: Block | Progress) -> None:
        """Pass on progress and text; other blocks are sent with the result."""
        if isinstance(item, Progress) and not isinstance(item, Notice):
            self._counted = True
            message = self._fit_text(item.message)
            await self._report_progress(float(item.done), item.total, message)
            return
        if isinstance(item, Notice) and self._wanted in _LEVELS:
            await self._log(item)
            return
        text = item.shown_text if isinstance(item, Notice) else getattr(item, "text", None)
        fitting = self._fit_text(text) if isinstance(item, Text | Notice) else None
        if fitting:
            # If the tool reports progress itself, pieces of text must not look like progress.
            step = self._last if self._counted else max(self._last, 0) + 1
            await self._report_progress(step, None, fitting)

    def _fit_text(self, text: str | None) -> str | None:
        """As much of a text as the client is still told; None if that is nothing."""
        fitting = (text or "")[: self._left] or None
        self._left -= len(fitting or "")
        return fitting

    async def _log(self, notice: Notice) -> None:
        level = notice.level if notice.level in _LEVELS else "info"
        if _LEVELS.index(level) < _LEVELS.index(str(self._wanted)):
            return
        said = self._fit_text(notice.message)
        if said is None:
            return
        params = LoggingMessageNotificationParams.model_validate(
            {"level": level, "data": said, "logger": (notice.logger or "")[:_MAX_NAME] or None}
        )
        # On the stream of this request, so that no other client hears it.
        await self._session.send_notification(
            LoggingMessageNotification(params=params), related_request_id=self._request_id
        )

    async def _report_progress(self, done: float, total: float | None, message: str | None) -> None:
        self._last = done if done > self._last else nextafter(self._last, inf)
        await self._session.report_progress(self._last, total, message)
