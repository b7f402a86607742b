"""Put calls together from the pieces of a stream."""

from collections.abc import Hashable
from typing import Any

from wieldy.core.arguments.conversion import parse_json
from wieldy.core.call import Call

from .incoming_calls import Tools, find_name, make_call
from .stream_events import ArgumentsDelta, CallCompleted, CallStarted, Event
from .text_seam import TextSeam


class Growing:
    """A call that is still being sent."""

    __slots__ = ("call", "index", "name", "pieces", "provider_id", "seam", "sent", "told")

    def __init__(self, index: int, name: str, provider_id: str) -> None:
        self.index = index
        self.name = name
        self.provider_id = provider_id
        self.pieces: list[str] = []
        self.seam = TextSeam()
        self.told = False
        self.call: Call | None = None
        # Arguments that came piece by piece and not as text.
        self.sent: dict[str, Any] | None = None

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

    @property
    def made(self) -> list[Growing]:
        """What the calls that are whole were made of."""
        return [each for each in self._growing if each.call is not None]

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
        delta = "" if growing.call is not None else growing.seam.join(delta)
        if not delta:
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
        return [CallStarted(growing.index, find_name(self._tools, growing.name))]
