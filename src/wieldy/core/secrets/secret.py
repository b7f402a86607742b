"""Secret values, and covering them in text and data."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from wieldy.core.bounded_json import dump_json

MASK = "**********"
# Fewer letters of base64 occur by chance in other bytes.
_SHORTEST_BASE64 = 7
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Secret:
    """A string that is shown only by `get_secret_value()`.

    Args:
        value: The string.

    Example:
        `box.add(search, presets={"api_key": Secret(key)})`
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        """The string itself."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __str__(self) -> str:
        return MASK if self._value else ""

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        held = core_schema.is_instance_schema(cls)
        made = core_schema.chain_schema(
            [core_schema.str_schema(), core_schema.no_info_plain_validator_function(cls)]
        )
        return core_schema.json_or_python_schema(
            json_schema=made,
            python_schema=core_schema.union_schema([held, made]),
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, source: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "format": "password", "writeOnly": True}


def is_secret(value: Any) -> bool:
    """Whether a value is a secret, ours or pydantic's."""
    # The class is examined, because an object in `deps` may have every attribute.
    return hasattr(type(value), "get_secret_value")


def reveal_secret(value: Any) -> Any:
    """The plain value of a secret, ours or pydantic's; anything else unchanged."""
    return value.get_secret_value() if is_secret(value) else value


def secret_forms(secret: str) -> set[str]:
    """A secret as it is, escaped as in JSON, in a `repr` or in a URL, and inside base64."""
    if not secret:
        return set()
    return {
        *_base64_forms(secret),
        secret,
        dump_json(secret)[1:-1],
        dump_json(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, errors="surrogatepass"),
        quote(secret, safe="", errors="surrogatepass"),
        quote_plus(secret, errors="surrogatepass"),
    }


def _base64_forms(secret: str) -> Iterator[str]:
    """The letters of base64 that only this secret gives, wherever it is in the bytes."""
    raw = secret.encode("utf-8", "surrogatepass")
    for before, skipped in ((0, 0), (1, 2), (2, 3)):
        shown = b64encode(bytes(before) + raw)[skipped : (before + len(raw)) * 8 // 6]
        if len(shown) >= _SHORTEST_BASE64:
            yield shown.decode()
            yield shown.translate(_URL_SAFE).decode()


def redact_text(text: str, secrets: Iterable[str]) -> str:
    """Cover every secret in a text, in all its forms."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        for form in secret_forms(secret):
            text = text.replace(form, MASK)
    return text


def redact_data(data: Any, secrets: Iterable[str]) -> Any:
    """Cover every secret in JSON-like data; the data passed in stays as it is."""
    known = list(secrets)
    if not known:
        return data
    if isinstance(data, str):
        return redact_text(data, known)
    if is_secret(data):
        return MASK
    if isinstance(data, int | float):
        return MASK if str(data) in known else data
    if isinstance(data, Mapping):
        return {redact_data(k, known): redact_data(v, known) for k, v in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [redact_data(item, known) for item in data]
    if isinstance(data, bytes | bytearray):
        text = data.decode("utf-8", "replace")
        return data if redact_text(text, known) == text else MASK
    return data
