"""Convert text to values, by the declared schema or by simple rules if there is none."""

import json
import math
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

from wieldy.core.arguments.loose_json import correct_json
from wieldy.core.bounded_json import check_text_depth
from wieldy.core.schema.references import resolve_reference

Schema = Mapping[str, Any]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_LOOSE_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?\Z")
_MAYBE_SCALAR = re.compile(r"\s*+[-+.0-9tTfF]")
_BOOLEANS = {"true": True, "false": False}
_HOPS = 32
_CHOICES = ("anyOf", "oneOf", "allOf")
_JSON_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def untyped_value(text: str) -> Any:
    """The value of text without a declared type: a boolean, a number, or the text."""
    if not _MAYBE_SCALAR.match(text):
        return text
    word = text.strip()
    if len(word) < 6 and word.lower() in _BOOLEANS:
        return _BOOLEANS[word.lower()]
    number = _read_number(word, _INTEGER)
    return text if number is None else number


def typed_value(text: str, schema: Any, root: Schema) -> Any:
    """The value of text according to its schema; the text itself if it does not fit."""
    kinds = kinds_of(schema, root) if schema else None
    if not kinds:
        return untyped_value(text)
    if kinds == {"string"}:
        return text
    if "string" in kinds and text in _listed_values(schema, root):
        return text
    value = _read_scalar(text.strip(), kinds)
    if value is None and kinds & {"array", "object"}:
        value = _read_container(text.strip(), kinds)
    if value is None:
        return None if _is_null(text.strip(), kinds) else text
    return value


def kinds_of(
    schema: Any, root: Schema, depth: int = 0, known: dict[int, frozenset[str]] | None = None
) -> frozenset[str]:
    """The JSON types that a schema allows; an empty set means any type."""
    schema = resolve_reference(schema, root)
    known = {} if known is None else known
    if depth > _HOPS:
        return frozenset()
    if id(schema) not in known:
        # A member that refers back to this schema adds no type.
        known[id(schema)] = frozenset()
        known[id(schema)] = _schema_kinds(schema, root, depth, known)
    return known[id(schema)]


def _schema_kinds(
    schema: Schema, root: Schema, depth: int, known: dict[int, frozenset[str]]
) -> frozenset[str]:
    named = schema.get("type")
    if named is not None:
        return frozenset([named] if isinstance(named, str) else named)
    listed = _listed_values(schema, root)
    if listed:
        return frozenset(_JSON_TYPES.get(type(value), "string") for value in listed)
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        every = [kinds_of(branch, root, depth + 1, known) for branch in branches]
        return frozenset().union(*every) if all(every) else frozenset()
    for part in schema.get("allOf", ()):
        if kinds := kinds_of(part, root, depth + 1, known):
            return kinds
    implied = {"properties": "object", "items": "array", "prefixItems": "array"}
    return frozenset(kind for key, kind in implied.items() if key in schema)


def branch_of(schema: Any, root: Schema, kind: str, depth: int = 0) -> Schema:
    """The part of a schema that describes values of one JSON type."""
    here = resolve_reference(schema, root)
    if depth <= _HOPS and not {"properties", "items", "prefixItems"} & here.keys():
        for choice in chain.from_iterable(here.get(key, ()) for key in _CHOICES):
            if kind in kinds_of(choice, root):
                return branch_of(choice, root, kind, depth + 1)
    return here


def property_schema(schema: Schema, name: str) -> Any:
    """The schema of one member of an object."""
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        return properties[name]
    return schema.get("additionalProperties", {})


def declared_name(name: str, schema: Schema) -> str:
    """The declared member that a tag names, exactly or ignoring case."""
    properties = schema.get("properties") or {}
    if name in properties:
        return name
    same = [known for known in properties if known.lower() == name.lower()]
    return same[0] if len(same) == 1 else name


def read_json_text(text: str) -> Any:
    """Read JSON; `ValueError` if the text is not JSON. NaN and too large numbers stay text."""
    check_text_depth(text)
    return _DECODER.decode(text)


def read_json_values(text: str) -> list[Any]:
    """Read consecutive JSON values; `ValueError` if there is anything else."""
    check_text_depth(text)
    values: list[Any] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        value, at = _DECODER.raw_decode(text, at)
        values.append(value)
    return values


def read_loose_json(text: str) -> list[Any]:
    """The consecutive values in loose JSON; `ValueError` if the text is something else."""
    try:
        return read_json_values(text)
    except ValueError:
        return read_json_values(correct_json(text)[0])


def _listed_values(schema: Any, root: Schema) -> list[Any]:
    schema = resolve_reference(schema, root)
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _read_scalar(word: str, kinds: frozenset[str]) -> Any:
    if "boolean" in kinds and word.lower() in _BOOLEANS:
        return _BOOLEANS[word.lower()]
    if not kinds & {"integer", "number"}:
        return None
    number = _read_number(word, _INTEGER if "string" in kinds else _LOOSE_INTEGER)
    return None if isinstance(number, float) and "number" not in kinds else number


def _read_number(word: str, integer: re.Pattern[str]) -> int | float | None:
    value: int | float | str | None = None
    if integer.match(word):
        value = _read_integer(word)
    elif _FLOAT.match(word):
        value = _read_float(word)
    return None if isinstance(value, str) else value


def _read_container(word: str, kinds: frozenset[str]) -> Any:
    if not word and "string" not in kinds:
        return [] if "array" in kinds else {}
    if word[:1] not in ("[", "{"):
        return None
    try:
        value = read_json_text(word)
    except ValueError:
        return None
    return value if _JSON_TYPES[type(value)] in kinds else None


def _is_null(word: str, kinds: frozenset[str]) -> bool:
    if "null" not in kinds:
        return False
    return word == "null" or ("string" not in kinds and word.lower() in ("", "none", "null"))


def _read_float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _read_integer(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # more digits than Python converts
        return text


_DECODER = json.JSONDecoder(
    strict=False, parse_float=_read_float, parse_int=_read_integer, parse_constant=str
)
