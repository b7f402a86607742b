"""The client of mcp-use against our server."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

# It would report its use elsewhere, and reads this when it is imported.
os.environ["MCP_USE_ANONYMIZED_TELEMETRY"] = "false"

from mcp_use import MCPClient
from mcp_use.client.session import MCPSession
from trial import Target, run

# It logs to stdout, where the report goes.
logging.disable()


class Session:
    """One connection."""

    def __init__(self, session: MCPSession) -> None:
        self._session = session

    async def names(self) -> list[str]:
        """The tools that the server offers."""
        return [tool.name for tool in await self._session.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Call a tool; what fails is said in the result, or raised."""
        try:
            result = await self._session.call_tool(name, arguments)
        except Exception as error:
            return False, str(error)
        plain = result.model_dump(by_alias=True)
        return not plain["isError"], str(plain)

    async def read_resource(self, uri: str) -> str:
        """What a resource says."""
        return str(await self._session.read_resource(uri))

    async def read_prompt(self, name: str) -> str:
        """What a prompt says."""
        return str(await self._session.get_prompt(name))


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Session]:
    """A connection to a command or an address."""
    command = target.get("command")
    if command:
        server: dict[str, Any] = {"command": command[0], "args": command[1:]}
    else:
        server = {"url": target["url"], "headers": target.get("headers", {})}
    client = MCPClient.from_dict({"mcpServers": {"box": server}})
    try:
        yield Session(await client.create_session("box"))
    finally:
        await client.close_all_sessions()


if __name__ == "__main__":
    run(connect)
