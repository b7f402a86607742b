"""Convert an API's response to a value, to content, or to an error."""

import codecs
from collections.abc import Mapping
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

from wieldy.core.block import Audio, Image, Resource
from wieldy.core.bounded_json import dump_json, parse_json
from wieldy.core.errors import ServiceError
from wieldy.core.network.http_client import HttpResponse
from wieldy.core.short_text import cut_text

from .document import Node
from .operation import Operation
from .operation_arguments import choose_media, is_json, plain_media
from .schema import Schemas, refusal

_MAX_BODY = 4000
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
# Python's own codecs and codecs for host names, some of which are extremely slow.
_ODD_CHARSETS = ("punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7")
_TEXT = (
    "application/xml", "application/javascript", "application/yaml", "application/x-yaml",
    "application/x-www-form-urlencoded", "application/x-ndjson", "application/graphql",
)  # fmt: skip


def read_response(operation: Operation, response: HttpResponse, hint: str = "") -> Any:
    """The value of a response; `ServiceError` if its status is an error."""
    if not 200 <= response.status < 300:
        raise failure(operation, response, hint)
    if operation.method == "HEAD":
        return {"status": response.status, "headers": dict(response.headers)}
    if not response.content:
        return None
    return _response_value(response)


def failure(operation: Operation, response: HttpResponse, hint: str) -> ServiceError:
    """The error for a response, with its status and the beginning of its text."""
    body = cut_text(_error_text(response), _MAX_BODY)
    status = f"{response.status} {response.reason}".strip()
    message = f"{operation.title}: {status}" + (f": {body}" if body else "")
    return ServiceError(
        message + (hint if response.status in (401, 403) else ""),
        status=response.status,
        body=body,
        temporary=response.status in _TEMPORARY,
        retry_after=response.retry_after,
    )


def accepted_types(operation: Operation) -> str:
    """The media types that the document promises, for the Accept header."""
    success = _success_response(operation)
    content = success.get("content") if success is not None else None
    media = [str(each) for each in content] if isinstance(content, Mapping) else []
    printable = [each for each in media if each.isascii() and each.isprintable()]
    return ", ".join(sorted(printable, key=lambda each: not is_json(plain_media(each)))) or "*/*"


def response_schema(operation: Operation) -> dict[str, Any] | None:
    """The schema of a successful response, if it is JSON and the document has one."""
    success = _success_response(operation)
    content = success.child("content") if success is not None else None
    if content is None or not isinstance(content.value, Mapping):
        return None
    media = choose_media({str(key): value for key, value in content.value.items()})
    if media is None or not is_json(plain_media(media)):
        return None
    node = content.child(media).child("schema")
    if not isinstance(node.value, Mapping):
        return None
    schema = Schemas(operation.document, "writeOnly").whole(node)
    # A schema that can't be checked is not promised to clients.
    return schema if schema and refusal(schema) is None else None


def _success_response(operation: Operation) -> Node | None:
    responses = operation.node.child("responses")
    if not isinstance(responses.value, Mapping):
        return None
    codes = sorted(str(code) for code in responses.value if str(code)[:1] == "2")
    for code in [*codes, "default"]:
        found = operation.document.follow(responses.child(code))
        if found is not None and isinstance(found.get("content"), Mapping):
            return found
    return None


def _response_value(response: HttpResponse) -> Any:
    media = plain_media(response.headers.get("content-type", ""))
    if is_json(media):
        try:
            return parse_json(_decode_text(response))
        except ValueError:
            return _decode_text(response)
    if media.startswith("image/"):
        return Image(response.content, media)
    if media.startswith("audio/"):
        return Audio(response.content, media)
    if _is_text(media) or (not media and _is_utf8(response.content)):
        return _decode_text(response)
    parts = urlsplit(response.url)
    # The query is left out, because it may contain a key.
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return Resource(address, data=response.content, mime_type=media or "application/octet-stream")


def _is_text(media: str) -> bool:
    return media.startswith("text/") or media in _TEXT or media.endswith(("+xml", "+yaml"))


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\x00" not in content


def _error_text(response: HttpResponse) -> str:
    """The text of an error: JSON on one line, text unchanged, or the size of other data."""
    if not response.content:
        return ""
    value = _response_value(response)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Image | Audio | Resource):
        return f"({len(response.content):,} bytes of {value.mime_type})"
    return dump_json(value, ensure_ascii=False)


def _decode_text(response: HttpResponse) -> str:
    head = Message()
    head["Content-Type"] = response.headers.get("content-type", "").replace("\n", " ")
    try:
        charset = codecs.lookup(head.get_content_charset() or "utf-8").name
        return response.content.decode("utf-8" if charset in _ODD_CHARSETS else charset, "replace")
    except (LookupError, ValueError):
        return response.content.decode("utf-8", "replace")
