"""Return generators unchanged to callers of a registry.

The engine runs a generator to its end and returns the yielded values. SAGE's registry returns
the generator itself, and its caller runs it.
"""

from contextvars import ContextVar, Token
from types import GeneratorType
from typing import Any

from wieldy.core.active_call import ActiveCall, current_call
from wieldy.core.block import FINAL

# The call around the one that a registry makes, where one makes any.
_caller: ContextVar[ActiveCall | None] = ContextVar("wieldy_sage_caller")


class _HandedOut:
    """A wrapper that hides a generator from the engine."""

    __slots__ = ("generator",)

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __repr__(self) -> str:
        return repr(self.generator)


def expect_generator() -> "Token[ActiveCall | None]":
    """Let the next call return its generator, until the token is passed to `forget_generator`."""
    return _caller.set(call_around())


def forget_generator(token: "Token[ActiveCall | None]") -> None:
    """End what `expect_generator` began."""
    _caller.reset(token)


def put_in(value: Any) -> Any:
    """A tool's return value, wrapped for the engine if it is a generator."""
    if type(value) in FINAL or not _is_generator(value):
        return value
    active = current_call.get()
    # A call that the tool itself makes through the toolbox does not come from the registry.
    if active is None or _caller.get(active) is not active.parent:
        return value
    return _HandedOut(value)


def _is_generator(value: Any) -> bool:
    return isinstance(value, GeneratorType) or hasattr(value, "__anext__")


def taken_out(value: Any) -> Any:
    """The value for the registry's caller, without the wrapper."""
    return value.generator if type(value) is _HandedOut else value


def call_around() -> ActiveCall | None:
    """The call that this code runs in, if it has not ended."""
    active = current_call.get()
    while active is not None and active.stopped:
        active = active.parent
    return active
