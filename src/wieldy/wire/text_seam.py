"""Join text that a stream has cut in the middle of a character.

Servers in languages with UTF-16 strings may split a surrogate pair: one piece ends with its
first half and the next begins with the second.
"""

from .answer_content import make_encodable


class TextSeam:
    """Joins the pieces of one text, and holds back half a character until the rest arrives."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def join(self, piece: str) -> str:
        """The complete part of the text; a half that stays alone becomes U+FFFD."""
        if not self._half and piece.isascii():
            return piece
        text = self._half + piece
        ends_half = bool(text) and "\ud800" <= text[-1] <= "\udbff"
        self._half = text[-1] if ends_half else ""
        whole: str = make_encodable(text[:-1] if ends_half else text)
        return whole
