"""What the tests of the AgentScope dialect share: calls, and functions to be called."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from pydantic import BaseModel

from wieldy.dialects.agentscope import TextBlock, Toolkit, ToolResponse, ToolUseBlock


def use(name: str, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(type="tool_use", id="u1", name=name, input=arguments)


def says(text: str, **facts: Any) -> ToolResponse:
    return ToolResponse(content=[TextBlock(type="text", text=text)], **facts)


def text_of(response: ToolResponse) -> str:
    return "".join(str(item.get("text", "")) for item in response.content)


async def call(toolkit: Toolkit, name: str, **arguments: Any) -> list[ToolResponse]:
    return [chunk async for chunk in await toolkit.call_tool_function(use(name, **arguments))]


async def answer(toolkit: Toolkit, name: str, **arguments: Any) -> str:
    (response,) = await call(toolkit, name, **arguments)
    return text_of(response)


def parameters(toolkit: Toolkit, index: int = -1) -> dict[str, Any]:
    found: dict[str, Any] = toolkit.get_json_schemas()[index]["function"]["parameters"]
    return found


class City(BaseModel):
    """A city."""

    name: str
    near: "list[City]" = []


def weather(
    city: str, days: int = 3, unit: Literal["c", "f"] = "c", *args: Any, **kwargs: Any
) -> ToolResponse:
    """Tell the weather.

    It is a forecast, in words.

    Args:
        city: where
        days (int): how many days
    """
    return says(f"{city} {days} {unit} {args} {kwargs}")


def sync_tool(n: int) -> ToolResponse:
    """One."""
    return says(f"got {n}", metadata={"n": n})


async def async_tool(n: int) -> ToolResponse:
    """Two."""
    await asyncio.sleep(0)
    return says(f"got {n}", metadata={"n": n})


def sync_stream(n: int) -> Iterator[ToolResponse]:
    """Three."""
    text = ""
    for i in range(n):
        text += str(i)
        yield says(text, stream=True, is_last=False)


async def async_stream(n: int) -> AsyncIterator[ToolResponse]:
    """Four."""
    for chunk in sync_stream(n):
        await asyncio.sleep(0)
        yield chunk


async def later_sync_stream(n: int) -> Iterator[ToolResponse]:
    """Five."""
    return sync_stream(n)


async def later_async_stream(n: int) -> AsyncIterator[ToolResponse]:
    """Six."""
    return async_stream(n)
