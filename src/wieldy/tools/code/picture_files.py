"""The pictures that code leaves in its working folder."""

import os.path
from typing import NamedTuple

from wieldy.core.block import Image
from wieldy.tools.files.disk_files import DiskFiles
from wieldy.tools.files.file_backend import Names
from wieldy.tools.files.file_errors import FileError
from wieldy.wire.picture_kinds import find_picture_kind, find_picture_size

from .workspaces import walk_files

_MAX_SIZE = 5_000_000
_MAX_PICTURES = 10
_MAX_ENTRIES = 5_000
# Models refuse larger pictures, and with them the whole conversation.
_MAX_PIXELS = 8_000
_SVG = "image/svg+xml"
_SVG_BEGINNINGS = (b"<svg", b"<?xml", b"<!DOCTYPE svg")
_KINDS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": _SVG,
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
        for names, info in walk_files(DiskFiles(folder), _MAX_ENTRIES)
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
    for names in new[:_MAX_PICTURES]:
        try:
            images.append(_read_picture(files, names))
        except (FileError, ValueError) as error:
            notes.append(f"Not shown: {error}")
    if len(new) > _MAX_PICTURES:
        notes.append(f"Not shown: {len(new) - _MAX_PICTURES} more pictures")
    return NewPictures(tuple(images), tuple(notes))


def _read_picture(files: DiskFiles, names: Names) -> Image:
    data = files.read(names, _MAX_SIZE)
    name, kind = f"{'/'.join(names)!r:.300}", _KINDS[_suffix(names)]
    # A model refuses a picture that is not what it is said to be, and the conversation with it.
    is_kind = (
        data.lstrip().startswith(_SVG_BEGINNINGS)
        if kind == _SVG
        else find_picture_kind(data) == kind
    )
    if not is_kind:
        raise ValueError(f"{name} is not a picture of the kind {kind}")
    if kind != _SVG:
        _check_size(name, find_picture_size(data))
    return Image(data, kind)


def _check_size(name: str, size: tuple[int, int] | None) -> None:
    if size is None:
        raise ValueError(f"{name} is cut or broken: it does not say how large it is")
    if max(size) > _MAX_PIXELS:
        said = f"{size[0]:,} by {size[1]:,} pixels, and {_MAX_PIXELS:,} each way are the most"
        raise ValueError(f"{name} has {said}")


def _suffix(names: Names) -> str:
    return os.path.splitext(names[-1])[1].lower()
