"""Parts of a call as they are: each block, and its arguments and result, of any size."""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from wieldy.core.block import Audio, Block, Image, Resource
from wieldy.store.ledger_entry import Entry
from wieldy.wire.picture_kinds import find_picture_kind, read_base64

from .answer_shapes import clean_text, dump_answer
from .api_operations import ANSWER_HEADERS, Asked, operation
from .api_problems import not_found
from .call_resource import find_call

_LISTING = "GET /api/calls/{call_id}"
OCTETS = "application/octet-stream"
_PARTS: dict[str, Callable[[Entry], Any]] = {
    "arguments": lambda entry: entry.call.arguments,
    "value": lambda entry: entry.value,
    "metadata": lambda entry: entry.metadata,
}


@operation("GET", "/calls/{call_id}/blocks/{number}", None, media_type=OCTETS)
async def get_block(asked: Asked) -> Response:
    """Read one block of what a call has shown, as it is.

    A picture comes with the type that its bytes have. Anything else comes as a download.
    """
    entry = await find_call(asked, asked.part("call_id"))
    number = asked.part("number")
    blocks = entry.content if entry.ended else ()
    known = number.isascii() and number.isdecimal() and len(number) < 9
    if not known or int(number) >= len(blocks):
        raise not_found("block", _LISTING)
    return _serve_bytes(_read_bytes(blocks[int(number)]), f"block-{number}")


@operation("GET", "/calls/{call_id}/raw/{part}", None, media_type=OCTETS)
async def get_part(asked: Asked) -> Response:
    """Read the `arguments`, the `value` or the `metadata` of a call whole, as a JSON download."""
    entry = await find_call(asked, asked.part("call_id"))
    part = asked.part("part")
    if part not in _PARTS:
        raise not_found("part", _LISTING)
    # It may be large, and others must not wait for it.
    content = await asyncio.to_thread(_write_part, entry, part)
    return _serve_bytes(content, part, "json")


def _serve_bytes(content: bytes, name: str, suffix: str = "bin") -> Response:
    kind = find_picture_kind(content)
    if kind is not None:
        shown = f'inline; filename="{name}.{kind.partition("/")[2]}"'
        return Response(content, 200, {**ANSWER_HEADERS, "content-disposition": shown}, kind)
    return serve_file(content, f"{name}.{suffix}")


def serve_file(content: bytes, name: str) -> Response:
    """Bytes as a download of this name, under a type that no browser opens."""
    saved = f'attachment; filename="{name}"'
    return Response(content, 200, {**ANSWER_HEADERS, "content-disposition": saved}, OCTETS)


def _read_bytes(block: Block) -> bytes:
    text = getattr(block, "text", None)
    if isinstance(block, Image | Audio | Resource) and text is None:
        data = block.data or ""
        found = read_base64(data)
        return data.encode("utf-8", "replace") if found is None else found
    return str(text).encode("utf-8", "replace")


def _write_part(entry: Entry, part: str) -> bytes:
    return str(clean_text(dump_answer(_PARTS[part](entry)))).encode()
