"""Handles: the addresses by which models and clients read what is kept for them."""

from urllib.parse import quote, unquote

_SCHEME = "artifact://"
# No version number is longer.
_MAX_DIGITS = 15


def format_handle(id: str, version: int) -> str:
    """`artifact://id@version`, whatever characters are in the id."""
    return f"{_SCHEME}{quote(id, safe='', errors='surrogatepass')}@{version}"


def is_handle(reference: str) -> bool:
    """Whether this is a handle, and not a bare id or something else."""
    return reference.startswith(_SCHEME)


def parse_handle(reference: str) -> tuple[str, int | None]:
    """The id and the version of a handle, or of a bare id; no version means the current one."""
    if not reference.startswith(_SCHEME):
        return reference, None
    address = reference.removeprefix(_SCHEME)
    id, at, digits = address.rpartition("@")
    if not (at and digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        id, digits = address, ""
    try:
        return unquote(id, errors="surrogatepass"), int(digits) if digits else None
    except UnicodeDecodeError:
        raise ValueError(f"{reference!r} is no handle: its id is not UTF-8") from None
