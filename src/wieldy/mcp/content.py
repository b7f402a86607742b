"""What a server answers to a call, as the values of the core."""

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
import mcp_types as types

from wieldy.core.arguments import refuse_reference
from wieldy.core.block import Block, Text, join_text, read_block
from wieldy.core.errors import RemoteFailure

Check = Callable[[Any], None]
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
    """Raise what the tool itself calls an error."""
    if result.is_error:
        said = join_text(blocks) or "it failed and did not say why"
        raise RemoteFailure(said, blocks)


def plain_value(blocks: list[Block]) -> Any:
    """The value of an answer that has no structured one: its text if that is all there is."""
    if not blocks:
        return None
    return blocks[0].text if len(blocks) == 1 and isinstance(blocks[0], Text) else blocks


def meta_of(result: types.CallToolResult) -> dict[str, Any] | None:
    """What the server noted beside its answer, without the protocol's own notes."""
    noted = result.meta
    if not noted:
        return None
    own = {key: value for key, value in noted.items() if not key.startswith(_PROTOCOL)}
    return own or None


def output_check(schema: Mapping[str, Any]) -> Check:
    """What holds structured content to its schema; raises for a schema that can't be used."""
    validator = jsonschema_rs.validator_for(dict(schema), retriever=refuse_reference, mask="it")

    def check(value: Any) -> None:
        error = next(validator.iter_errors(value), None)
        if error is not None:
            place = "/".join(map(str, error.instance_path))
            where = f" at {place}" if place else ""
            raise RemoteFailure(
                f"its result does not fit its output schema{where}: {error.message}"
            )

    return check
