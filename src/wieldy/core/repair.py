"""Put right what models often get wrong, as far as the schema says how, with a receipt.

A value whose schema accepts it is never touched, and neither is text where text
is declared. Each change leaves a receipt: the path, the kind of repair, and for
short scalars what stood there before and after.
"""

import difflib
import json
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import from_json

from .names import plain
from .problem import pointer, resolve

Receipt = dict[str, Any]
_UNCHANGED: Any = object()
_MOST_DIGITS = 400


def repair(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[Any, list[Receipt]]:
    """The arguments with what could be put right, and the receipts; the input is not changed."""
    fixer = _Repair(schema)
    try:
        fixed = fixer.value(arguments, schema, ())
    except RecursionError:
        return arguments, []
    return (fixed, fixer.receipts) if fixer.receipts else (arguments, [])


def parse_json(text: str) -> Any:
    """JSON text as a value; `ValueError` if it is none."""
    try:
        return from_json(text)
    except ValueError:
        # Lone surrogates are JSON, but no text that Rust could hold.
        return json.loads(text)


def parse_loose_json(text: str) -> Any:
    """JSON text that may end lists and objects with a comma; `ValueError` otherwise."""
    return parse_json(_without_trailing_commas(text))


class _Repair:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.receipts: list[Receipt] = []

    def value(self, value: Any, schema: Any, path: tuple[Any, ...]) -> Any:
        schema = resolve(schema, self.root)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.choice(value, schema[key], path)
        for part in schema.get("allOf", ()):
            value = self.value(value, part, path)
        for kind in _types(schema):
            if _fits(value, kind):
                return self.inside(value, kind, schema, path)
        for kind in _types(schema):
            fixed = self.converted(value, kind, schema, path)
            if fixed is not _UNCHANGED:
                return fixed
        return value

    def choice(self, value: Any, choices: list[Any], path: tuple[Any, ...]) -> Any:
        """The first member that takes the value as it is, else the first that can be made to."""
        members = [resolve(choice, self.root) for choice in choices]
        fitting = [
            member
            for member in members
            if not _types(member) or any(_fits(value, kind) for kind in _types(member))
        ]
        if len(fitting) > 1:
            # Which one is meant can't be told from the kind of value alone.
            return value
        for member in fitting or members:
            before = len(self.receipts)
            fixed = self.value(value, member, path)
            if len(self.receipts) > before:
                return fixed
        return value

    def inside(self, value: Any, kind: str, schema: Mapping[str, Any], path: Any) -> Any:
        if kind == "object":
            return self.members(value, schema, path)
        if kind == "array":
            items, prefix = schema.get("items"), schema.get("prefixItems", ())
            schemas = [*prefix, *[items] * max(0, len(value) - len(prefix))]
            return (
                [
                    item
                    if each is None or isinstance(each, bool)
                    else self.value(item, each, (*path, i))
                    for i, (item, each) in enumerate(zip(value, schemas, strict=False))
                ]
                if schemas
                else value
            )
        return value

    def members(self, value: Mapping[str, Any], schema: Mapping[str, Any], path: Any) -> Any:
        properties = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        renamed = self.renames(value, properties, path) if extra is False else {}
        fixed = {}
        for name, item in value.items():
            known = renamed.get(name, name)
            inner = properties.get(known, extra)
            place = (*path, known)
            fixed[known] = self.value(item, inner, place) if isinstance(inner, Mapping) else item
        return fixed

    def renames(self, value: Mapping[str, Any], properties: Any, path: Any) -> dict[str, str]:
        """Unknown names that can only mean one of those still missing."""
        free = [name for name in properties if name not in value]
        renamed: dict[str, str] = {}
        for name in value:
            if name in properties or not isinstance(name, str):
                continue
            meant = _meant(name, free)
            if meant is not None:
                free.remove(meant)
                renamed[name] = meant
                self.receipt((*path, meant), "renamed", name, meant)
        return renamed

    def converted(self, value: Any, kind: str, schema: Mapping[str, Any], path: Any) -> Any:
        convert = _CONVERSIONS.get(kind)
        fixed = _UNCHANGED if convert is None else convert(value)
        if fixed is not _UNCHANGED:
            self.receipt(path, f"{kind}_from_{_origin(value)}", value, fixed)
            return fixed
        if kind in ("object", "array") and isinstance(value, str):
            fixed = self.parsed(value, kind, path)
            if fixed is not _UNCHANGED:
                return self.inside(fixed, kind, schema, path)
        if kind == "array" and value is not None:
            return self.wrapped(value, schema, path)
        return _UNCHANGED

    def parsed(self, text: str, kind: str, path: Any) -> Any:
        for parse in (parse_json, parse_loose_json):
            try:
                value = parse(text)
            except (ValueError, RecursionError):
                continue
            if _fits(value, kind):
                loose = "loose_" if parse is parse_loose_json else ""
                self.receipt(path, f"{kind}_from_{loose}json")
                return value
        return _UNCHANGED

    def wrapped(self, value: Any, schema: Mapping[str, Any], path: Any) -> Any:
        """One item where a list is wanted, if the item fits or can be made to."""
        items = resolve(schema.get("items", {}), self.root)
        before = len(self.receipts)
        item = self.value(value, items, (*path, 0))
        kinds = _types(items)
        if kinds and not any(_fits(item, kind) for kind in kinds) and "anyOf" not in items:
            del self.receipts[before:]
            return _UNCHANGED
        self.receipts.insert(before, {"path": pointer(path), "kind": "array_from_item"})
        return [item]

    def receipt(self, path: Any, kind: str, *change: Any) -> None:
        receipt: Receipt = {"path": pointer(path), "kind": kind}
        if change:
            receipt["before"], receipt["after"] = change
        self.receipts.append(receipt)


def _types(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type")
    if kind is None:
        return ["object"] if "properties" in schema else []
    return [*kind] if isinstance(kind, list) else [kind]


def _fits(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list | tuple | set | frozenset)
        case "object":
            # Anything that is not JSON's own may be the declared model itself.
            return isinstance(value, Mapping) or not _is_json(value)
    return True


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | list | tuple)


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        number = _number(value)
        if number is _UNCHANGED or not float(number).is_integer():
            return _UNCHANGED
        return int(number)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return _UNCHANGED


def _number(value: Any) -> Any:
    if isinstance(value, numbers.Real) and not isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str) or len(value) > _MOST_DIGITS:
        return _UNCHANGED
    try:
        number = json.loads(value.strip().removeprefix("+"))
    except ValueError:
        return _UNCHANGED
    if isinstance(number, bool) or not isinstance(number, int | float):
        return _UNCHANGED
    return number if math.isfinite(number) else _UNCHANGED


def _boolean(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower(), _UNCHANGED)
    return bool(value) if value in (0, 1) else _UNCHANGED


def _null(value: Any) -> Any:
    is_text = isinstance(value, str) and value.strip().lower() in ("null", "none")
    return None if is_text else _UNCHANGED


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
}


def _origin(value: Any) -> str:
    return "text" if isinstance(value, str) else "number"


def _meant(name: str, free: list[str]) -> str | None:
    """The one free name that this one must stand for, or None."""
    same = [candidate for candidate in free if plain(candidate) == plain(name)]
    if len(same) == 1:
        return same[0]
    close = difflib.get_close_matches(name.casefold(), free, n=2, cutoff=0.8)
    return close[0] if len(close) == 1 else None


def _without_trailing_commas(text: str) -> str:
    """The text less each comma before a closing bracket, outside of strings."""
    kept: list[str] = []
    in_string = escaped = False
    comma = -1
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string, comma = True, -1
        elif character == ",":
            comma = len(kept)
        elif character in "]}" and comma >= 0:
            kept[comma] = ""
            comma = -1
        elif not character.isspace():
            comma = -1
        kept.append(character)
    return "".join(kept)
