"""Why an agent's request has no answer: the branch `RunError` of the tree in `errors`."""

from collections.abc import Sequence
from typing import Any

from .errors import WieldyError


class RunError(WieldyError):
    """A request of an agent ended without an answer."""


class RunInterrupted(RunError):
    """Calls of the request wait for a person: decide on them, and ask again.

    Attributes:
        pending: The parked calls.
    """

    def __init__(self, pending: Sequence[Any]) -> None:
        names = ", ".join(f"{each.call.tool} ({each.call.id})" for each in pending)
        super().__init__(f"The request waits for a decision on {names or 'a call'}.")
        self.pending = list(pending)


class RunCancelled(RunError):
    """The request was cancelled before it had an answer."""

    def __init__(self) -> None:
        super().__init__("The request was cancelled. Start it again to get an answer.")


class KeysMissing(RunError, ValueError):
    """The answers never had the keys that were asked for.

    Attributes:
        missing: The paths of the missing keys.
        retries: How many further requests were made for them.
    """

    def __init__(self, missing: Sequence[str], retries: int) -> None:
        keys = ", ".join(map(repr, missing))
        super().__init__(f"The answer has no {keys}, also after {retries} more requests.")
        self.missing = list(missing)
        self.retries = retries
