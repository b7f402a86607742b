"""Send what a running call shows as progress notifications."""

from math import inf, nextafter

from mcp.server.session import ServerSession

from wieldy.core.block import Block, Notice, Progress, Text


class Teller:
    """Reports the progress of a call to its client, if the client asked for that.

    The protocol requires each value to be larger than the one before. Each piece of streamed
    text is the message of a notification whose value is one more.
    """

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._last = -inf
        self._counted = False

    async def tell(self, item: Block | Progress) -> None:
        """Pass on progress and text; other blocks are sent with the result."""
        if isinstance(item, Progress) and not isinstance(item, Notice):
            self._counted = True
            await self._report_progress(float(item.done), item.total, item.message)
            return
        text = item.shown_text if isinstance(item, Notice) else getattr(item, "text", None)
        if isinstance(item, Text | Notice) and text:
            # If the tool reports progress itself, pieces of text must not look like progress.
            step = self._last if self._counted else max(self._last, 0) + 1
            await self._report_progress(step, None, text)

    async def _report_progress(self, done: float, total: float | None, message: str | None) -> None:
        self._last = done if done > self._last else nextafter(self._last, inf)
        await self._session.report_progress(self._last, total, message)
