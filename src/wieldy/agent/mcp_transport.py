"""Find the MCP server that a program's transport, client or server object stands for."""

from collections.abc import Iterable, Mapping
from typing import Any

# The keys under which FastMCP servers send tags, in version 2 and in later versions.
_NOTES = ("_fastmcp", "fastmcp")


def transport_source(transport: Any) -> Any:
    """The source of a server; fastmcp clients, transports and servers are unwrapped."""
    if not _is_fastmcp(transport):
        return transport
    inner = getattr(transport, "transport", None)
    if inner is not None:
        return transport_source(inner)
    if hasattr(transport, "config"):
        return transport.config.model_dump(mode="json", exclude_none=True)
    if hasattr(transport, "server"):
        return transport_source(transport.server)
    return getattr(transport, "_mcp_server", None) or _transport_place(transport)


def declared_tags(definition: Mapping[str, Any]) -> list[str]:
    """The tags that the server itself declares for a tool."""
    meta = definition.get("_meta")
    notes = [meta.get(key) for key in _NOTES] if isinstance(meta, Mapping) else []
    found = [note.get("tags") for note in notes if isinstance(note, Mapping)]
    return [tag for tags in found if isinstance(tags, list) for tag in tags if isinstance(tag, str)]


def _is_fastmcp(transport: Any) -> bool:
    kinds: Iterable[type] = type(transport).__mro__
    return any(kind.__module__.partition(".")[0] == "fastmcp" for kind in kinds)


def _transport_place(transport: Any) -> Any:
    """The command or address of a transport to another process or machine."""
    # The SDK is slow to import, and most programs don't use it.
    from wieldy.mcp.client.server_source import Address, Command  # noqa: PLC0415

    if hasattr(transport, "command"):
        cwd = None if transport.cwd is None else str(transport.cwd)
        return Command([transport.command, *transport.args], transport.env or {}, cwd)
    if hasattr(transport, "url"):
        kind = "sse" if "SSE" in type(transport).__name__ else "http"
        return Address(str(transport.url), kind, transport.headers or {}, transport.auth)
    return transport
