"""Types that an answer may have, found again in another process."""

from enum import Enum

from pydantic import BaseModel


class Author(BaseModel):
    """Who wrote a book."""

    name: str


class Chapter(BaseModel):
    """A part of a book, which has parts itself."""

    title: str
    parts: "list[Chapter]" = []
    appendix: "Chapter | None" = None
    notes: "dict[str, Chapter]" = {}


class Genre(Enum):
    """What kind of book it is."""

    NOVEL = "novel"
