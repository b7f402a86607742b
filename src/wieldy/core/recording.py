"""The interface of a record of calls, which the store implements."""

from collections.abc import Awaitable
from typing import Protocol

from .call import Outcome
from .permission.modes import ModeChange
from .run import Handler, Objection, Run


class RecordLayers(Protocol):
    """The layers around a recorded call."""

    def once(self, proceed: Handler) -> Handler:
        """The outermost layer: return the first outcome of a call that was made before."""

    def start(self, proceed: Handler, objects: Objection) -> Handler:
        """The innermost layer: record durably that the function is about to be entered.

        `objects` returns the reason if a rule or mode made meanwhile forbids a call for which the
        record had to wait.
        """


class Recorder(Protocol):
    """Records how calls end, before anybody else is told."""

    def end(self, run: Run, outcome: Outcome) -> Awaitable[Outcome]:
        """Record the outcome durably and return it, or an outcome that says why that failed."""

    async def note_mode(self, change: ModeChange) -> None:
        """Make it durable that a permission mode was changed."""

    def end_soon(self, run: Run, outcome: Outcome) -> None:
        """Record the outcome without awaiting anything."""

    def late(self, run: Run, outcome: Outcome) -> None:
        """Record how an abandoned function ended. Called on any thread."""
