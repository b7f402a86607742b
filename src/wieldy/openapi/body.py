"""Write the body of a request in its media type."""

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from wieldy.core.bounded_json import dump_json

from .operation_arguments import Body, is_json, plain_media
from .style import form_pairs, parameter_text

_NOT_GIVEN: Any = object()


def write_body(body: Body, values: Mapping[str, Any]) -> tuple[bytes, str] | None:
    """The bytes and the media type; None if there is no body."""
    given = _gather_body(body, values)
    if given is _NOT_GIVEN:
        return None
    plain = plain_media(body.media)
    if is_json(plain):
        media = "application/json" if "*" in plain else body.media
        text = dump_json(given, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace"), media
    if isinstance(given, Mapping) and plain == "application/x-www-form-urlencoded":
        pairs = [
            f"{name}={text}"
            for field, value in given.items()
            for name, text in form_pairs(field, value, _field_encoding(body, field))
        ]
        return "&".join(pairs).encode("ascii"), plain
    if isinstance(given, Mapping) and plain.startswith("multipart/"):
        return _write_multipart(body, given, plain)
    is_text = plain.startswith("text/") or plain == "application/x-www-form-urlencoded"
    return (_plain_octets(given) if is_text else _value_octets(given)[0]), body.media


def _gather_body(body: Body, values: Mapping[str, Any]) -> Any:
    if body.fields is None:
        return values.get(body.argument, _NOT_GIVEN)
    found = {name: values[arg] for arg, name in body.fields.items() if arg in values}
    return found if found or body.required else _NOT_GIVEN


def _field_encoding(body: Body, field: str) -> Mapping[str, Any]:
    encoding = body.encoding.get(field)
    return encoding if isinstance(encoding, Mapping) else {}


def _write_multipart(body: Body, given: Mapping[str, Any], plain: str) -> tuple[bytes, str]:
    boundary = secrets.token_hex(16)
    parts: list[bytes] = []
    for field, value in given.items():
        # A list, of files or of other values, becomes one part per item.
        for each in value if isinstance(value, list | tuple) else [value]:
            parts += [f"--{boundary}\r\n".encode(), _write_part(body, field, each), b"\r\n"]
    parts.append(f"--{boundary}--\r\n".encode())
    return b"".join(parts), f"{plain}; boundary={boundary}"


def _write_part(body: Body, field: str, value: Any) -> bytes:
    is_file = field in body.files
    content, found = _value_octets(value) if is_file else (_plain_octets(value), None)
    asked = _field_encoding(body, field).get("contentType")
    media = asked if isinstance(asked, str) and "," not in asked and "*" not in asked else found
    if isinstance(value, Mapping):
        media = media or "application/json"
    name = _quote_name(field)
    file = f'; filename="{name}"' if is_file else ""
    head = f'Content-Disposition: form-data; name="{name}"{file}\r\n'
    if media:
        head += f"Content-Type: {_one_line(media)}\r\n"
    return head.encode("utf-8") + b"\r\n" + content


def _plain_octets(value: Any) -> bytes:
    return parameter_text(value).encode("utf-8", "replace")


def _value_octets(value: Any) -> tuple[bytes, str | None]:
    """A value as bytes, and the media type that a `data:` address says they have."""
    if not isinstance(value, str) or not value.startswith("data:") or "," not in value:
        return _plain_octets(value), None
    head, _, data = value[5:].partition(",")
    media, *marks = head.split(";")
    content = unquote_to_bytes(data)
    if "base64" in marks:
        try:
            content = base64.b64decode(content, validate=True)
        except binascii.Error:
            raise ValueError("a data: address does not hold base64") from None
    return content, _one_line(media) or "application/octet-stream"


def _quote_name(name: str) -> str:
    return _one_line(name).replace("\\", "%5C").replace('"', "%22")


def _one_line(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
