"""The state of a call that a toolkit has passed to the engine."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tool import BaseTool, ToolResult

_log = logging.getLogger("wieldy")
Callback = Callable[[str, dict[str, Any]], Any]


class SentCall:
    """A running call: its listeners, and the result that the tool returned.

    `own` is the toolkit's tool object. This object runs, even if another toolkit has put an
    object with the same name into the toolbox in the meantime.
    """

    # Class attributes as defaults, because an instance is made for every call.
    started = False
    # Calls that the tool makes while it runs don't belong to this call.
    running = False
    result: "ToolResult | None" = None

    def __init__(
        self,
        tool: str,
        own: "BaseTool | None",
        callbacks: list[Callback],
        params: Mapping[str, Any],
        granted: bool,
    ) -> None:
        self.tool = tool
        self.own = own
        self.callbacks = callbacks
        self._params = params
        self._granted = granted

    async def start(self) -> None:
        """Report once that the tool runs now, and that it was approved if it had to be."""
        if self.started:
            return
        self.started = True
        if self._granted:
            await self.tell("permission_result", {"approved": True})
        params = dict(self._params) if isinstance(self._params, Mapping) else {}
        await self.tell("tool_start", {"params": params})

    async def tell(self, event: str, data: dict[str, Any]) -> None:
        """Tell everybody who listens."""
        for callback in tuple(self.callbacks):
            try:
                heard = callback(event, data)
                if inspect.isawaitable(heard):
                    await heard
            except Exception:
                # A listener is the user's code and must not stop a tool.
                _log.exception("A listener failed on %s of %s", event, self.tool)
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                _log.exception("A listener failed on %s of %s", event, self.tool)


def _is_cancelled() -> bool:
    """Whether the running task has been cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


current_errand: ContextVar[SentCall | None] = ContextVar("wieldy_artifactflow", default=None)
