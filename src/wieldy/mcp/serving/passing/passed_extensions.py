"""Announce extensions of the servers behind to clients that know them: user interfaces of tools."""

from collections.abc import Iterable, Mapping
from typing import Any

from mcp.server.context import ServerRequestContext

from wieldy.mcp.client.server_link import Server

Request = ServerRequestContext[Any, Any]
# MCP Apps: a tool's `_meta` names a resource that the client shows beside the result.
APPS = "io.modelcontextprotocol/ui"
_PASSED = (APPS,)


def add_extensions(result: Any, ctx: Request, servers: Iterable[Server]) -> Any:
    """An answer with the extensions that this client has announced and a visible server has."""
    capabilities = result.get("capabilities") if isinstance(result, Mapping) else None
    known = _find_announced(ctx)
    wanted = [name for name in _PASSED if name in known]
    if not wanted or not isinstance(capabilities, Mapping):
        return result
    behind = {name for server in servers for name in server.extensions}
    found: dict[str, dict[str, Any]] = {name: {} for name in wanted if name in behind}
    if not found:
        return result
    # Extensions that the server itself has replaced or added stay.
    extensions = {**found, **(capabilities.get("extensions") or {})}
    return {**result, "capabilities": {**capabilities, "extensions": extensions}}


def _find_announced(ctx: Request) -> Mapping[str, Any]:
    """The extensions that a client has announced: before, with this request, or in it."""
    client = ctx.session.client_capabilities
    if client is not None:
        return client.extensions or {}
    # The older handshake is this request, and the session does not know it yet.
    sent = (ctx.params or {}).get("capabilities")
    found = sent.get("extensions") if isinstance(sent, Mapping) else None
    return found if isinstance(found, Mapping) else {}
