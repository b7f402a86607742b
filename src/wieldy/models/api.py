"""The differences between providers' APIs: how a request is written, sent and read."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from wieldy.core.call import Call
from wieldy.wire.incoming_calls import Tools
from wieldy.wire.stream_events import Event, Usage

from .connections import Connect
from .model import ModelRequest


class Reader(Protocol):
    """Reads the chunks of one streamed answer: the `StreamReader` of a wire module."""

    usage: Usage | None

    @property
    def calls(self) -> list[Call]:
        """The calls that are whole."""

    @property
    def message(self) -> Any:
        """The model's message as it was sent."""

    def feed(self, chunk: Any, /) -> list[Event]:
        """The parts of an answer that one chunk holds."""

    def close(self) -> list[Event]:
        """Complete what is still open."""


@dataclass(frozen=True, slots=True)
class Api:
    """One provider's API.

    `address` is the provider's own. `sdk` is the module it needs, which the extra `extra`
    installs. `write` gives the body of a request; it is told whether the request goes to the
    provider itself. `send` gives the chunks of the answer, as plain data. `check` raises what
    a chunk says went wrong.
    """

    name: str
    address: str
    sdk: str
    extra: str
    key_variables: tuple[str, ...]
    address_variables: tuple[str, ...]
    write: Callable[[str, ModelRequest, bool], dict[str, Any]]
    connect: Connect
    send: Callable[[Any, str, dict[str, Any]], Awaitable[AsyncIterator[Any]]]
    reader: Callable[[Tools], Reader]
    check: Callable[[Any], None] = lambda chunk: None
