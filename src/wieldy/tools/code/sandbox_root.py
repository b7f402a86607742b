"""What a program in the sandbox sees: its files, its environment, and nothing else.

The root is empty but for what is named here. Nothing of `/home`, `/root`, `/var` or `/run` is
in it, and of `/etc` only what the dynamic linker and the alternatives of Debian need.
"""

import os
from collections.abc import Iterator, Mapping

from .sandbox_interpreter import Interpreter, Mount

WORKSPACE = "/workspace"
_SCRIPTS = "/run/wieldy"
_ROOT_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "fonts", "localtime")
_PASSWD = "user:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
_GROUP = "user:x:1000:\nnogroup:x:65534:\n"
# A machine with many processors would make libraries start more threads than are allowed.
_THREADS = str(min(4, os.cpu_count() or 1))


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


def made_files() -> dict[str, str]:
    """The files that give the user of the sandbox a name, and those that would name the host's."""
    # The keys of this user on the host, which have no namespace.
    keys = {path: "" for path in ("/proc/keys", "/proc/key-users") if os.path.exists(path)}
    return {"/etc/passwd": _PASSWD, "/etc/group": _GROUP, **keys}


def link_arguments(interpreter: Interpreter) -> Iterator[str]:
    """The arguments that make the symbolic links of the interpreter."""
    for path, target in interpreter.links.items():
        yield from ("--symlink", target, path)


def make_environment(home: str, interpreter: Interpreter) -> dict[str, str]:
    """The whole environment of a program."""
    linker = interpreter.libraries
    return {
        **({} if linker is None else {"LD_LIBRARY_PATH": linker}),
        "PATH": ":".join([*interpreter.folders, "/usr/local/bin", "/usr/bin", "/bin"]),
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
