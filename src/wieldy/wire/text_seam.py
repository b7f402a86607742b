"""Text that a stream cuts in the middle of a character.

Servers written in languages whose text is UTF-16 may cut a character in two: one piece ends
with its first half and the next begins with its second.
"""

from .answer_content import make_encodable


class TextSeam:
    """Joins the pieces of one text: a half character waits for its other half."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def join(self, piece: str) -> str:
        """As much of the text as is whole; half a character that stays alone becomes U+FFFD."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        ends_half = bool(text) and "\ud800" <= text[-1] <= "\udbff"
        self._half = text[-1] if ends_half else ""
        whole: str = make_encodable(text[:-1] if ends_half else text)
        return whole
