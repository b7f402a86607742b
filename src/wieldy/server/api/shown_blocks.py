"""What a call has shown, block by block, so that each can be shown or cut by itself."""

from typing import Any, Literal

from pydantic import Field

from wieldy.core.block import Audio, Block, Image, Resource, Text
from wieldy.core.call import Outcome
from wieldy.core.limits.handles import parse_handle
from wieldy.core.secrets.covered_content import shown_value
from wieldy.wire.picture_kinds import find_picture_kind, find_picture_size, read_base64

from .answer_shapes import AnswerShape, CutPart, JsonValue, PlainText, cut_long
from .path_parts import write_part

_MAX_BLOCKS = 200
_SCHEME = "artifact://"
# How much of pictures is answered with a call, as base64; the others are read by their address.
_MAX_PICTURE = 1_400_000
_MAX_OF_PICTURES = 4_000_000
# Texts and colour profiles may come before the size of a picture.
_BEGINNING = 400_000

BlockType = Literal["text", "json", "image", "audio", "resource", "resource_link"]


class ArtifactPlace(AnswerShape):
    """Where a text is kept."""

    id: PlainText
    version: int | None
    session: PlainText | None


class ShownBlock(AnswerShape):
    """One piece of what a tool has shown."""

    number: int
    type: BlockType
    text: PlainText | None = None
    value: JsonValue = Field(None, description="Of a block of the type `json`.")
    data: str | None = Field(None, description="A picture in base64, if it is one and not large.")
    mime_type: PlainText | None = Field(
        None, description="For a picture, read from its bytes, or null; otherwise as the tool says."
    )
    width: int | None = Field(None, description="Of a picture in pixels, if its bytes say so.")
    height: int | None = None
    uri: PlainText | None = None
    name: PlainText | None = None
    artifact: ArtifactPlace | None = None
    url: str | None = Field(None, description="Where all of it can be read, as it is.")
    cut: bool = Field(False, description="Whether there is more than is shown here.")


def describe_blocks(outcome: Outcome, whole: bool, stored: bool) -> list[ShownBlock]:
    """What a call has shown; long texts are cut unless the whole is asked for."""
    value = shown_value(outcome)
    blocks = outcome.content
    if isinstance(value, dict | list) and len(blocks) == 1 and isinstance(blocks[0], Text):
        # The one text is the value as JSON.
        cuts: list[CutPart] = []
        shown = cut_long("value", value, whole, cuts)
        kind: BlockType = "text" if cuts else "json"
        facts = {"text": shown} if cuts else {"value": shown}
        return [_make_block(outcome, 0, kind, stored, cut=bool(cuts), **facts)]
    made, room = [], _MAX_OF_PICTURES
    for number, block in enumerate(blocks[:_MAX_BLOCKS]):
        facts = _read_block(block, whole, room)
        room -= len(facts.get("data") or "")
        made.append(_make_block(outcome, number, stored=stored, **facts))
    return made


def find_spilled(outcome: Outcome) -> ArtifactPlace | None:
    """Where the whole of a result is kept that was too large."""
    handle = outcome.metadata.get("spilled")
    return _find_artifact(outcome, handle) if isinstance(handle, str) else None


def _make_block(
    outcome: Outcome, number: int, type: BlockType, stored: bool, **facts: Any
) -> ShownBlock:
    url = f"/api/calls/{write_part(outcome.call.id)}/blocks/{number}"
    return ShownBlock(
        number=number,
        type=type,
        url=url if stored and type != "resource_link" else None,
        artifact=_find_artifact(outcome, facts.get("uri")),
        **facts,
    )


def _read_block(block: Block, whole: bool, room: int) -> dict[str, Any]:
    """The facts of a block."""
    if isinstance(block, Image):
        return {"type": "image", **_read_picture(block.data, room)}
    if isinstance(block, Audio):
        return {"type": "audio", "mime_type": block.mime_type, "cut": True}
    if isinstance(block, Resource):
        return _read_resource(block, whole)
    return {"type": "text", **_cut_text(getattr(block, "text", ""), whole)}


def _read_picture(data: str, room: int) -> dict[str, Any]:
    # The kind and the size are at the beginning; four characters of base64 are three bytes.
    text = "".join(data[:_BEGINNING].split())
    beginning = read_base64(text[: len(text) // 4 * 4]) or b""
    kind = find_picture_kind(beginning)
    width, height = find_picture_size(beginning) or (None, None)
    small = len(data) <= min(_MAX_PICTURE, room)
    shown = data if kind and small else None
    return {"mime_type": kind, "data": shown, "width": width, "height": height, "cut": not small}


def _read_resource(block: Resource, whole: bool) -> dict[str, Any]:
    facts = {"mime_type": block.mime_type, "uri": block.uri, "name": block.name}
    if block.text is not None:
        return {"type": "resource", **facts, **_cut_text(block.text, whole)}
    if block.data is not None:
        return {"type": "resource", **facts, "cut": True}
    return {"type": "resource_link", **facts}


def _cut_text(text: str, whole: bool) -> dict[str, Any]:
    cuts: list[CutPart] = []
    return {"text": cut_long("text", text, whole, cuts), "cut": bool(cuts)}


def _find_artifact(outcome: Outcome, uri: Any) -> ArtifactPlace | None:
    if not isinstance(uri, str) or not uri.startswith(_SCHEME):
        return None
    try:
        id, version = parse_handle(uri)
    except ValueError:
        return None
    return ArtifactPlace(id=id, version=version, session=outcome.call.scope.session)
