"""MCP clients of both eras, and how they are told things."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitResult, TextContent

from wieldy.core.network.server_trust import trusted_context

Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, Mode] = ("auto", "legacy")
Elicit = Callable[[Any, Any], Awaitable[ElicitResult]]


def text_of(result: CallToolResult) -> str:
    """The text of a result."""
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


class Person:
    """Somebody at a client who answers questions, and what they were asked."""

    def __init__(self, **content: Any) -> None:
        self.asked: list[str] = []
        self.action: Literal["accept", "decline", "cancel"] = "accept"
        self.content = content or {"approve": True}

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        """Answer."""
        self.asked.append(params.message)
        content = self.content if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)


@asynccontextmanager
async def connected(
    url: str,
    token: str | None = None,
    mode: Mode = "auto",
    headers: dict[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    """A client of a server over HTTP."""
    headers = dict(headers or {})
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with httpx2.AsyncClient(headers=headers, timeout=120, verify=trusted_context()) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, **options) as client:
            yield client


async def soon(event: asyncio.Event) -> None:
    """Wait for something that should come, not for ever."""
    async with asyncio.timeout(120):
        await event.wait()
