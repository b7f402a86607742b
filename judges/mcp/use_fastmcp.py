"""FastMCP's client against our server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import ClientTransport, StdioTransport, StreamableHttpTransport
from trial import Target, attempt, run


class Session:
    """One connection."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def names(self) -> list[str]:
        """The tools that the server offers."""
        return [tool.name for tool in await self._client.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Call a tool; it raises what fails."""
        return await attempt(lambda: self._client.call_tool(name, arguments))

    async def read_resource(self, uri: str) -> str:
        """What a resource says."""
        return str(await self._client.read_resource(uri))

    async def read_prompt(self, name: str) -> str:
        """What a prompt says."""
        return str(await self._client.get_prompt(name))


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Session]:
    """A connection to a command or an address."""
    command = target.get("command")
    if command:
        way: ClientTransport = StdioTransport(command[0], command[1:])
    else:
        way = StreamableHttpTransport(target["url"], headers=target.get("headers"))
    async with Client(way) as client:
        yield Session(client)


if __name__ == "__main__":
    run(connect)
