"""The reason why a request is refused, with the status that says so."""

from typing import NamedTuple


class Refusal(NamedTuple):
    """The reason why a request is refused."""

    status: int
    message: str
