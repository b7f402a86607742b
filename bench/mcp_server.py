"""The MCP server that calls are measured on: `mcp_server.py` over stdio, with a port over HTTP."""

import sys

from mcp.server.mcpserver import MCPServer


def make_server() -> MCPServer:
    """A server with one small tool."""
    server = MCPServer("bench")

    @server.tool()
    async def find(query: str, limit: int = 10) -> dict[str, int]:
        """Find something."""
        return {query: limit}

    return server


def _serve_http(port: int) -> None:
    import uvicorn  # noqa: PLC0415 - over stdio nobody needs it

    uvicorn.run(make_server().streamable_http_app(), port=port, log_level="error")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _serve_http(int(sys.argv[1]))
    else:
        make_server().run("stdio")
