"""The file systems: on disk, in memory, and the built-in namespaces."""

import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from wieldy.tools.files.disk_files import DiskFiles
from wieldy.tools.files.file_backend import FileBackend
from wieldy.tools.files.memory_files import MemoryFiles

from .fs_errors import InvalidArgumentError
from .fs_handle import FsHandle, GrantGiven
from .fs_service import FileDomainService
from .fs_tools import TOOLS

_READING = frozenset(("list", "file", "read_binary", "read_file", "read_re"))
_BUILTIN: dict[str, frozenset[str]] = {
    "userinput": _READING,
    "workspace": _READING | {"write", "delete"},
    "internal": _READING | {"write"},
}


def builtin_grant(name: str) -> dict[str, Any]:
    """The grant of a built-in namespace: "userinput", "workspace" or "internal"."""
    if name not in _BUILTIN:
        raise InvalidArgumentError(f"the namespaces are {', '.join(_BUILTIN)}, not {name!r:.60}")
    return {"prefix": f"/{name}/", "ops": set(_BUILTIN[name])}


def builtin_grants(names: Iterable[str] = tuple(_BUILTIN)) -> list[dict[str, Any]]:
    """The grants of several built-in namespaces."""
    return [builtin_grant(name) for name in names]


class _FileSystem:
    """Files, to which handles are given out."""

    def __init__(self, files: FileBackend) -> None:
        self._files = files

    def create_handle(
        self, grants: Iterable[GrantGiven] | Mapping[str, Iterable[str]] | None = None
    ) -> FsHandle:
        """A handle with grants; without them those of the built-in namespaces."""
        if grants is None:
            return FsHandle(self._files, builtin_grants())
        if isinstance(grants, Mapping):
            listed = [{"prefix": prefix, "ops": set(ops)} for prefix, ops in grants.items()]
            return FsHandle(self._files, listed)
        return FsHandle(self._files, grants)

    def get_tools(
        self, service: FileDomainService
    ) -> list[tuple[Callable[..., Any], FileDomainService]]:
        """The tool functions, each with the service that it is registered with as a preset."""
        return [(function, service) for function in TOOLS]


class InMemoryFileSystem(_FileSystem):
    """Files in memory."""

    def __init__(self) -> None:
        super().__init__(MemoryFiles())


class DiskFileSystem(_FileSystem):
    """Files on disk, in three folders of a root.

    Args:
        root: The folder; without it a new one in `output/`, in the current folder.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        if root is None:
            moment = datetime.now().strftime("%Y%m%d-%H%M%S")
            root = os.path.join(os.getcwd(), "output", f"{moment}-{uuid.uuid4().hex[:8]}")
        files = DiskFiles(root)
        for name in _BUILTIN:
            files.make_folder((name,))
        super().__init__(files)
        self._internal_dir = os.path.join(files.root, "internal")
        self._userinput_dir = os.path.join(files.root, "userinput")
        self._workspace_dir = os.path.join(files.root, "workspace")
        files.write(("internal", ".created"), datetime.now().isoformat().encode())


class BuiltinFileSystem(InMemoryFileSystem):
    """Files in memory, with a handle for each of the built-in namespaces."""

    def create_userinput_handle(self) -> FsHandle:
        """A handle that reads what the user gave."""
        return self.create_handle_for(["userinput"])

    def create_workspace_handle(self) -> FsHandle:
        """A handle that may do everything in the workspace."""
        return self.create_handle_for(["workspace"])

    def create_internal_handle(self) -> FsHandle:
        """A handle that writes logs, which it can't delete."""
        return self.create_handle_for(["internal"])

    def create_handle_for(self, names: Iterable[str]) -> FsHandle:
        """A handle for several namespaces."""
        return self.create_handle(builtin_grants(names))
