"""The parts of a toolbox, or of a view, that a server uses."""

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from typing import Any, Protocol

from wieldy.core.active_call import Sink
from wieldy.core.block import Block, Progress
from wieldy.core.call import Call, Outcome, Scope
from wieldy.core.limits.model_results import ModelResults
from wieldy.core.permission.parked import Parked
from wieldy.core.tool import Tool


class Offer(Protocol):
    """The tools that one client may see and call: a toolbox, or a view of it."""

    async def callable_tools(
        self, scope: Scope, *, listing: str | None = None, loaded_only: bool = True
    ) -> list[Tool]:
        """The visible tools that a caller with this scope could call, in order.

        Where there are search tools, they are those that the listing has loaded.
        """

    def get(self, name: str) -> Tool | None:
        """The visible tool of this name, or None."""

    async def call_telling(
        self,
        call: Call,
        tell: Callable[[Block | Progress], Awaitable[None]],
        *,
        check_output: bool = False,
    ) -> tuple[Outcome, Tool | None]:
        """Run one call, pass the items that it shows to a listener, and return the tool too."""


class WatchedTools(Protocol):
    """Tools that report their changes."""

    def watch(self, told: Callable[[str | None], None]) -> Callable[[], None]:
        """Report each change to a function; call the returned function to stop that."""

    def watch_lists(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Report each list that changes; call the returned function to stop that."""

    async def rules_in_force(self) -> Hashable:
        """A value that changes whenever other rules are in force; stored rules are read again."""

    @property
    def recorded(self) -> bool:
        """Whether there is a store, in which other processes may change rules."""


class ServedBox(Offer, WatchedTools, Protocol):
    """A toolbox, or a view, as it is served."""

    @property
    def results(self) -> ModelResults:
        """What clients read of outcomes."""


class Decider(Protocol):
    """Accepts the decisions and answers of people."""

    async def approve(
        self, call_id: str, by: str | None = None, *, check_output: bool = False
    ) -> Outcome:
        """Let a parked call run, and return its outcome."""

    async def deny(self, call_id: str, by: str | None = None, reason: str | None = None) -> Outcome:
        """Refuse a parked call."""

    async def answer(
        self,
        call_id: str,
        answers: Mapping[str, Any],
        by: str | None = None,
        *,
        check_output: bool = False,
    ) -> Outcome:
        """Run a call again whose tool asked for input."""

    def wait(self, call_id: str, /) -> Coroutine[Any, Any, Outcome]:
        """Wait for the end of a parked call, wherever it is decided."""

    async def outcome(self, call_id: str) -> Outcome:
        """The current outcome of a call."""

    async def pending(self, *, below: str | None = None) -> list[Parked]:
        """The calls that wait, or those that one call waits for."""

    async def go_on(self, call_id: str, *, sink: Sink | None = None) -> Outcome:
        """Continue a call whose own calls have ended; returns its outcome or receipt."""
