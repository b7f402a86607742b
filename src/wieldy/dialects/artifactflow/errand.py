"""What a toolkit knows of a call that it has sent into the engine."""

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tool import ToolResult

Callback = Callable[[str, dict[str, Any]], Any]


class Errand:
    """One call under way: who hears of it, and the result as the tool gave it."""

    def __init__(self, callbacks: list[Callback], params: dict[str, Any], granted: bool) -> None:
        self._callbacks = callbacks
        self._params = params
        self._granted = granted
        self.started = False
        self.result: ToolResult | None = None

    async def start(self) -> None:
        """Say that the tool runs now, and that somebody had allowed it."""
        self.started = True
        if not self.heard:
            return
        if self._granted:
            await self.tell("permission_result", {"approved": True})
        await self.tell("tool_start", {"params": self._params})

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._callbacks)

    async def tell(self, event: str, data: dict[str, Any]) -> None:
        """Tell everybody who listens."""
        for callback in tuple(self._callbacks):
            heard = callback(event, data)
            if inspect.isawaitable(heard):
                await heard


current_errand: ContextVar[Errand | None] = ContextVar("wieldy_artifactflow", default=None)
