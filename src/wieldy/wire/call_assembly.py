"""Assemble calls from the pieces of a stream."""

from collections.abc import Hashable
from typing import Any

from wieldy.core.bounded_json import parse_json
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
        # Arguments that were sent in pieces by path, not as text.
        self.sent: dict[str, Any] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are complete: the call exists, or the text is an object."""
        if self.call is not None:
            return True
        if not (self.pieces and self.pieces[-1].rstrip().endswith("}")):
            return False
        try:
            return isinstance(parse_json("".join(self.pieces)), dict)
        except ValueError:
            return False


class Assembly:
    """The calls of one stream. A key is the provider's way to identify a call."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._growing: list[Growing] = []
        self._by_key: dict[Hashable, Growing] = {}

    @property
    def calls(self) -> list[Call]:
        """The complete calls, in the order in which they started."""
        return [each.call for each in self._growing if each.call is not None]

    @property
    def made(self) -> list[Growing]:
        """The assembled parts of the complete calls."""
        return [each for each in self._growing if each.call is not None]

    def find(self, key: Hashable) -> Growing | None:
        """The call with this key, or, if the key is None, the call that started last."""
        if key is None:
            return self._growing[-1] if self._growing else None
        return self._by_key.get(key)

    def start(self, key: Hashable, name: str, provider_id: str = "") -> list[Event]:
        """Start a call. The key refers to this call from now on."""
        growing = Growing(len(self._growing), name, provider_id)
        self._growing.append(growing)
        self._by_key[key] = growing
        return self._introduce_call(growing)

    def name(self, growing: Growing, name: str, provider_id: str = "") -> list[Event]:
        """Record a name or an id that arrived late."""
        growing.name = growing.name or name
        growing.provider_id = growing.provider_id or provider_id
        return self._introduce_call(growing)

    def grow(self, growing: Growing, delta: str) -> list[Event]:
        """Add a piece of arguments."""
        delta = "" if growing.call is not None else growing.seam.join(delta)
        if not delta:
            return []
        growing.pieces.append(delta)
        return [ArgumentsDelta(growing.index, delta, growing.pieces)]

    def complete(self, growing: Growing, whole: Any = None) -> list[Event]:
        """Make the call from its pieces, or from arguments that arrived complete."""
        if growing.call is not None:
            return []
        events = self._introduce_call(growing, final=True)
        if isinstance(whole, str) and whole and not growing.pieces:
            events += self.grow(growing, whole)
        arguments = "".join(growing.pieces) if growing.pieces or whole is None else whole
        growing.call = make_call(self._tools, growing.name, arguments, growing.provider_id)
        return [*events, CallCompleted(growing.index, growing.call)]

    def finish(self) -> list[Event]:
        """Complete every call that is still open."""
        return [event for growing in self._growing for event in self.complete(growing)]

    def _introduce_call(self, growing: Growing, final: bool = False) -> list[Event]:
        if growing.told or not (growing.name or final):
            return []
        growing.told = True
        return [CallStarted(growing.index, find_name(self._tools, growing.name))]
