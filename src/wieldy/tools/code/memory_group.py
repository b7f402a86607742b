"""A cgroup in which the system itself holds the memory of one program, where there can be one.

The group is new, and only the program is put into it: as a child of this process's own group, or
beside that group where the group above gives memory to its children. No process that was there
before is moved, and no setting of another group is changed. Nothing but the standard library is
imported, because the process that keeps a sandbox uses this.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PREFIX = "wieldy-"
# Memory of TCP counts by itself in the first version of cgroups; it gets this share on top.
_TCP_SHARE = 8
_OCTAL = {rf"\{ord(letter):03o}": letter for letter in " \t\n\\"}


class MemoryGroup:
    """The group of one program."""

    def __init__(self, path: Path, limit: int, is_v2: bool) -> None:
        self.path = path
        self._limit = limit
        self._is_v2 = is_v2

    def set_limits(self) -> None:
        """Set the limit; `OSError` where the group has no control over memory."""
        most = str(self._limit)
        if self._is_v2:
            self._write("memory.max", most)
            optional = {"memory.swap.max": "0", "memory.oom.group": "1"}
        else:
            self._write("memory.limit_in_bytes", most)
            optional = {
                # Not every system counts what is swapped out, or has TCP.
                "memory.memsw.limit_in_bytes": most,
                "memory.kmem.tcp.limit_in_bytes": str(self._limit // _TCP_SHARE),
            }
        for name, value in optional.items():
            with suppress(OSError):
                self._write(name, value)

    def add(self, pid: int) -> None:
        """Put a process into the group, with all that it will start."""
        self._write("cgroup.procs", str(pid))

    def is_exceeded(self) -> bool:
        """Whether the system has ended something because the memory was used up."""
        events = self._read("memory.events" if self._is_v2 else "memory.oom_control")
        counted = dict(line.split() for line in events.splitlines())
        return int(counted.get("oom_kill", 0)) > 0

    @property
    def used(self) -> int:
        """The memory of processes and of files that are only in memory."""
        names = ("anon", "shmem") if self._is_v2 else ("total_rss", "total_shmem")
        counted = dict(line.split() for line in self._read("memory.stat").splitlines())
        return sum(int(counted.get(name, 0)) for name in names)

    @property
    def peak(self) -> int:
        """The most memory that the group has had."""
        name = "memory.peak" if self._is_v2 else "memory.max_usage_in_bytes"
        return int(self._read(name) or 0)

    def remove(self) -> None:
        """Remove the group when its processes are gone."""
        with suppress(OSError):
            self.path.rmdir()

    def _write(self, name: str, text: str) -> None:
        handle = os.open(self.path / name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text()
        except OSError:
            return ""


def make_group(limit: int) -> MemoryGroup | None:
    """A new group for a program that may have so much memory, or None where there can be none."""
    for parent, is_v2 in find_parents(_read_own("cgroup"), _read_own("mountinfo")):
        if is_v2 and not _gives_memory(parent):
            continue
        remove_orphans(parent)
        group = MemoryGroup(parent / f"{_PREFIX}{os.getpid()}-{os.urandom(6).hex()}", limit, is_v2)
        try:
            group.path.mkdir()
        except OSError:
            continue  # It is somebody else's, or can only be read.
        try:
            group.set_limits()
        except OSError:
            group.remove()
            continue
        return group
    return None


def remove_orphans(parent: Path) -> None:
    """Remove the groups of keepers that were killed with the process that wanted them."""
    with suppress(OSError):
        for entry in os.listdir(parent):
            keeper = entry.removeprefix(_PREFIX).partition("-")[0]
            if entry.startswith(_PREFIX) and not os.path.exists(f"/proc/{keeper}"):
                with suppress(OSError):
                    os.rmdir(parent / entry)


def find_parents(own: str, mounts: str) -> Iterator[tuple[Path, bool]]:
    """Where a group may be made, and whether that is the second version of cgroups.

    Args:
        own: The text of `/proc/self/cgroup`.
        mounts: The text of `/proc/self/mountinfo`.
    """
    for line in own.splitlines():
        number, controllers, path = line.split(":", 2)
        is_v2 = number == "0" and not controllers
        if not is_v2 and "memory" not in controllers.split(","):
            continue
        for root, place in _find_mounts(mounts, is_v2):
            if path != root and not path.startswith(f"{root.rstrip('/')}/"):
                continue
            group = Path(place, path.removeprefix(root).strip("/"))
            yield group, is_v2
            if is_v2 and group != Path(place):
                # A group with processes in it can't give memory to its children.
                yield group.parent, is_v2


def _find_mounts(mounts: str, is_v2: bool) -> Iterator[tuple[str, str]]:
    """The part of the hierarchy that each mount shows, and where it does."""
    for line in reversed(mounts.splitlines()):
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        fits = kind == "cgroup2" if is_v2 else kind == "cgroup" and "memory" in options.split(",")
        if fits:
            root, place = (_unescape(word) for word in before.split(" ")[3:5])
            yield root, place


def _gives_memory(group: Path) -> bool:
    try:
        return "memory" in (group / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _unescape(text: str) -> str:
    for written, letter in _OCTAL.items():
        text = text.replace(written, letter)
    return text


def _read_own(name: str) -> str:
    try:
        return Path(f"/proc/self/{name}").read_text()
    except OSError:
        return ""
