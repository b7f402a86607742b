"""Shorten text for a line, a message or a list."""

# The most characters of the marker that replaces the middle of a text.
_MIDDLE = 45


def first_line(text: object) -> str:
    """The first line of a description or an error, without spaces around it."""
    return str(text).strip().partition("\n")[0].rstrip()


def cut_text(text: str, limit: int) -> str:
    """The text, or its beginning with an ellipsis: at most as many characters as the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_counted(text: str, limit: int) -> str:
    """The text, or so many characters of it and the number that it has."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters in all)"


def cut_middle(text: str, limit: int, quote: str = "") -> str:
    """The text, or its beginning and its end with the number of characters left out.

    Each part of a quoted text gets quotes of its own, so that no text can imitate a cut.
    """
    if len(text) <= limit:
        return text
    half = max(1, (limit - _MIDDLE) // 2)
    cut = f"{quote} … {len(text) - 2 * half:,} characters left out … {quote}"
    return text[:half] + cut + text[-half:]
