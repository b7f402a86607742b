"""The OpenAI Agents SDK's MCP client against our server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp
from trial import Target, run


class Session:
    """One connection."""

    def __init__(self, server: MCPServer) -> None:
        self._server = server

    async def names(self) -> list[str]:
        """The tools that the server offers."""
        return [tool.name for tool in await self._server.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Call a tool; what fails is said in the result."""
        result = await self._server.call_tool(name, arguments)
        plain = result.model_dump(by_alias=True)
        return not plain["isError"], str(plain)

    async def read_resource(self, uri: str) -> str:
        """What a resource says."""
        return str(await self._server.read_resource(uri))

    async def read_prompt(self, name: str) -> str:
        """What a prompt says."""
        return str(await self._server.get_prompt(name))


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Session]:
    """A connection to a command or an address."""
    command = target.get("command")
    server: MCPServer
    if command:
        server = MCPServerStdio({"command": command[0], "args": command[1:]})
    else:
        address = {"url": target["url"], "headers": target.get("headers", {})}
        server = MCPServerStreamableHttp(address)
    async with server:
        yield Session(server)


if __name__ == "__main__":
    run(connect)
