"""The MCP servers behind the gateway: which there are, how they are, and connect one again."""

from pydantic import Field

from wieldy.mcp.client.server_link import Server

from .answer_shapes import AnswerShape, PlainText
from .api_operations import Asked, NoInput, operation
from .api_problems import not_found

_MAX_LINES = 200
_MAX_CHARACTERS = 20_000


class ServerHealth(AnswerShape):
    """A server and how it is."""

    name: PlainText
    connected: bool
    tools: int = Field(description="How many of its tools you can call.")
    error: PlainText | None = Field(description="Why it is not connected; for administrators.")
    protocol_version: PlainText | None


class ServerDetail(ServerHealth):
    """A server in full."""

    stderr: PlainText | None = Field(
        description="The last lines that its process wrote to stderr; null if it wrote nothing or "
        "has no process here. For administrators."
    )


class ServerList(AnswerShape):
    """The servers by name."""

    servers: list[ServerHealth]


@operation("GET", "/servers", ServerList)
async def list_servers(asked: Asked) -> ServerList:
    """List the MCP servers whose tools you can call; administrators see all."""
    return ServerList(servers=[_describe(each, count, asked) for each, count in await _find(asked)])


@operation("GET", "/servers/{name}", ServerDetail)
async def get_server(asked: Asked) -> ServerDetail:
    """Read how one MCP server is, and what it has written to stderr."""
    for server, count in await _find(asked):
        if server.name == asked.part("name"):
            said = server.stderr if asked.reads_as() else ""
            last = "\n".join(said.splitlines()[-_MAX_LINES:])[-_MAX_CHARACTERS:]
            health = _describe(server, count, asked).model_dump()
            return ServerDetail(**health, stderr=last or None)
    raise not_found("server", "GET /api/servers")


@operation("POST", "/servers/{name}/reconnect", ServerHealth, body=NoInput, roles=("administer",))
async def reconnect_server(asked: Asked) -> ServerHealth:
    """End the connection to a server and open another one, and read its tools again."""
    server = asked.box.mcp.get(asked.part("name"))
    if server is None:
        raise not_found("server", "GET /api/servers")
    await server.reconnect()
    return _describe(server, len(server.tools), asked)


async def _find(asked: Asked) -> list[tuple[Server, int]]:
    """The servers that whoever asks may know of, and how many of their tools they can call."""
    callable_tools = await asked.view.permitted_tools(asked.view.all_visible())
    counts: dict[str, int] = {}
    for tool in callable_tools:
        counts[tool.source] = counts.get(tool.source, 0) + 1
    found = [(server, counts.get(f"mcp:{server.name}", 0)) for server in asked.box.mcp.values()]
    return [(server, count) for server, count in found if count or asked.reads_as()]


def _describe(server: Server, count: int, asked: Asked) -> ServerHealth:
    error = server.error
    return ServerHealth(
        name=server.name,
        connected=error is None,
        tools=count,
        error=str(error) if error is not None and asked.reads_as() else None,
        protocol_version=server.protocol_version,
    )
