"""Read pictures, files and sound in a program's messages, in one way for all providers.

Parts have the form of OpenAI's chat API: text, image_url, file or input_audio. A part of any
other type belongs to the provider and is passed on unchanged.
"""

import base64
import binascii
import mimetypes
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from .model import Content

Part: TypeAlias = dict[str, Any]
_PLAIN_TEXT = "text/plain"


class Media:
    """A picture, a file or sound, as base64 data or as an address.

    `uri` is a URL, and `file_id` the provider's id of a file that was uploaded to it before.
    """

    __slots__ = ("data", "detail", "file_id", "kind", "mime_type", "name", "uri")

    def __init__(
        self,
        kind: str,
        mime_type: str = "",
        data: str = "",
        uri: str = "",
        *,
        file_id: str = "",
        name: str = "",
        detail: str = "",
    ) -> None:
        self.kind = kind
        self.mime_type = mime_type
        self.data = data
        self.uri = uri
        self.file_id = file_id
        self.name = name
        self.detail = detail

    @property
    def url(self) -> str:
        """The URL of the data, or the data itself as a `data:` URL."""
        return f"data:{self.mime_type};base64,{self.data}" if self.data else self.uri


def translate_parts(
    content: Content, text: Callable[[str], Part], media: Callable[[Media], Part]
) -> list[Part]:
    """The content as parts in a provider's format, without empty texts."""
    if isinstance(content, str):
        return [text(content)] if content else []
    parts = [_translate_part(part, text, media) for part in content]
    return [part for part in parts if part is not None]


def plain_text(content: Content) -> str:
    """The text of the content, for places that accept only text."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "\n".join(each for each in texts if isinstance(each, str))


def _translate_part(
    part: Mapping[str, Any] | str, text: Callable[[str], Part], media: Callable[[Media], Part]
) -> Part | None:
    if isinstance(part, str):
        return text(part) if part else None
    kind = part.get("type")
    if kind == "text" and {*part} <= {"type", "text"}:
        return text(part["text"]) if part.get("text") else None
    read = _READ.get(str(kind))
    inner = part.get(str(kind))
    if read is None or inner is None:
        return dict(part)
    return media(read(inner))


def _read_image(inner: Any) -> Media:
    sent = inner if isinstance(inner, Mapping) else {"url": inner}
    found = _from_url("image", str(sent.get("url", "")), "image/png")
    found.detail = str(sent.get("detail") or "")
    return found


def _read_file(inner: Any) -> Media:
    sent = inner if isinstance(inner, Mapping) else {"file_data": inner}
    name = str(sent.get("filename") or "")
    if sent.get("file_id"):
        return Media("file", file_id=str(sent["file_id"]), name=name)
    guess = mimetypes.guess_type(name)[0] or "application/pdf"
    found = _from_url("file", str(sent.get("file_data") or sent.get("file_url") or ""), guess)
    found.name = name
    return found


def _read_audio(inner: Any) -> Media:
    sent = inner if isinstance(inner, Mapping) else {}
    kind = str(sent.get("format") or "wav")
    mime_type = "audio/mpeg" if kind == "mp3" else f"audio/{kind}"
    return Media("audio", mime_type, str(sent.get("data") or ""))


_READ: dict[str, Callable[[Any], Media]] = {
    "image_url": _read_image,
    "file": _read_file,
    "input_audio": _read_audio,
}


def _from_url(kind: str, url: str, guess: str) -> Media:
    """The media at a URL or in a `data:` URL; text that is no URL is read as base64."""
    if url[:5].lower() == "data:":
        return _from_data_url(kind, url, guess)
    if "://" in url[:20]:
        found = mimetypes.guess_type(url.partition("?")[0])[0]
        return Media(kind, found or guess, uri=url)
    if not _is_base64(url):
        raise ValueError(f"A part of type {kind} holds neither a URL nor base64: {url[:80]!r}")
    return Media(kind, guess, url)


def _from_data_url(kind: str, url: str, guess: str) -> Media:
    head, _, body = url[5:].partition(",")
    mime_type, *flags = head.split(";")
    if "base64" not in (flag.strip().lower() for flag in flags):
        body = base64.b64encode(unquote_to_bytes(body)).decode("ascii")
    elif not _is_base64(body):
        raise ValueError(f"A part of type {kind} holds a data: URL whose base64 can't be read")
    return Media(kind, mime_type or (guess if flags else _PLAIN_TEXT), body)


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False
