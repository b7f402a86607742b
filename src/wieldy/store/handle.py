"""The address of an artifact's version, as it stands in results and as a model sends it back."""

from urllib.parse import quote, unquote

_SCHEME = "artifact://"
# A version that is longer was never given out.
_MOST_DIGITS = 15


def format_handle(id: str, version: int) -> str:
    """`artifact://id@version`, whatever characters are in the id."""
    return f"{_SCHEME}{quote(id, safe='', errors='surrogatepass')}@{version}"


def parse_handle(reference: str) -> tuple[str, int | None]:
    """The id and the version of a handle, or of a bare id; no version means the current one."""
    if not reference.startswith(_SCHEME):
        return reference, None
    address = reference.removeprefix(_SCHEME)
    id, at, digits = address.rpartition("@")
    if not (at and digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        id, digits = address, ""
    try:
        return unquote(id, errors="surrogatepass"), int(digits) if digits else None
    except UnicodeDecodeError:
        raise ValueError(f"{reference!r} is no handle: its id is not UTF-8") from None
