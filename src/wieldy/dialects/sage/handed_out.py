"""Generators that go to whoever called through a registry, as they are.

The engine runs a generator to its end, and a caller of the toolbox gets what it gave.
SAGE's users get the generator and run it themselves.
"""

from contextvars import ContextVar, Token
from types import GeneratorType
from typing import Any

from wieldy.core.block import FINAL
from wieldy.core.run import Run, current_run

# The call around the one that a registry makes, where one makes any.
_caller: ContextVar[Run | None] = ContextVar("wieldy_sage_caller")


class _HandedOut:
    """A generator that the engine leaves alone."""

    __slots__ = ("generator",)

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __repr__(self) -> str:
        return repr(self.generator)


def expect_generator() -> "Token[Run | None]":
    """Let the call that is made next give its generator away, until the token is given back."""
    return _caller.set(call_around())


def forget_generator(token: "Token[Run | None]") -> None:
    """End what `expect_generator` began."""
    _caller.reset(token)


def put_in(value: Any) -> Any:
    """What a tool gave, on its way through the engine."""
    if type(value) in FINAL or not _is_generator(value):
        return value
    run = current_run.get()
    # A call that the tool itself makes at the toolbox is not the registry's.
    if run is None or _caller.get(run) is not run.parent:
        return value
    return _HandedOut(value)


def _is_generator(value: Any) -> bool:
    return isinstance(value, GeneratorType) or hasattr(value, "__anext__")


def taken_out(value: Any) -> Any:
    """The same for the registry's caller."""
    return value.generator if type(value) is _HandedOut else value


def call_around() -> Run | None:
    """The call that this code runs in, if it has not ended."""
    run = current_run.get()
    while run is not None and run.stopped:
        run = run.parent
    return run
