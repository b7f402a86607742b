"""The pictures that code leaves in its working folder."""

import os.path
from typing import NamedTuple

from wieldy.core.block import Image
from wieldy.tools.files.disk_files import DiskFiles
from wieldy.tools.files.file_backend import Names
from wieldy.tools.files.file_errors import FileError

from .workspaces import walk_files

_LARGEST = 5_000_000
_MOST_PICTURES = 10
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
        for names, info in walk_files(DiskFiles(folder))
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
    return Image(data, kind)


def _suffix(names: Names) -> str:
    return os.path.splitext(names[-1])[1].lower()
