"""A loop that notes every pause and makes none, to look at pauses without waiting."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")


class Impatient(asyncio.SelectorEventLoop):
    """Whoever asks to be called later is called at once."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.pauses.append(delay)
        return super().call_later(0, callback, *args, context=context)


def pauses_of(main: Coroutine[Any, Any, Any]) -> list[float]:
    """The pauses that a coroutine would have made."""
    with asyncio.Runner(loop_factory=Impatient) as runner:
        runner.run(main)
        loop = runner.get_loop()
        assert isinstance(loop, Impatient)
        return loop.pauses
