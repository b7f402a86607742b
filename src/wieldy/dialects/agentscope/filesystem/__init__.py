"""AgentScope's logical file system: handles with grants, a service over them, and its tools."""

from .file_systems import (
    BuiltinFileSystem,
    DiskFileSystem,
    InMemoryFileSystem,
    builtin_grant,
    builtin_grants,
)
from .fs_errors import (
    AccessDeniedError,
    ConflictError,
    FileSystemError,
    InvalidArgumentError,
    InvalidPathError,
    NotFoundError,
)
from .fs_handle import FsHandle, validate_path
from .fs_service import FileDomainService
from .fs_tools import (
    delete_file,
    edit_file,
    fs_describe_permissions_markdown,
    get_file_info,
    list_allowed_directories,
    list_directory,
    read_multiple_files,
    read_text_file,
    search_files,
    write_file,
)

__all__ = [
    "AccessDeniedError",
    "BuiltinFileSystem",
    "ConflictError",
    "DiskFileSystem",
    "FileDomainService",
    "FileSystemError",
    "FsHandle",
    "InMemoryFileSystem",
    "InvalidArgumentError",
    "InvalidPathError",
    "NotFoundError",
    "builtin_grant",
    "builtin_grants",
    "delete_file",
    "edit_file",
    "fs_describe_permissions_markdown",
    "get_file_info",
    "list_allowed_directories",
    "list_directory",
    "read_multiple_files",
    "read_text_file",
    "search_files",
    "validate_path",
    "write_file",
]
