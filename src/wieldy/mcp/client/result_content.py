"""Convert a server's answer to a call into blocks and values."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types

from wieldy.core.block import Block, Text, join_text, read_block
from wieldy.core.errors import RemoteFailure
from wieldy.core.schema.result_wrapping import is_wrapped

_PROTOCOL = "io.modelcontextprotocol/"


def to_block(item: Any) -> Block:
    """One piece of a server's content."""
    if isinstance(item, types.TextContent):
        return Text(item.text)
    return read_block(item.model_dump(by_alias=True, mode="json", exclude_none=True))


def blocks_of(result: types.CallToolResult) -> list[Block]:
    """All pieces of an answer, in order."""
    return [to_block(item) for item in result.content]


def raise_if_failed(result: types.CallToolResult, blocks: list[Block]) -> None:
    """Raise if the tool reports an error."""
    if result.is_error:
        said = join_text(blocks) or "it failed and did not say why"
        raise RemoteFailure(said, blocks)


def unstructured_value(blocks: list[Block]) -> Any:
    """The value of an answer without structured content: its text, or its blocks."""
    if not blocks:
        return None
    return blocks[0].text if len(blocks) == 1 and isinstance(blocks[0], Text) else blocks


def meta_of(result: types.CallToolResult) -> dict[str, Any] | None:
    """The `_meta` of an answer, without the protocol's own entries."""
    noted = result.meta
    if not noted:
        return None
    own = {key: value for key, value in noted.items() if not key.startswith(_PROTOCOL)}
    return own or None


def structured_value(
    result: types.CallToolResult, schema: Mapping[str, Any] | None
) -> tuple[Any, bool]:
    """The structured content, and whether it was unwrapped because of a mark."""
    content = result.structured_content
    marked = _is_marked(result) if schema is None else is_wrapped(schema)
    unwraps = marked and isinstance(content, Mapping) and "result" in content
    return (content["result"], True) if unwraps else (content, False)


def _is_marked(result: types.CallToolResult) -> bool:
    """Whether the `_meta` of FastMCP says that the value is under `result`."""
    noted = (result.meta or {}).get("fastmcp")
    return isinstance(noted, Mapping) and noted.get("wrap_result") is True
