"""Pydantic AI's MCP toolset against our server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset
from trial import Target, attempt, run


class Session:
    """One connection."""

    def __init__(self, toolset: MCPToolset) -> None:
        self._toolset = toolset

    async def names(self) -> list[str]:
        """The tools that the server offers."""
        return [tool.name for tool in await self._toolset.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Call a tool; it raises what fails."""
        return await attempt(lambda: self._toolset.direct_call_tool(name, arguments))

    async def read_resource(self, uri: str) -> str:
        """What a resource says."""
        return str(await self._toolset.read_resource(uri))

    async def read_prompt(self, name: str) -> str:
        """What a prompt says."""
        return str(await self._toolset.get_prompt(name))


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Session]:
    """A connection to a command or an address."""
    command = target.get("command")
    way = StdioTransport(command[0], command[1:]) if command else target["url"]
    async with MCPToolset(way, headers=target.get("headers")) as toolset:
        yield Session(toolset)


if __name__ == "__main__":
    run(connect)
