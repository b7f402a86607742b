"""Why a registered tool is held back, and who says so."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tool import Tool


class Hold:
    """A tool is held back: it is not offered at all, or with `asks` only a person lets it run.

    No rule and no mode lifts it.
    """

    __slots__ = ("asks", "reason")

    def __init__(self, reason: str, asks: bool = False) -> None:
        self.reason = reason
        self.asks = asks

    def __repr__(self) -> str:
        return f"Hold({self.reason!r}, asks={self.asks})"


Review = Callable[["Tool"], Hold | None]
