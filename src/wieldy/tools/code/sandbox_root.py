"""What a program in the sandbox sees: its files, its environment, and nothing else.

The root is empty but for what is named here. Nothing of `/home`, `/root`, `/var` or `/run` is
in it, and of `/etc` only what the dynamic linker and the alternatives of Debian need.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

WORKSPACE = "/workspace"
_SCRIPTS = "/run/wieldy"
_ROOT_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "fonts", "localtime")
_PASSWD = b"user:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
_GROUP = b"user:x:1000:\nnogroup:x:65534:\n"
# A machine with many processors would make libraries start more threads than are allowed.
_THREADS = str(min(4, os.cpu_count() or 1))
_OPEN_EVERYWHERE = frozenset(("/", "/home", "/root", "/etc", "/var", "/run", "/tmp"))


class Mount(NamedTuple):
    """Something of the host that appears in the sandbox."""

    source: str
    target: str
    writable: bool = False


def system_arguments() -> list[str]:
    """The arguments that every sandbox begins with."""
    words = [
        "--unshare-user",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]
    words += ["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv"]
    words += ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/nix/store", "/nix/store"]
    for name in _ROOT_FOLDERS:
        path = f"/{name}"
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for name in _SETTINGS:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return words


def memory_arguments(size: int) -> list[str]:
    """The arguments for what is made anew: processes, devices, and files in memory."""
    words = ["--proc", "/proc", "--dev", "/dev"]
    for place in ("/tmp", "/dev/shm"):
        words += ["--perms", "1777", "--size", str(size), "--tmpfs", place]
    return words


def closing_arguments() -> list[str]:
    """The arguments after which nothing can be added to the root."""
    return ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORKSPACE]


def bind_arguments(mounts: list[Mount], staged: bool) -> Iterator[str]:
    """The arguments that show what is named, from where it is or from where it was staged."""
    for place, mount in enumerate(mounts):
        yield "--bind" if mount.writable else "--ro-bind"
        yield staged_path(place) if staged else mount.source
        yield mount.target


def staged_path(place: int) -> str:
    """The path at which the keeper puts a source that not every user can reach."""
    return f"/tmp/{place}"


def interpreter_path() -> str:
    """This interpreter, by a path without `..`: what that leaves out is not in the sandbox."""
    return os.path.abspath(sys.executable)


def interpreter_mounts() -> list[Mount]:
    """The folders of this interpreter and its libraries, if they are not in `/usr`."""
    program = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
    found: list[Mount] = []
    for prefix in dict.fromkeys((sys.base_prefix, program, sys.prefix)):
        path = os.path.abspath(prefix)
        within = path == "/usr" or path.startswith(("/usr/", "/nix/store/"))
        if not within and path not in _OPEN_EVERYWHERE:
            found.append(Mount(path, path))
    return found


def named_mounts(readonly: Mapping[str, str | os.PathLike[str]]) -> list[Mount]:
    """What a program names, after a check that it is there and hides nothing of the sandbox."""
    mounts = []
    for target, source in readonly.items():
        path = os.path.realpath(source)
        plain = os.path.normpath(target)
        if not target.startswith("/") or plain != target.rstrip("/") or plain == "/":
            raise ValueError(f"{target!r} is no place in the sandbox; one is /data, or /data/x.csv")
        if plain.split("/")[1] in ("usr", "proc", "dev", "tmp", "etc", "run", *_ROOT_FOLDERS):
            raise ValueError(f"{target!r} would hide a folder of the sandbox; choose another one")
        if plain == WORKSPACE or plain.startswith(f"{WORKSPACE}/"):
            raise ValueError(f"{target!r} is the working folder; put the file there instead")
        if not os.path.exists(path):
            raise FileNotFoundError(f"{os.fspath(source)!r}, named for {target!r}, is not there")
        mounts.append(Mount(path, plain))
    return mounts


def script_path(name: str) -> str:
    """The path in the sandbox of a script that is handed to it."""
    return f"{_SCRIPTS}/{name}"


def account_files() -> dict[str, bytes]:
    """The files that give the user of the sandbox a name."""
    return {"/etc/passwd": _PASSWD, "/etc/group": _GROUP}


def make_environment(home: str) -> dict[str, str]:
    """The whole environment of a program."""
    programs = os.path.dirname(interpreter_path())
    return {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "USER": "user",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "MPLCONFIGDIR": f"{home}/matplotlib",
        "OMP_NUM_THREADS": _THREADS,
        "OPENBLAS_NUM_THREADS": _THREADS,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
    }
