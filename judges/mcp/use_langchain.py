"""LangChain's MCP adapters against our server."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from trial import Target, attempt, run


class Session:
    """One set of tools."""

    def __init__(self, client: MultiServerMCPClient, tools: Sequence[BaseTool]) -> None:
        self._client = client
        self._tools = {tool.name: tool for tool in tools}

    async def names(self) -> list[str]:
        """The tools that the server offers."""
        return list(self._tools)

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Call a tool; it raises what fails."""
        if name not in self._tools:
            return False, f"there is no {name}"
        return await attempt(lambda: self._tools[name].ainvoke(arguments))

    async def read_resource(self, uri: str) -> str:
        """What a resource says."""
        [found] = await self._client.get_resources("box", uris=uri)
        return found.as_string()

    async def read_prompt(self, name: str) -> str:
        """What a prompt says."""
        return str(await self._client.get_prompt("box", name))


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Session]:
    """The tools of a command or an address; this library connects anew for each call."""
    command = target.get("command")
    if command:
        server = {"transport": "stdio", "command": command[0], "args": command[1:]}
    else:
        server = {
            "transport": "streamable_http",
            "url": target["url"],
            "headers": target.get("headers", {}),
        }
    client = MultiServerMCPClient({"box": server}, handle_tool_errors=False)
    yield Session(client, await client.get_tools())


if __name__ == "__main__":
    run(connect)
