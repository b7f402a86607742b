"""Load a document from a file, a URL or a dict."""

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from wieldy.core.arguments.yaml_reader import read_yaml_text
from wieldy.core.bounded_json import NestedTooDeep, parse_json
from wieldy.core.errors import DocumentError, ServiceError
from wieldy.core.network.http_client import Client

Source = str | os.PathLike[str] | Mapping[str, Any]

MAX_DOCUMENT = 100_000_000
_URL = re.compile(r"https?://", re.IGNORECASE)
# A reference that leads out of the document. The pattern may find too many, but misses none that
# is written plainly. One that it misses is found later, and is not followed then.
_OUTWARD = re.compile(r"""\$ref["']?\s*+:\s*+(?!["']?#)""")


class LoadedDocument:
    """A document as data, with its address: a URL, a file's URI, or nothing for a dict.

    `asked` is the address that was requested, before any redirect.
    """

    __slots__ = ("address", "asked", "data", "refers_outward", "shown")

    def __init__(
        self, address: str, shown: str, data: Any, refers_outward: bool, asked: str | None = None
    ) -> None:
        self.address = address
        self.asked = asked or address
        self.shown = shown
        self.data = data
        self.refers_outward = refers_outward


async def load_document(source: Source, client: Client) -> LoadedDocument:
    """Read a document; `DocumentError` says why it can't be."""
    if isinstance(source, Mapping):
        return LoadedDocument("", "The OpenAPI document", source, True)
    if not isinstance(source, str | os.PathLike):
        kind = type(source).__name__
        raise DocumentError("The OpenAPI document", f"expected a file, a URL or a dict, got {kind}")
    text = os.fspath(source)
    if _URL.match(text):
        client.allow(text)
        return await load_address(text, client)
    if "\n" in text or text.lstrip()[:1] == "{":
        raise DocumentError(
            "The OpenAPI document", "this is its text. Pass a file, a URL, or json.loads(text)."
        )
    # Reading and parsing take a while, and the event loop has others to serve.
    return await asyncio.to_thread(_load_file, Path(text))


async def load_address(address: str, client: Client) -> LoadedDocument:
    """Read the document at a URL or a file's URI; a redirect may change its address."""
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise DocumentError(repr(address), f"it is no address: {error}") from None
    if parts.scheme == "file":
        return await asyncio.to_thread(_load_file, Path(url2pathname(parts.path)))
    shown = _without_secrets(address)
    try:
        fetched = await client.fetch(address, MAX_DOCUMENT)
    except ServiceError as error:
        raise DocumentError(shown, str(error)) from error
    text = _decode_text(shown, fetched.content)
    return await asyncio.to_thread(_parse_document, fetched.url, shown, text, address)


def _load_file(path: Path) -> LoadedDocument:
    try:
        if path.stat().st_size > MAX_DOCUMENT:
            raise DocumentError(str(path), f"larger than {MAX_DOCUMENT:,} bytes")
        content = path.read_bytes()
        address = path.resolve().as_uri()
    except OSError as error:
        raise DocumentError(str(path), f"it can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DocumentError(repr(str(path)), f"it can't be read: {error}") from error
    return _parse_document(address, str(path), _decode_text(str(path), content))


def _parse_document(
    address: str, shown: str, text: str, asked: str | None = None
) -> LoadedDocument:
    return LoadedDocument(
        address, shown, parse(shown, text), _OUTWARD.search(text) is not None, asked
    )


def parse(shown: str, text: str) -> Any:
    """JSON or YAML text as data."""
    start = text.lstrip()[:1]
    if start == "<":
        raise DocumentError(shown, "it is HTML or XML, not JSON or YAML")
    problem: Exception
    try:
        if start in ("{", "["):
            try:
                return parse_json(text)
            except NestedTooDeep:
                raise
            except ValueError as error:
                problem = error
            try:
                return read_yaml_text(text)
            except ValueError:
                raise DocumentError(shown, f"it is not JSON: {problem}") from problem
        return read_yaml_text(text)
    except DocumentError:
        raise
    except NestedTooDeep as error:
        raise DocumentError(shown, f"it is {error}") from None
    except ValueError as error:
        raise DocumentError(shown, f"it is neither JSON nor YAML: {error}") from error


def _decode_text(shown: str, content: bytes) -> str:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise DocumentError(shown, "it is not text in UTF-8") from None


def _without_secrets(address: str) -> str:
    """The address without its query and user, which may contain secrets."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
