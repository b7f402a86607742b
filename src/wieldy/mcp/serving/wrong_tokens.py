"""Count the wrong tokens, links and sessions of each address, so that nobody guesses one."""

import time
from collections import OrderedDict
from math import ceil

from wieldy.core.limits.call_counters import CallCounter

from .callers import digest_token
from .refusals import Refusal

MAX_WRONG, WINDOW_SECONDS = 600, 60.0
_MAX_RIGHT = 10_000


class WrongTokens:
    """Says when somebody may try another token.

    Tokens that were right before are always looked at, because many callers may share an address
    with the one who tries wrong tokens.

    Args:
        most: How many wrong tokens may come from one address in a window of time.
        seconds: The length of the window.
    """

    def __init__(self, most: int = MAX_WRONG, seconds: float = WINDOW_SECONDS) -> None:
        self._counter = CallCounter(most, seconds, None)
        self._right: OrderedDict[bytes, None] = OrderedDict()

    def refuse(self, peer: str | None, token: str) -> Refusal | None:
        """The refusal of a token that is not looked at now; None if it is."""
        wait = self.find_wait(peer, token)
        said = f"Too many wrong tokens came from here. Try again in {ceil(wait)} s."
        return Refusal(429, said) if wait else None

    def was_right(self, token: str) -> bool:
        """Whether a token was right before."""
        return digest_token(token) in self._right

    def find_wait(self, peer: str | None, token: str) -> float:
        """How many seconds pass until a token is looked at; 0 if it is looked at now."""
        wait = self._counter.wait_for_start(peer, time.monotonic())
        return 0.0 if wait and self.was_right(token) else wait

    def note_wrong(self, peer: str | None, token: str) -> None:
        """Count a wrong token, which may have been right before."""
        self._right.pop(digest_token(token), None)
        self._counter.note_start(peer, time.monotonic())

    def note_right(self, token: str) -> None:
        """Remember a token that was right."""
        digest = digest_token(token)
        self._right[digest] = None
        self._right.move_to_end(digest)
        if len(self._right) > _MAX_RIGHT:
            self._right.popitem(last=False)
