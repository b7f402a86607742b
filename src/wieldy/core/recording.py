"""What a record of calls is asked to do; the store keeps one."""

from typing import Protocol

from .call import Outcome
from .run import Handler, Run


class Keeper(Protocol):
    """The layers of a record."""

    def once(self, proceed: Handler) -> Handler:
        """Outermost: give the first outcome of a call that was made before."""

    def start(self, proceed: Handler) -> Handler:
        """After every wait: make it durable that the function is about to be entered."""


class Recorder(Protocol):
    """Who is told how calls end, before anybody else is."""

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        """Make the outcome durable and give it, or the outcome that says why it is not."""

    def end_soon(self, run: Run, outcome: Outcome) -> None:
        """The same where nothing can be awaited."""

    def late(self, run: Run, outcome: Outcome) -> None:
        """Note how a function ended that its call had left behind. Called on any thread."""
