"""Which kind of picture bytes are, read from the bytes and from nothing that is said of them."""

import base64
import binascii

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def find_picture_kind(data: bytes) -> str | None:
    """The media type of a picture that browsers only paint; None for anything else.

    SVG is not among them, because it may hold programs.
    """
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def read_base64(text: str) -> bytes | None:
    """The bytes of base64 text, or None if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
