"""The sessions that have a result from outside in them, remembered within bounds."""

import threading
from collections import OrderedDict
from typing import Protocol

from wieldy.core.call import Call

_REMEMBERED = 10_000
_BITS = 1 << 23
_PROBES = 4


class UntrustedSessions(Protocol):
    """The sessions that have a result from outside in them. None is a session of its own."""

    async def add(self, call: Call) -> None:
        """Remember that this call brought something from outside into the sessions on its way."""

    def add_soon(self, call: Call) -> None:
        """The same without waiting; it holds here at once. Safe from any thread."""

    async def holds(self, session: str | None) -> bool:
        """Whether a result from outside is in the session."""

    async def clear(self, session: str | None, by: str | None, reason: str | None) -> bool:
        """Count a session as trusted again; returns whether it was not."""


def session_key(session: str | None) -> bytes:
    """A short key for a session of any name; an empty name is none."""
    import hashlib  # noqa: PLC0415

    text = f"={session}" if session else ""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


class MemorySessions:
    """The sessions of one toolbox without a store.

    The latest are known exactly. Those before them are in a filter that never forgets one,
    and may at worst take a session for untrusted that is not.
    """

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._most = remembered
        self._lock = threading.Lock()
        # True: something from outside is in it. False: a person cleared it.
        self._known: OrderedDict[bytes, bool] = OrderedDict()
        self._earlier: bytearray | None = None

    async def add(self, call: Call) -> None:
        """Remember that this call brought something from outside into the sessions on its way."""
        self.add_soon(call)

    def add_soon(self, call: Call) -> None:
        """The same without waiting."""
        for session in call.scope.sessions():
            self._note_session(session_key(session), True)

    async def holds(self, session: str | None) -> bool:
        """Whether a result from outside is, or may be, in the session."""
        key = session_key(session)
        with self._lock:
            known = self._known.get(key)
            return self._was_earlier(key) if known is None else known

    async def clear(self, session: str | None, by: str | None, reason: str | None) -> bool:
        """Count a session as trusted again; returns whether it was not."""
        held = await self.holds(session)
        if held:
            self._note_session(session_key(session), False)
        return held

    def _note_session(self, key: bytes, untrusted: bool) -> None:
        with self._lock:
            self._known[key] = untrusted
            self._known.move_to_end(key)
            while len(self._known) > self._most:
                oldest, was_untrusted = self._known.popitem(last=False)
                if was_untrusted:
                    self._keep_earlier(oldest)

    def _keep_earlier(self, key: bytes) -> None:
        if self._earlier is None:
            self._earlier = bytearray(_BITS // 8)
        for bit in _probe_bits(key):
            self._earlier[bit >> 3] |= 1 << (bit & 7)

    def _was_earlier(self, key: bytes) -> bool:
        held = self._earlier
        return held is not None and all(held[bit >> 3] >> (bit & 7) & 1 for bit in _probe_bits(key))


def _probe_bits(key: bytes) -> list[int]:
    return [int.from_bytes(key[n * 4 : n * 4 + 4], "big") % _BITS for n in range(_PROBES)]
