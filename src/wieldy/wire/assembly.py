"""Put calls together from the pieces of a stream, and tell what happens as events."""

from collections.abc import Hashable
from typing import Any, ClassVar

from wieldy.core.call import Call
from wieldy.core.conversion import parse_json

from .incoming import Tools, make_call


class Event:
    """Something that happened in a stream. `type` tells the kinds apart."""

    __slots__: tuple[str, ...] = ()
    type: ClassVar[str]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"


class TextDelta(Event):
    """More of the visible text."""

    __slots__ = ("text",)
    type = "text"

    def __init__(self, text: str) -> None:
        self.text = text


class CallStarted(Event):
    """The model began a call; `index` counts the calls of this stream."""

    __slots__ = ("index", "name")
    type = "call_started"

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name


class ArgumentsDelta(Event):
    """More of a call's arguments. `text` is all of them so far, put together when asked for."""

    __slots__ = ("_count", "_pieces", "delta", "index")
    type = "arguments"

    def __init__(self, index: int, delta: str, pieces: list[str]) -> None:
        self.index = index
        self.delta = delta
        self._pieces = pieces
        self._count = len(pieces)

    @property
    def text(self) -> str:
        """The arguments up to and with this piece."""
        return "".join(self._pieces[: self._count])

    def __repr__(self) -> str:
        return f"ArgumentsDelta(index={self.index}, delta={self.delta!r})"


class CallCompleted(Event):
    """A call is whole and can run."""

    __slots__ = ("call", "index")
    type = "call_completed"

    def __init__(self, index: int, call: Call) -> None:
        self.index = index
        self.call = call


class Finished(Event):
    """The model is done; `reason` is the provider's own word for why."""

    __slots__ = ("reason",)
    type = "finished"

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Growing:
    """A call that is still being sent."""

    __slots__ = ("call", "index", "name", "pieces", "provider_id", "told")

    def __init__(self, index: int, name: str, provider_id: str) -> None:
        self.index = index
        self.name = name
        self.provider_id = provider_id
        self.pieces: list[str] = []
        self.told = False
        self.call: Call | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing in the arguments so far: they are made, or an object."""
        if self.call is not None:
            return True
        if not (self.pieces and self.pieces[-1].rstrip().endswith("}")):
            return False
        try:
            return isinstance(parse_json("".join(self.pieces)), dict)
        except (ValueError, RecursionError):
            return False


class Assembly:
    """The calls of one stream. Keys are the provider's way to say which call is meant."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._growing: list[Growing] = []
        self._by_key: dict[Hashable, Growing] = {}

    @property
    def calls(self) -> list[Call]:
        """The calls that are whole, in the order they were begun."""
        return [each.call for each in self._growing if each.call is not None]

    def find(self, key: Hashable) -> Growing | None:
        """The call of a key, or, without a key, the one that was begun last."""
        if key is None:
            return self._growing[-1] if self._growing else None
        return self._by_key.get(key)

    def start(self, key: Hashable, name: str, provider_id: str = "") -> list[Event]:
        """Begin a call; from now on the key means this one."""
        growing = Growing(len(self._growing), name, provider_id)
        self._growing.append(growing)
        self._by_key[key] = growing
        return self._introduced(growing)

    def name(self, growing: Growing, name: str, provider_id: str = "") -> list[Event]:
        """Note a name or an id that came late."""
        growing.name = growing.name or name
        growing.provider_id = growing.provider_id or provider_id
        return self._introduced(growing)

    def grow(self, growing: Growing, delta: str) -> list[Event]:
        """Add a piece of arguments."""
        if not delta or growing.call is not None:
            return []
        growing.pieces.append(delta)
        return [ArgumentsDelta(growing.index, delta, growing.pieces)]

    def complete(self, growing: Growing, whole: Any = None) -> list[Event]:
        """Make the call, of its pieces or of arguments that came whole."""
        if growing.call is not None:
            return []
        events = self._introduced(growing, final=True)
        if isinstance(whole, str) and whole and not growing.pieces:
            events += self.grow(growing, whole)
        arguments = "".join(growing.pieces) if growing.pieces or whole is None else whole
        growing.call = make_call(self._tools, growing.name, arguments, growing.provider_id)
        return [*events, CallCompleted(growing.index, growing.call)]

    def finish(self) -> list[Event]:
        """Complete every call that is still open."""
        return [event for growing in self._growing for event in self.complete(growing)]

    def _introduced(self, growing: Growing, final: bool = False) -> list[Event]:
        if growing.told or not (growing.name or final):
            return []
        growing.told = True
        return [CallStarted(growing.index, growing.name)]
