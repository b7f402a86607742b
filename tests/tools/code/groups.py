"""The cgroups of this machine, as tests give them to programs and look at them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from wieldy.tools.code.memory_group import find_parents


class DelegatedGroup(NamedTuple):
    """A cgroup that a program may divide.

    `own` is where the program is put, `parent` where it makes groups, and `mount` where the
    hierarchy is mounted.
    """

    own: Path
    parent: Path
    mount: Path


def find_own_parents() -> list[tuple[Path, bool]]:
    """Where this process could make groups."""
    own = Path("/proc/self/cgroup").read_text()
    found = find_parents(own, Path("/proc/self/mountinfo").read_text())
    return [(parent, is_v2) for parent, is_v2 in found if not is_v2 or _gives_memory(parent)]


def _gives_memory(parent: Path) -> bool:
    control = parent / "cgroup.subtree_control"
    return control.exists() and "memory" in control.read_text().split()


def list_groups(parent: Path) -> set[str]:
    """The groups in a group."""
    return {entry.name for entry in os.scandir(parent) if entry.is_dir()}


@contextmanager
def delegated_group(user: int) -> Iterator[DelegatedGroup]:
    """A new cgroup that belongs to a user."""
    parent, is_v2 = find_own_parents()[0]
    made = parent / f"of-tests-{os.getpid()}-{os.urandom(4).hex()}"
    made.mkdir()
    own = made
    try:
        if is_v2:
            (made / "cgroup.subtree_control").write_text("+memory")
            own = made / "program"
            own.mkdir()
        for folder in {made, own}:
            for path in (folder, folder / "cgroup.procs"):
                os.chown(path, user, user)
        yield DelegatedGroup(own, made, _find_mount(parent))
        assert list_groups(made) == ({"program"} if is_v2 else set()), "groups are left"
    finally:
        for folder in {own, made}:
            folder.rmdir()


def _find_mount(path: Path) -> Path:
    while not path.is_mount():
        path = path.parent
    return path
