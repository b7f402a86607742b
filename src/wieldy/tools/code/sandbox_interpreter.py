"""This interpreter and its packages, as a program in the sandbox finds them.

They may lie anywhere on the host: in a home folder, in `/tmp`, in the folder of a project. In the
sandbox they have fixed places below `/run`, so that no folder on the way to them appears there,
and none of them hides a folder of the sandbox.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

_BASE = "/run/python"
_PLACE = "/run/environment"
# What a program calls, and what the host has in the folder of that name.
_PROGRAMS, _HOST_PROGRAMS = f"{_PLACE}/bin", f"{_PLACE}/programs"
_LIBRARIES = "/run/libraries"
_LAUNCHER = f"{_PLACE}/launcher"
# The other folders of a prefix may be those of a project or a person, and not Python's.
_PARTS = ("bin", "lib", "lib32", "lib64")
# What packages add to a prefix that is made for them.
_MORE_PARTS = ("include", "share")
_OWN_PREFIX = ("pyvenv.cfg", "conda-meta")
_SYSTEM = ("/usr/", "/nix/store/")
# The first line of a script on the host names an interpreter by a path that the sandbox lacks.
_LAUNCHER_TEXT = f"""#!{_PROGRAMS}/python
import os, runpy, sys
sys.path[0] = {_HOST_PROGRAMS!r}
runpy.run_path(os.path.join(sys.path[0], os.path.basename(sys.argv[0])), run_name="__main__")
"""
_HEAD = 1024
# Bubblewrap takes 9,000 arguments, and each script needs three.
_MAX_SCRIPTS = 1_000


class Mount(NamedTuple):
    """Something of the host that appears in the sandbox."""

    source: str
    target: str
    writable: bool = False


@dataclass(slots=True)
class Interpreter:
    """Where a program finds Python.

    Attributes:
        path: The path of the interpreter.
        folders: The folders whose programs need no path.
        libraries: A folder that the dynamic linker needs, or None.
        mounts: What appears of the host.
        links: Symbolic links: where they lead, by their paths.
        files: The text of files, by their paths.
    """

    path: str
    folders: list[str]
    libraries: str | None = None
    mounts: list[Mount] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def host_interpreter() -> Interpreter:
    """This interpreter, for a program that sees the host."""
    path = os.path.abspath(sys.executable)
    return Interpreter(path, [os.path.dirname(path)])


@cache
def sandbox_interpreter() -> Interpreter:
    """This interpreter, for a program in the sandbox."""
    found = Interpreter(f"{_PROGRAMS}/python", [_PROGRAMS, _HOST_PROGRAMS])
    base, prefix = os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)
    if base != prefix:
        found.mounts += _mount_parts(prefix, _PLACE)
    if not _in_system(base):
        found.mounts += _mount_parts(base, _PLACE if base == prefix else _BASE)
    _add_library(found, base)
    program = _locate(found.mounts, os.path.realpath(sys.executable))
    if base != prefix:
        found.files[f"{_PLACE}/pyvenv.cfg"] = _describe_environment(found.mounts, prefix, program)
    in_place = base == prefix and _in_system(base)
    for script in () if in_place else _find_scripts(prefix):
        found.links[f"{_PROGRAMS}/{script}"] = _LAUNCHER
        found.files[_LAUNCHER] = _LAUNCHER_TEXT
    version = f"python3.{sys.version_info.minor}"
    found.links.update({f"{_PROGRAMS}/{name}": program for name in ("python", "python3", version)})
    return found


def _mount_parts(prefix: str, place: str) -> Iterator[Mount]:
    """The folders of a prefix that are Python's."""
    made_for_python = any(os.path.exists(f"{prefix}/{name}") for name in _OWN_PREFIX)
    for name in (*_PARTS, *(_MORE_PARTS if made_for_python else ())):
        source = os.path.realpath(f"{prefix}/{name}")
        if os.path.isdir(source):
            target = f"{place}/{name}"
            yield Mount(source, _HOST_PROGRAMS if target == _PROGRAMS else target)


def _add_library(found: Interpreter, base: str) -> None:
    """Let the linker find Python itself where the program names that library by its old path."""
    name = sysconfig.get_config_var("INSTSONAME")
    if not _in_system(base) and sysconfig.get_config_var("Py_ENABLE_SHARED") and name:
        source = os.path.realpath(f"{base}/lib/{name}")
        if os.path.isfile(source):
            found.libraries = _LIBRARIES
            found.mounts.append(Mount(source, f"{_LIBRARIES}/{name}"))


def _describe_environment(mounts: list[Mount], prefix: str, program: str) -> str:
    """The settings of a virtual environment, with the new place of its interpreter."""
    settings = {}
    with open(f"{prefix}/pyvenv.cfg", encoding="utf-8") as lines:
        for line in lines:
            name, _, value = line.partition("=")
            settings[name.strip().lower()] = value.strip()
    if program.startswith(f"{_PLACE}/"):
        # The environment has a copy of the interpreter, which needs the libraries of the first.
        home = _locate(mounts, os.path.realpath(settings["home"]))
    else:
        home = os.path.dirname(program)
    shared = settings.get("include-system-site-packages", "false")
    return f"home = {home}\ninclude-system-site-packages = {shared}\n"


def _find_scripts(prefix: str) -> list[str]:
    """The programs of a prefix that are run by its interpreter."""
    folder = f"{prefix}/bin"
    if not os.path.isdir(folder):
        return []
    starts = {os.fsencode(f"{path}/bin/python") for path in (prefix, sys.prefix)}
    scripts = (
        entry.name
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)
        if entry.is_file() and _is_script(entry.path, starts)
    )
    return [name for _, name in zip(range(_MAX_SCRIPTS), scripts, strict=False)]


def _is_script(path: str, starts: set[bytes]) -> bool:
    """Whether the first lines of a program name the interpreter.

    A path that is long or has spaces stands in the second line, which a shell reads.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    lines = b"\n".join(head.split(b"\n", 2)[:2])
    return head.startswith(b"#!") and any(start in lines for start in starts)


def _locate(mounts: list[Mount], path: str) -> str:
    """Where the sandbox has a path of the host."""
    for mount in mounts:
        if path == mount.source or path.startswith(f"{mount.source}/"):
            return mount.target + path[len(mount.source) :]
    return path


def _in_system(path: str) -> bool:
    return f"{path}/".startswith(_SYSTEM) or path == "/"
