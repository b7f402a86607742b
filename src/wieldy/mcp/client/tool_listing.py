"""Read a server's list of tools, so that a broken tool does not affect the others."""

from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp_types import methods
from pydantic import ValidationError

from .raw_requests import ask_raw, first_error

MAX_PAGES = 1000
# The SDK raises these for a page that breaks the protocol or has unexpected data: its readers
# have no bound of their own where the server is in this process.
_UNREADABLE = (ValidationError, AttributeError, KeyError, TypeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server, and the errors of unreadable ones, by name or position."""

    tools: list[types.Tool] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


async def read_listing(client: Client) -> Listing:
    """All pages of a server's tools; an endless list is read until it repeats."""
    found = Listing()
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        cursor = await _read_page(client, cursor, found)
        if cursor is None:
            return found
        if cursor in seen:
            found.problems["the list"] = "it never ends: a page names an earlier one as the next"
            return found
        seen.add(cursor)
    found.problems["the list"] = f"it has more than {MAX_PAGES} pages; the rest was not read"
    return found


async def _read_page(client: Client, cursor: str | None, found: Listing) -> str | None:
    """Read one page, and return the cursor of the next."""
    try:
        page = await client.list_tools(cursor=cursor)
    except _UNREADABLE as error:
        return await _read_loosely(client, cursor, found, error)
    found.tools.extend(page.tools)
    return page.next_cursor


async def _read_loosely(
    client: Client, cursor: str | None, found: Listing, error: Exception
) -> str | None:
    """Request a page that breaks the protocol again, and read each tool separately."""
    raw = await ask_raw(client, "tools/list", {} if cursor is None else {"cursor": cursor})
    listed, following = raw.pop("tools", None), raw.pop("nextCursor", None)
    if not isinstance(listed, list) or not _fits_version(client, {**raw, "tools": []}):
        # The page itself is broken, not only a tool.
        raise error
    for number, each in enumerate(listed, len(found.tools) + len(found.problems)):
        try:
            tools = _read_tool(client, raw, each)
        except _UNREADABLE as broken:
            named = each.get("name") if isinstance(each, dict) else None
            name = named if isinstance(named, str) and named else f"tool {number + 1}"
            wrong = first_error(broken, "tools", 0)
            found.problems[name] = f"it breaks the protocol: {wrong}"
        else:
            found.tools.extend(tools)
    return following if isinstance(following, str) else None


def _read_tool(client: Client, page: dict[str, Any], raw: Any) -> list[types.Tool]:
    """One tool, read by the SDK as a page with only this tool; empty if the SDK drops it."""
    data = {**page, "tools": [raw]}
    _check_version(client, data)
    result = types.ListToolsResult.model_validate(data, by_name=False)
    # The session records for each tool which arguments go into headers.
    kept = client.session._absorb_tool_listing(result, complete=False)
    return list(kept.tools)


def _fits_version(client: Client, data: dict[str, Any]) -> bool:
    try:
        _check_version(client, data)
    except _UNREADABLE:
        return False
    return True


def _check_version(client: Client, data: dict[str, Any]) -> None:
    try:
        methods.validate_server_result("tools/list", client.protocol_version, data)
    except KeyError:
        # This version of the protocol has no such field.
        return
