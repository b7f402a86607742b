"""Values that must not be seen: what counts as one, and taking them out of text."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

MASK = "**********"
_SHORTEST_PLAIN = 8


class Secret:
    """A string that shows itself only when asked with `get_secret_value()`."""

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


def reveal(value: Any) -> Any:
    """The plain value of a secret, ours or pydantic's; anything else unchanged."""
    return value.get_secret_value() if hasattr(value, "get_secret_value") else value


def preset_secrets(presets: Mapping[str, Any] | list[Any]) -> list[str]:
    """The strings among hidden arguments that must appear nowhere."""
    return [text for text, marked in _strings(presets) if marked or len(text) >= _SHORTEST_PLAIN]


def held_secrets(deps: Any) -> tuple[str, ...]:
    """The secrets that a thing is, or holds as its values or attributes."""
    held = deps.values() if isinstance(deps, dict) else getattr(deps, "__dict__", {}).values()
    fields = getattr(type(deps), "__dataclass_fields__", ())
    found = [deps, *held, *(getattr(deps, name, None) for name in fields)]
    # The class is asked, because things for a tool may answer to every name.
    marked = (each for each in found if hasattr(type(each), "get_secret_value"))
    return tuple(_as_text(each.get_secret_value()) for each in marked)


def sent_secrets(arguments: Any, schema: Mapping[str, Any]) -> list[str]:
    """The strings that stand in plain arguments where the schema says `writeOnly`."""
    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    rest: list[tuple[Any, Any]] = [(arguments, schema)]
    while rest:
        value, place = rest.pop()
        # Kinds that refer to each other come to the same value on many ways.
        if not isinstance(place, Mapping) or (id(value), id(place)) in seen:
            continue
        seen.add((id(value), id(place)))
        if place.get("writeOnly") is True:
            found += [text for text, _ in _strings(value)]
        else:
            rest += _places(value, place, schema)
    return found


def argument_secrets(arguments: Mapping[str, Any]) -> list[str]:
    """The strings that the arguments' declared types mark as secret."""
    return [text for text, marked in _strings(arguments) if marked]


def redact(text: str, secrets: Iterable[str]) -> str:
    """Cover every secret in a text, also escaped as in JSON, in a `repr` or in a URL."""
    for secret in sorted(filter(None, set(secrets)), key=len, reverse=True):
        for form in {
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            repr(secret)[1:-1],
            quote(secret, errors="surrogatepass"),
            quote(secret, safe="", errors="surrogatepass"),
            quote_plus(secret, errors="surrogatepass"),
        }:
            text = text.replace(form, MASK)
    return text


def redact_data(data: Any, secrets: Iterable[str]) -> Any:
    """Cover every secret in JSON-like data; the data passed in stays as it is."""
    known = list(secrets)
    if not known:
        return data
    if isinstance(data, str):
        return redact(data, known)
    if hasattr(data, "get_secret_value"):
        return MASK
    if isinstance(data, Mapping):
        return {redact_data(k, known): redact_data(v, known) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [redact_data(item, known) for item in data]
    return data


def _strings(value: Any, marked: bool = False, depth: int = 0) -> Iterator[tuple[str, bool]]:
    """Every string inside a value, with whether its type says that it is secret."""
    if depth > 20:
        return
    if hasattr(value, "get_secret_value"):
        yield _as_text(value.get_secret_value()), True
    elif isinstance(value, str):
        yield value, marked
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item, marked, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _strings(item, marked, depth + 1)
    else:
        yield from _strings(list(_fields(value)), marked, depth + 1)


def _places(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """What a schema says about a value and its parts, one level down."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        yield value, root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
    for choice in ("anyOf", "oneOf", "allOf"):
        yield from ((value, each) for each in schema.get(choice, ()))
    if isinstance(value, Mapping):
        named = schema.get("properties", {})
        others = schema.get("additionalProperties")
        yield from ((inner, named.get(name, others)) for name, inner in value.items())
    elif isinstance(value, list | tuple):
        first = schema.get("prefixItems", ())
        yield from zip(value, first, strict=False)
        yield from ((inner, schema.get("items")) for inner in value[len(first) :])


def _fields(value: Any) -> Iterator[Any]:
    """What a model or a dataclass holds, also one with slots or with extra fields."""
    if hasattr(value, "__pydantic_fields_set__"):
        yield from value.__dict__.values()
        yield from (getattr(value, "__pydantic_extra__", None) or {}).values()
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        yield from (getattr(value, name, None) for name in value.__dataclass_fields__)


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
