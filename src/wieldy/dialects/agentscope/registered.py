"""What is known of a registered function and of a group."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from .blocks import ToolUseBlock
from .response import ToolResponse
from .schema import extended

if TYPE_CHECKING:
    from .toolkit import Toolkit

Postprocess = Callable[
    [ToolUseBlock, ToolResponse], ToolResponse | Awaitable[ToolResponse | None] | None
]


@dataclass
class ToolGroup:
    """A named set of tools that is switched on and off together."""

    name: str
    active: bool
    description: str
    notes: str | None = None


@dataclass
class RegisteredToolFunction:
    """A function as it was registered, and its schema."""

    name: str
    group: str
    source: str
    original_func: Callable[..., Any]
    json_schema: dict[str, Any]
    preset_kwargs: dict[str, Any] = field(default_factory=dict)
    extended_model: type[BaseModel] | None = None
    mcp_name: str | None = None
    postprocess_func: Postprocess | None = None
    toolkit: "Toolkit | None" = field(default=None, repr=False, compare=False)

    @property
    def extended_json_schema(self) -> dict[str, Any]:
        """The schema with the fields of the extended model."""
        if self.extended_model is None:
            return self.json_schema
        return extended(self.name, self.json_schema, self.extended_model)

    def call(
        self, *, arguments: Mapping[str, Any] | None = None, stream_print: bool | None = None
    ) -> AsyncIterator[ToolResponse]:
        """Call the function; gives its responses as they come, and prints them if asked."""
        assert self.toolkit is not None
        block = ToolUseBlock(
            type="tool_use", id=self.name, name=self.name, input=dict(arguments or {})
        )
        stream = self.toolkit.call_tool_function(block)
        return _printed(stream) if stream_print else stream


async def _printed(stream: AsyncIterator[ToolResponse]) -> AsyncIterator[ToolResponse]:
    shown = ""
    async for response in stream:
        text = "".join(str(item.get("text", "")) for item in response.content)
        # The one place where a library prints: its users asked for it.
        print(text.removeprefix(shown), end="", flush=True)  # noqa: T201
        shown = text
        yield response
