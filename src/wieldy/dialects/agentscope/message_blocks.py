"""Content and calls as the dicts that AgentScope's messages are made of."""

from collections.abc import Mapping
from typing import Any, Literal, Required, TypedDict

from wieldy.core.block import Audio, Block, Image, Resource, Text


class TextBlock(TypedDict, total=False):
    """Text."""

    type: Required[Literal["text"]]
    text: str


class Base64Source(TypedDict, total=False):
    """Bytes, as base64 text."""

    type: Required[Literal["base64"]]
    media_type: Required[str]
    data: Required[str]


class URLSource(TypedDict, total=False):
    """Something with an address."""

    type: Required[Literal["url"]]
    url: Required[str]


class ImageBlock(TypedDict, total=False):
    """A picture."""

    type: Required[Literal["image"]]
    source: Required[Base64Source | URLSource]


class AudioBlock(TypedDict, total=False):
    """Sound."""

    type: Required[Literal["audio"]]
    source: Required[Base64Source | URLSource]


class ToolUseBlock(TypedDict, total=False):
    """A call, as a model made it."""

    type: Required[Literal["tool_use"]]
    id: Required[str]
    name: Required[str]
    input: Required[dict[str, Any] | None]


Content = TextBlock | ImageBlock | AudioBlock


def text_block(text: str) -> TextBlock:
    """A text block."""
    return TextBlock(type="text", text=text)


def show_block(block: Block) -> Content:
    """A block of Wieldy as one of AgentScope; a kind that AgentScope lacks becomes text."""
    if isinstance(block, Text):
        return text_block(block.text)
    if isinstance(block, Image | Audio):
        source = Base64Source(type="base64", media_type=block.mime_type, data=block.data)
        if isinstance(block, Image):
            return ImageBlock(type="image", source=source)
        return AudioBlock(type="audio", source=source)
    if isinstance(block, Resource) and block.text is not None:
        return text_block(block.text)
    return text_block(str(block.to_dict()))


def read_message_block(content: Mapping[str, Any]) -> Block:
    """A block of AgentScope as one of Wieldy."""
    kind, source = content.get("type"), content.get("source") or {}
    if kind in ("image", "audio") and source.get("type") == "url":
        return Resource(str(source.get("url")), name=str(kind))
    if kind == "image":
        return Image(str(source.get("data")), str(source.get("media_type", "image/png")))
    if kind == "audio":
        return Audio(str(source.get("data")), str(source.get("media_type", "audio/wav")))
    return Text(str(content.get("text", "")) if kind == "text" else str(dict(content)))
