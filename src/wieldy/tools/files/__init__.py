"""Files that a model may read and write: in folders that are granted, and nowhere else."""

from .disk_files import DiskFiles
from .file_errors import AccessDenied, FileError, FileExists, FileNotThere, InvalidPath
from .file_grants import Grant
from .file_service import FileService
from .file_tools import add_file_tools
from .memory_files import MemoryFiles

__all__ = [
    "AccessDenied",
    "DiskFiles",
    "FileError",
    "FileExists",
    "FileNotThere",
    "FileService",
    "Grant",
    "InvalidPath",
    "MemoryFiles",
    "add_file_tools",
]
