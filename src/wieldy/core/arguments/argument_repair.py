"""Repair mistakes that models often make, where the schema shows how, and note each repair.

A value whose schema accepts it is never touched, and neither is text where text
is declared. Each change leaves a receipt: the path, the kind of repair, and for
short scalars the value before and after.
"""

import math
import numbers
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wieldy.core.bounded_json import LevelCount, NestedTooDeep, parse_json
from wieldy.core.names import close_names, plain_name
from wieldy.core.schema.references import resolve_reference

from .argument_errors import item_schemas, mentions_secret, show_path
from .loose_json import parse_loose_json

Receipt = dict[str, Any]
Path = tuple[Any, ...]
_MAX_NAME = 100
_MAX_UNKNOWN = 50
_MAX_HOPELESS = 1000
# A repair blocks the event loop, so this much work takes a fraction of a second.
_MAX_STEPS = 50_000
# A level of a value takes two steps where the schema has a union for it.
_MAX_DEPTH = 150
_UNCHANGED: Any = object()
_MAX_SCALAR = 400
_MAX_EXACT = 2**53


class _GiveUp(Exception):
    """Raised when so much is wrong that repairing the rest is pointless."""


def repair_arguments(
    arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[Any, list[Receipt]]:
    """Repair what can be repaired in a copy of the arguments; also returns the receipts."""
    fixer = _Repair(schema)
    try:
        fixed = fixer.value(arguments, schema, ())
    except (NestedTooDeep, _GiveUp):
        return arguments, []
    return (fixed, fixer.receipts) if fixer.receipts else (arguments, [])


class _Repair:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.receipts: list[Receipt] = []
        self.hopeless = 0
        self.steps = 0
        self.level = LevelCount(_MAX_DEPTH)
        self.secret: dict[int, bool] = {}

    def spend(self, steps: int) -> None:
        """Count work, and give up when the limit is reached."""
        self.steps += steps
        if self.steps > _MAX_STEPS:
            raise _GiveUp

    def is_secret(self, schema: Mapping[str, Any]) -> bool:
        """Whether a part of the schema describes a secret; each part is looked up once."""
        if id(schema) not in self.secret:
            self.secret[id(schema)] = mentions_secret(schema, self.root)
        return self.secret[id(schema)]

    def value(self, value: Any, schema: Any, path: Path) -> Any:
        with self.level:
            self.spend(1)
            schema = resolve_reference(schema, self.root)
            for part in schema.get("allOf", ()):
                value = self.value(value, part, path)
            for key in ("anyOf", "oneOf"):
                if key in schema:
                    value = self.choice(value, schema[key], path)
            for kind in _declared_types(schema):
                if _fits_type(value, kind):
                    return self.inside(value, kind, schema, path)
            for kind in _declared_types(schema):
                fixed = self.converted(value, kind, schema, path)
                if fixed is not _UNCHANGED:
                    return fixed
            self.hopeless += bool(_declared_types(schema))
            if self.hopeless > _MAX_HOPELESS:
                raise _GiveUp
            return value

    def choice(self, value: Any, choices: Sequence[Any], path: Path) -> Any:
        """The value repaired for the one union member that it is meant for, if that is clear."""
        self.spend(len(choices))
        members = [resolve_reference(choice, self.root) for choice in choices]
        fitting = [member for member in members if self.meant_for(value, member)]
        if len(fitting) > 1:
            # The value alone does not show which member is meant.
            return value
        if not fitting and isinstance(value, str):
            for kind in {kind for member in members for kind in _declared_types(member)}:
                parsed = self.parsed(value, kind, path)
                if parsed is not _UNCHANGED:
                    return self.choice(parsed, choices, path)
        return self.least_changed(value, fitting or members, path)

    def least_changed(self, value: Any, members: Sequence[Mapping[str, Any]], path: Path) -> Any:
        """The value repaired for whichever of these schemas needs the fewest changes."""
        before, hopeless = len(self.receipts), self.hopeless
        found: list[tuple[list[Receipt], Any]] = []
        for member in members:
            fixed = self.value(value, member, path)
            if len(self.receipts) > before:
                found.append((self.receipts[before:], fixed))
                del self.receipts[before:]
        if not found:
            return value
        receipts, best = min(found, key=lambda each: len(each[0]))
        self.receipts += receipts
        self.hopeless = hopeless
        return best

    def meant_for(self, value: Any, member: Mapping[str, Any]) -> bool:
        """Whether the value's type, and an object's marker fields, fit this member."""
        kinds = _declared_types(member)
        if kinds and not any(_fits_type(value, kind) for kind in kinds):
            return False
        if not isinstance(value, Mapping):
            return True
        self.spend(len(member.get("properties", {})))
        marks = {
            name: resolve_reference(p, self.root)
            for name, p in member.get("properties", {}).items()
        }
        return all(
            value[name] == mark["const"]
            for name, mark in marks.items()
            if "const" in mark and name in value
        )

    def inside(self, value: Any, kind: str, schema: Mapping[str, Any], path: Path) -> Any:
        if kind == "object" and isinstance(value, Mapping):
            return self.members(value, schema, path)
        if kind == "array":
            schemas = item_schemas(schema, len(value))
            return [
                self.value(item, each, (*path, i)) if isinstance(each, Mapping) else item
                for i, (item, each) in enumerate(zip(value, schemas, strict=True))
            ]
        return value

    def members(self, value: Mapping[str, Any], schema: Mapping[str, Any], path: Path) -> Any:
        properties = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        renamed = self.renames(value, schema, path)
        fixed = {}
        for name, item in value.items():
            known = renamed.get(name, name)
            inner = properties.get(known, extra)
            place = (*path, known)
            fixed[known] = self.value(item, inner, place) if isinstance(inner, Mapping) else item
        return fixed

    def renames(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], path: Path
    ) -> dict[str, str]:
        """Unknown names, each with the one missing name that it can mean.

        If the schema allows other names too, only a missing name that is required counts.
        """
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False
        wanted = properties if closed else schema.get("required", ())
        free = [name for name in wanted if name not in value]
        unknown = [name for name in value if name not in properties and isinstance(name, str)]
        if not free or len(unknown) > _MAX_UNKNOWN:
            return {}
        self.spend(len(unknown) * len(free) // 20)
        meant = {name: _find_meant(name, free) for name in unknown}
        claims = Counter(meant.values())
        renamed = {name: own for name, own in meant.items() if own and claims[own] == 1}
        for name, own in renamed.items():
            self.receipt((*path, own), "renamed", name, own)
        return renamed

    def converted(self, value: Any, kind: str, schema: Mapping[str, Any], path: Path) -> Any:
        fixed = _convert_value(value, kind)
        if fixed is not _UNCHANGED:
            change = () if self.is_secret(schema) else (value, fixed)
            self.receipt(path, f"{kind}_from_{_origin_name(value)}", *change)
            return fixed
        if isinstance(value, str):
            fixed = self.parsed(value, kind, path)
            if fixed is not _UNCHANGED:
                return self.inside(fixed, kind, schema, path)
        if kind == "array" and value is not None and not _looks_like_list(value):
            return self.wrapped(value, schema, path)
        return _UNCHANGED

    def parsed(self, text: str, kind: str, path: Path) -> Any:
        """The list or object that a text holds as JSON."""
        if kind not in ("object", "array"):
            return _UNCHANGED
        for parse in (parse_json, parse_loose_json):
            try:
                value = parse(text)
            except ValueError:
                continue
            if _fits_type(value, kind):
                loose = "loose_" if parse is parse_loose_json else ""
                self.receipt(path, f"{kind}_from_{loose}json")
                return value
        return _UNCHANGED

    def wrapped(self, value: Any, schema: Mapping[str, Any], path: Path) -> Any:
        """A single item in a list, if a list is wanted and the item fits or can be repaired."""
        first = item_schemas(schema, 1)[0]
        items = resolve_reference({} if first is None else first, self.root)
        before = len(self.receipts)
        item = self.value(value, items, (*path, 0))
        kinds = _declared_types(items)
        if kinds and not any(_fits_type(item, kind) for kind in kinds):
            del self.receipts[before:]
            return _UNCHANGED
        self.receipts.insert(before, {"path": show_path(path), "kind": "array_from_item"})
        return [item]

    def receipt(self, path: Path, kind: str, *change: Any) -> None:
        receipt: Receipt = {"path": show_path(path), "kind": kind}
        if change:
            receipt["before"], receipt["after"] = change
        self.receipts.append(receipt)


def _declared_types(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type")
    if kind is None:
        return ["object"] if "properties" in schema else []
    return [*kind] if isinstance(kind, list) else [kind]


def _fits_type(value: Any, kind: str) -> bool:
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
            # A value that is not a JSON type may be an instance of the declared model.
            return isinstance(value, Mapping) or not _is_json(value)
    return True


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | list | tuple)


def _looks_like_list(value: Any) -> bool:
    """Whether the text is a list that can't be parsed, which must not be wrapped as an item."""
    return isinstance(value, str) and value.lstrip()[:1] == "["


def _origin_name(value: Any) -> str:
    return "text" if isinstance(value, str) else "number"


def _find_meant(name: str, free: Sequence[str]) -> str | None:
    """The one unused name that this name must mean, or None."""
    if len(name) > _MAX_NAME:
        return None
    same = [candidate for candidate in free if plain_name(candidate) == plain_name(name)]
    if len(same) == 1:
        return same[0]
    short = [candidate for candidate in free if len(candidate) <= _MAX_NAME]
    close = close_names(name.casefold(), short, 2, 0.8)
    return close[0] if len(close) == 1 else None


def _convert_value(value: Any, kind: str) -> Any:
    """The value as this JSON type if that loses nothing, else `_UNCHANGED`."""
    conversion = _CONVERSIONS.get(kind)
    if conversion is None or (isinstance(value, str) and len(value) > _MAX_SCALAR):
        return _UNCHANGED
    return conversion(value)


def _to_integer(value: Any) -> Any:
    if isinstance(value, bool):
        return _UNCHANGED
    if isinstance(value, numbers.Integral):
        return int(value)
    number = value if isinstance(value, float) else _to_number(value)
    if isinstance(number, float):
        exact = number.is_integer() and abs(number) <= _MAX_EXACT
        return int(number) if exact else _UNCHANGED
    return number


def _to_number(value: Any) -> Any:
    if isinstance(value, numbers.Real) and not isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return _UNCHANGED
    try:
        number = parse_json(value.strip().removeprefix("+"))
    except ValueError:
        return _UNCHANGED
    if isinstance(number, bool) or not isinstance(number, int | float):
        return _UNCHANGED
    return _UNCHANGED if isinstance(number, float) and not math.isfinite(number) else number


def _to_boolean(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower(), _UNCHANGED)
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else _UNCHANGED


def _to_null(value: Any) -> Any:
    is_text = isinstance(value, str) and value.strip().lower() in ("null", "none")
    return None if is_text else _UNCHANGED


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "null": _to_null,
}
