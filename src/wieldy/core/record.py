"""What a record of calls is asked to do; the store keeps one."""

from collections.abc import Awaitable
from typing import Protocol

from .call import Outcome
from .run import Handler, Run


class Keeper(Protocol):
    """The middleware of a record."""

    def once(self, run: Run, proceed: Handler) -> Awaitable[Outcome]:
        """Outermost: give the first outcome of a call that was made before."""

    async def start(self, run: Run, proceed: Handler) -> Outcome:
        """After every wait: make it durable that the function is about to be entered."""


class Recorder(Protocol):
    """Who is told how calls end, before anybody else is."""

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Make the outcome durable and give it, or the outcome that says why it is not."""

    def end_soon(self, run: Run, outcome: Outcome) -> None:
        """The same where nothing can be awaited."""

    def late(self, run: Run, outcome: Outcome) -> None:
        """Note how a function ended that its call had left behind. Called on any thread."""
