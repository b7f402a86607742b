"""Which kind of picture bytes are and how large it gets, read from nothing but the bytes."""

import base64
import binascii
import re
import struct

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_FILLING = re.compile(rb"\xff+")


def find_picture_kind(data: bytes) -> str | None:
    """The media type of a picture that browsers only paint; None for anything else.

    SVG is not among them, because it may hold programs.
    """
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def find_picture_size(data: bytes) -> tuple[int, int] | None:
    """The width and height that a picture says it has; None if it does not say."""
    try:
        match find_picture_kind(data):
            case "image/png":
                size = _read_png_size(data)
            case "image/gif":
                size = struct.unpack_from("<HH", data, 6)
            case "image/jpeg":
                size = _read_jpeg_size(data)
            case "image/webp":
                size = _read_webp_size(data)
            case _:
                return None
    except struct.error:
        return None
    width, height = size
    return (width, height) if width and height else None


def _read_png_size(data: bytes) -> tuple[int, int]:
    return struct.unpack_from(">II", data, 16) if data[12:16] == b"IHDR" else (0, 0)


def _read_jpeg_size(data: bytes) -> tuple[int, int]:
    place = 2
    while True:
        # Any number of bytes 0xFF may come before a marker.
        filled = _FILLING.match(data, place)
        if filled is None:
            return 0, 0
        marker, length = struct.unpack_from(">BH", data, filled.end())
        # A start of frame has the size; three of its codes stand for tables.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, filled.end() + 4)
            return width, height
        alone = marker == 0x01 or 0xD0 <= marker <= 0xD8
        # The picture begins or ends before it has said how large it is.
        if marker in (0x00, 0xD9, 0xDA) or (length < 2 and not alone):
            return 0, 0
        place = filled.end() + 1 + (0 if alone else length)


def _read_webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and data[20:21] == b"\x2f":
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8X":
        low, high, wide, tall = struct.unpack_from("<HBHB", data, 24)
        return 1 + (low | high << 16), 1 + (wide | tall << 16)
    return 0, 0


def read_base64(text: str) -> bytes | None:
    """The bytes of base64 text, or None if it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
