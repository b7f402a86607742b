"""A tool of an MCP server as a function, and its result as a response."""

from typing import TYPE_CHECKING, Any

from wieldy.core.call import Outcome
from wieldy.core.context import Context
from wieldy.core.errors import RemoteFailure, ToolFailed
from wieldy.core.schema import untitled
from wieldy.core.tool import Tool

from .blocks import content_of
from .response import ToolResponse, error_response

if TYPE_CHECKING:
    from .clients import MCPClientBase


class MCPToolFunction:
    """A function that calls a server's tool.

    It gives a `ToolResponse`, or with `wrap_tool_result=False` the SDK's own result.
    """

    def __init__(self, client: "MCPClientBase", listed: Tool, wrap_tool_result: bool) -> None:
        self.mcp_name = client.name
        self.name = listed.name
        self.description = listed.description
        self.wrap_tool_result = wrap_tool_result
        self._client = client
        entrance = self._answer if wrap_tool_result else self._answer_raw
        # What is promised of the value is not promised of the SDK's result around it.
        output = listed.output_schema if wrap_tool_result else None
        self.tool = listed.replace(function=entrance, output_schema=output)
        self.json_schema = mcp_schema(self.tool)

    async def __call__(self, **kwargs: Any) -> Any:
        """Call the tool; an error of the server is a response too."""
        async with self._client.session() as box:
            if not self.wrap_tool_result:
                return await box.mcp[self.mcp_name].call_tool(self.name, kwargs)
            outcome = await box.call(self.name, kwargs)
        if outcome.ok:
            return whole_response(outcome)
        error = outcome.error
        said = error.original if isinstance(error, ToolFailed) else outcome.text
        return error_response(f"Error: {said}")

    async def _answer(self, wieldy_context_: Context, **arguments: Any) -> Any:
        async with self._client.session() as box:
            tool = box.get(self.name)
            if tool is None:
                raise RuntimeError(f"{self.mcp_name} has no function {self.name!r} any more")
            return await tool.function(wieldy_context_, **arguments)

    async def _answer_raw(self, **arguments: Any) -> Any:
        async with self._client.session() as box:
            result = await box.mcp[self.mcp_name].call_tool(self.name, arguments)
        if result.is_error:
            raise RawFailure(result)
        return result


class RawFailure(RemoteFailure):
    """An error of a server, on its way to a caller who wants the SDK's own result."""

    def __init__(self, result: Any) -> None:
        said = "".join(getattr(item, "text", "") for item in result.content)
        super().__init__(said or "it failed and did not say why")
        self.result = result


def mcp_schema(tool: Tool) -> dict[str, Any]:
    """The schema of a server's tool: all of it, without titles."""
    parameters = untitled({"properties": {}, **tool.input_schema, "type": "object"})
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": {**function, "parameters": parameters}}


def whole_response(outcome: Outcome) -> Any:
    """All that a server's tool has shown, as one response; a raw result stays one."""
    if _is_raw(outcome.value):
        return outcome.value
    content = [content_of(block) for block in outcome.content]
    return ToolResponse(content, metadata=outcome.metadata.get("mcp"))


def raw_failure(outcome: Outcome) -> Any:
    """The SDK's result of a call that failed, where its caller wants that; else None."""
    error = outcome.error
    original = error.original if isinstance(error, ToolFailed) else None
    return original.result if isinstance(original, RawFailure) else None


def _is_raw(value: Any) -> bool:
    # A server's tool has run, so the SDK is loaded; programs without one need none.
    from mcp_types import CallToolResult  # noqa: PLC0415

    return isinstance(value, CallToolResult)
