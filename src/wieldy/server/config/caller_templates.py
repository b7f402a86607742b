"""Texts with `${caller.…}` in them, which are filled in for each caller of a gateway."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

_FACT = re.compile(r"\$\{caller\.(name|(claims|values)\.([^${}\s]+))\}")
_ANY = re.compile(r"\$\{\s*caller\b[^}]*\}?", re.IGNORECASE)
_FORMS = "${caller.name}, ${caller.claims.CLAIM} and ${caller.values.NAME}"


@dataclass(frozen=True, slots=True)
class CallerFact:
    """Something about a caller that a text needs.

    Attributes:
        kind: The name, a claim of the caller's token, or a value of `[callers.NAME]`.
        key: Which claim or value.
    """

    kind: Literal["name", "claims", "values"]
    key: str = ""

    def __str__(self) -> str:
        words = {"name": "a name", "claims": f"the claim {self.key}", "values": "the value "}
        return words[self.kind] + (self.key if self.kind == "values" else "")


class CallerTemplate:
    """A text, with the places where facts about the caller go.

    It is read once. What is filled in is never read as a template again, so that no caller can
    have something expanded.
    """

    def __init__(self, pieces: tuple[str | CallerFact, ...]) -> None:
        self._pieces = pieces

    @classmethod
    def read(cls, text: str) -> "CallerTemplate":
        """Read a text; `ValueError` says what is wrong with a `${caller…}` in it."""
        pieces: list[str | CallerFact] = []
        end = 0
        for found in _FACT.finditer(text):
            kind: Literal["name", "claims", "values"] = found[2] or "name"  # type: ignore[assignment]
            pieces += [text[end : found.start()], CallerFact(kind, found[3] or "")]
            end = found.end()
        pieces.append(text[end:])
        for piece in pieces:
            wrong = _ANY.search(piece) if isinstance(piece, str) else None
            if wrong is not None:
                raise ValueError(_explain(wrong[0]))
        return cls(tuple(piece for piece in pieces if piece != ""))

    @property
    def facts(self) -> list[CallerFact]:
        """What has to be known of a caller."""
        return [piece for piece in self._pieces if isinstance(piece, CallerFact)]

    def expand(self, expand: Callable[[str], str]) -> "CallerTemplate":
        """The template with the text between the facts changed, each piece by itself."""
        return CallerTemplate(
            tuple(
                piece if isinstance(piece, CallerFact) else expand(piece) for piece in self._pieces
            )
        )

    def fill(self, find: Callable[[CallerFact], str]) -> str:
        """The text for one caller."""
        return "".join(
            find(piece) if isinstance(piece, CallerFact) else piece for piece in self._pieces
        )


def names_caller(text: str) -> bool:
    """Whether a text has a `${caller…}` in it, right or wrong."""
    return _ANY.search(text) is not None


def _explain(written: str) -> str:
    if written.rstrip("}").lower().endswith("token") and "claims" not in written:
        return (
            "the token with which somebody comes in is never passed on, because it is for this "
            "gateway alone. Use ${caller.claims.CLAIM} or ${caller.values.NAME}"
        )
    return f"{written} is not known. There are {_FORMS}"
