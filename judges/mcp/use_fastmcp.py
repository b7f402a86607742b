"""FastMCP's client against our server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
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


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Session]:
    """A connection to a command or an address."""
    command = target.get("command")
    way = StdioTransport(command[0], command[1:]) if command else target["url"]
    async with Client(way) as client:
        yield Session(client)


if __name__ == "__main__":
    run(connect)
