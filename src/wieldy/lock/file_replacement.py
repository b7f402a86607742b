"""Replace a file as a whole, so that a reader sees the old one or the new one."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def replace_file(path: str | os.PathLike[str], text: str) -> None:
    """Write the file anew and durably; `OSError` if that is not possible."""
    # A symbolic link is followed, so that it stays a link.
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        with suppress(OSError):
            beside.unlink()
