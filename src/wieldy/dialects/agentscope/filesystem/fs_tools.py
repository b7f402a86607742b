"""The file tools as functions; each is registered with its service as a preset."""

import asyncio
from collections.abc import Callable
from typing import Any

from wieldy.core.bounded_json import dump_json
from wieldy.dialects.agentscope.tool_response import ToolResponse, text_response

from .fs_errors import FileSystemError
from .fs_service import FileDomainService


async def read_text_file(
    service: FileDomainService,
    path: str,
    start_line: int | None = None,
    read_lines: int | None = None,
) -> ToolResponse:
    """Read a text file, or some of its lines.

    Args:
        path: The file, such as /workspace/notes.md.
        start_line: The first line, counted from 1.
        read_lines: How many lines.
    """
    return await _tell_result(lambda: service.read_text_file(path, start_line, read_lines))


async def read_multiple_files(service: FileDomainService, paths: list[str]) -> ToolResponse:
    """Read several text files; one that can't be read has an error in its place.

    Args:
        paths: The files.
    """
    return await _tell_result(lambda: service.read_multiple_files(paths))


async def write_file(service: FileDomainService, path: str, content: str) -> ToolResponse:
    """Write a text file; one that is there is replaced.

    Args:
        path: The file.
        content: Its whole text.
    """
    return await _tell_result(lambda: service.write_file(path, content))


async def edit_file(
    service: FileDomainService, path: str, edits: list[dict[str, str]]
) -> ToolResponse:
    """Replace passages of a text file, each of which stands there exactly once.

    Args:
        path: The file.
        edits: What is replaced by what: [{"oldText": "…", "newText": "…"}].
    """
    return await _tell_result(lambda: service.edit_file(path, edits))


async def delete_file(service: FileDomainService, path: str) -> ToolResponse:
    """Delete a file.

    Args:
        path: The file.
    """
    return await _tell_result(lambda: service.delete_file(path))


async def list_directory(service: FileDomainService, path: str) -> ToolResponse:
    """List a folder.

    Args:
        path: The folder.
    """
    return await _tell_result(lambda: service.list_directory(path))


async def search_files(service: FileDomainService, path: str, pattern: str) -> ToolResponse:
    """Find files by name.

    Args:
        path: The folder to look in.
        pattern: A name with wildcards, such as *.md.
    """
    return await _tell_result(lambda: service.search_files(path, pattern))


async def get_file_info(service: FileDomainService, path: str) -> ToolResponse:
    """Say what is known of a file.

    Args:
        path: The file.
    """
    return await _tell_result(lambda: service.get_file_info(path))


async def list_allowed_directories(service: FileDomainService) -> ToolResponse:
    """List the folders for which something is granted."""
    return await _tell_result(service.list_allowed_directories)


async def fs_describe_permissions_markdown(service: FileDomainService) -> ToolResponse:
    """Say what may be done in which folder."""
    return await _tell_result(service.describe_permissions_markdown)


TOOLS: tuple[Callable[..., Any], ...] = (
    read_text_file,
    read_multiple_files,
    write_file,
    edit_file,
    delete_file,
    list_directory,
    search_files,
    get_file_info,
    list_allowed_directories,
    fs_describe_permissions_markdown,
)


async def _tell_result(work: Callable[[], Any]) -> ToolResponse:
    """What was done, as a response; what is refused is one as well."""
    try:
        # A disk may keep one waiting.
        found = await asyncio.to_thread(work)
    except FileSystemError as error:
        return text_response(f"Error: {error}")
    text = found if isinstance(found, str) else dump_json(found, ensure_ascii=False)
    return text_response(text)
