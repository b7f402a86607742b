"""The MCP server that calls are measured on; run as a script it speaks on stdio."""

from mcp.server.mcpserver import MCPServer


def make_server() -> MCPServer:
    """A server with one small tool."""
    server = MCPServer("bench")

    @server.tool()
    async def find(query: str, limit: int = 10) -> dict[str, int]:
        """Find something."""
        return {query: limit}

    return server


if __name__ == "__main__":
    make_server().run("stdio")
