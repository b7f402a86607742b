"""Keep large results in memory, where there is no store. Each session reads only its own."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from wieldy.core.call import Outcome

from .handles import format_handle, parse_handle

# In characters.
MAX_SESSION, _MAX_ALL = 16_000_000, 64_000_000
UNTIL = "in memory until newer results need the room or the program ends"


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A large result that is kept. `untrusted` says that it comes from outside."""

    handle: str
    content: str
    untrusted: bool


class KeptResults:
    """The large results of all sessions; None is a session of its own. Safe from any thread.

    Where a session has too many characters, or all of them have, the oldest results go first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str | None, str], KeptResult] = OrderedDict()
        self._sizes: dict[str | None, int] = {}

    def keep(self, outcome: Outcome, whole: str) -> KeptResult:
        """Keep a result, or the beginning of one that is larger than a session's room."""
        session, id = outcome.call.scope.session or None, outcome.call.id
        untrusted = bool(outcome.metadata.get("untrusted"))
        made = KeptResult(format_handle(id, 1), whole[:MAX_SESSION], untrusted)
        with self._lock:
            self._drop((session, id))
            self._kept[session, id] = made
            self._sizes[session] = self._sizes.get(session, 0) + len(made.content)
            while self._sizes[session] > MAX_SESSION:
                self._drop(next(key for key in self._kept if key[0] == session))
            while sum(self._sizes.values()) > _MAX_ALL:
                self._drop(next(iter(self._kept)))
        return made

    def find(self, reference: str, session: str | None) -> KeptResult:
        """The result with this handle or id; `LookupError` if the session has none."""
        id, version = parse_handle(reference)
        with self._lock:
            found = self._kept.get((session or None, id))
        if found is None or version not in (None, 1):
            raise LookupError(
                f"There is no result {reference[:100]!r} in this session. Large results are kept "
                f"{UNTIL}: make the call again."
            )
        return found

    def _drop(self, key: tuple[str | None, str]) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is None:
            return
        self._sizes[key[0]] -= len(dropped.content)
        if not self._sizes[key[0]]:
            del self._sizes[key[0]]
