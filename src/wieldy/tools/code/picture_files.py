"""The pictures that code leaves in its working folder."""

import os.path
import re
import struct
from typing import NamedTuple

from wieldy.core.block import Image
from wieldy.tools.files.disk_files import DiskFiles
from wieldy.tools.files.file_backend import Names
from wieldy.tools.files.file_errors import FileError

from .workspaces import walk_files

_LARGEST = 5_000_000
_MOST_PICTURES = 10
_MOST_ENTRIES = 5_000
# Models refuse larger pictures, and with them the whole conversation.
_MOST_PIXELS = 8_000
# The part of a JPEG file that tells its size. Others before it have other second letters.
_JPEG_SIZE = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(.{4})", re.DOTALL)
# The kind of each name, and what a file of it begins with; a model refuses one that does not.
_KINDS = {
    ".png": ("image/png", (b"\x89PNG\r\n\x1a\n",)),
    ".jpg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".jpeg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".gif": ("image/gif", (b"GIF87a", b"GIF89a")),
    ".webp": ("image/webp", (b"RIFF",)),
    ".svg": ("image/svg+xml", (b"<svg", b"<?xml", b"<!DOCTYPE svg")),
}

Snapshot = dict[Names, tuple[float, int]]


class NewPictures(NamedTuple):
    """The pictures that are new, and what is to be said about the others."""

    images: tuple[Image, ...]
    notes: tuple[str, ...]


def list_pictures(folder: str) -> Snapshot:
    """The pictures in a folder, with what tells whether they change."""
    return {
        names: (info.changed_at, info.size)
        for names, info in walk_files(DiskFiles(folder), _MOST_ENTRIES)
        if not info.is_folder and _suffix(names) in _KINDS
    }


def read_new_pictures(folder: str, before: Snapshot) -> NewPictures:
    """The pictures that were made or changed since they were listed."""
    files = DiskFiles(folder)
    found = list_pictures(folder)
    new = sorted(
        (names for names in found if found[names] != before.get(names)),
        key=lambda names: (found[names][0], names),
    )
    images, notes = [], []
    for names in new[:_MOST_PICTURES]:
        try:
            images.append(_read_picture(files, names))
        except (FileError, ValueError) as error:
            notes.append(f"Not shown: {error}")
    if len(new) > _MOST_PICTURES:
        notes.append(f"Not shown: {len(new) - _MOST_PICTURES} more pictures")
    return NewPictures(tuple(images), tuple(notes))


def _read_picture(files: DiskFiles, names: Names) -> Image:
    data = files.read(names, _LARGEST)
    kind, beginnings = _KINDS[_suffix(names)]
    if not data.lstrip().startswith(beginnings):
        raise ValueError(f"{'/'.join(names)!r:.300} is not a picture of the kind {kind}")
    width, height = _read_size(kind, data)
    if max(width, height) > _MOST_PIXELS:
        size = f"{width:,} by {height:,} pixels, and {_MOST_PIXELS:,} each way are the most"
        raise ValueError(f"{'/'.join(names)!r:.300} has {size}")
    return Image(data, kind)


def _read_size(kind: str, data: bytes) -> tuple[int, int]:
    """The width and height that a picture says it has; nothing where it does not say so."""
    try:
        if kind == "image/png":
            return struct.unpack_from(">II", data, 16)
        if kind == "image/gif":
            return struct.unpack_from("<HH", data, 6)
        found = _JPEG_SIZE.search(data) if kind == "image/jpeg" else None
        return struct.unpack(">HH", found[1]) if found else (0, 0)
    except struct.error:
        return (0, 0)


def _suffix(names: Names) -> str:
    return os.path.splitext(names[-1])[1].lower()
