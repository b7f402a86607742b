"""A tool of an MCP server as a function."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wieldy.core.context import Context
from wieldy.core.errors import RemoteFailure, ToolFailed
from wieldy.core.limits.limits import Limits
from wieldy.core.task import time_limit
from wieldy.core.tool import Tool

from .function_schema import function_schema
from .tool_response import Accumulated, text_response

if TYPE_CHECKING:
    from .mcp_clients import SessionClient


class MCPToolFunction:
    """A function that calls a server's tool.

    It gives a `ToolResponse`, or with `wrap_tool_result=False` the SDK's own result.
    """

    def __init__(
        self, client: "SessionClient", listed: Tool, wrap_tool_result: bool, timeout: float | None
    ) -> None:
        self.mcp_name = client.name
        self.name = listed.name
        self.description = listed.description
        self.wrap_tool_result = wrap_tool_result
        self._client = client
        self._timeout = timeout
        changes: dict[str, Any] = {"function": self._answer_call}
        if not wrap_tool_result:
            # The output schema describes the value, not the SDK's result that contains it.
            changes = {"function": self._answer_raw, "output_schema": None}
        if timeout is not None:
            changes["limits"] = Limits(timeout=timeout)
        self.tool = listed.replace(**changes)
        self.json_schema = function_schema(self.tool)

    async def __call__(self, **kwargs: Any) -> Any:
        """Call the tool; an error of the server is a response too."""
        async with time_limit(self._timeout), self._client.session() as box:
            if not self.wrap_tool_result:
                return await box.mcp[self.mcp_name].call_tool(self.name, kwargs)
            outcome = await box.call(self.name, kwargs)
        if outcome.ok:
            return Accumulated().with_rest(outcome.content, outcome.metadata.get("mcp"))
        error = outcome.error
        said = error.original if isinstance(error, ToolFailed) else outcome.text
        return text_response(f"Error: {said}")

    async def _answer_call(self, wieldy_context_: Context, **arguments: Any) -> Any:
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


class OwnFunction:
    """A function that a client of the user's own gives for a server's tool."""

    def __init__(self, mcp_name: str, listed: Any, function: Callable[..., Any]) -> None:
        self.mcp_name = mcp_name
        self.name = self.__name__ = str(listed.name)
        self.__doc__ = listed.description
        self._function = function
        # The SDK has had two names for it.
        parameters = getattr(listed, "input_schema", None) or getattr(listed, "inputSchema", None)
        described = {"name": self.name, "description": listed.description or ""}
        plain = parameters or {"type": "object", "properties": {}}
        schema = {"type": "function", "function": {**described, "parameters": plain}}
        self.json_schema: dict[str, Any] = getattr(function, "json_schema", None) or schema

    async def __call__(self, **kwargs: Any) -> Any:
        """Call the function."""
        answer = self._function(**kwargs)
        return await answer if inspect.isawaitable(answer) else answer


class RawFailure(RemoteFailure):
    """An error of a server, on its way to a caller who wants the SDK's own result."""

    def __init__(self, result: Any) -> None:
        said = "".join(getattr(item, "text", "") for item in result.content)
        super().__init__(said or "it failed and did not say why")
        self.result = result


def is_raw_result(value: Any) -> bool:
    """Whether this is the SDK's own result."""
    # The SDK is loaded by now, because a server's tool has run. Other programs don't need it.
    from mcp_types import CallToolResult  # noqa: PLC0415

    return isinstance(value, CallToolResult)
