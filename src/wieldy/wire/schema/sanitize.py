"""Remove numbers and types from a schema that JSON does not have."""

import math
from collections.abc import Mapping
from typing import Any

from .keywords import with_note
from .schema_change import SchemaChange
from .schema_facts import MAPPINGS, SCALARS, kind_of

_KINDS = SCALARS | {"object", "array"}
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_DATA = frozenset({"default", "const", "examples", "enum"})
_LEFT_ALONE = frozenset({"dependentRequired", "required", "discriminator"})
_NO_NUMBER = "JSON has no such number"


def sanitize_schema(schema: Mapping[str, Any], changes: list[SchemaChange]) -> dict[str, Any]:
    """The schema as valid JSON; the changes are added to `changes`."""
    return _Repair(changes).schema(schema, "")


class _Repair:
    def __init__(self, changes: list[SchemaChange]) -> None:
        self._changes = changes

    def schema(self, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        """One schema with its inner schemas."""
        result: dict[str, Any] = {}
        for key, value in schema.items():
            if type(value) is str and (key != "type" or value in _KINDS):
                # Most keywords have a plain string, so this case comes first.
                result[key] = value
            elif key in _NAMED and isinstance(value, MAPPINGS):
                result[key] = {
                    name: self._repair_inner(v, _join_path(path, name)) for name, v in value.items()
                }
            elif key in _DATA or isinstance(value, float):
                result |= self._repair_data(key, value, path)
            elif key in _LEFT_ALONE:
                result[key] = value
            elif key == "type":
                result |= self._repair_type(value, path)
            else:
                result[key] = self._repair_inner(value, path)
        if isinstance(result.get("enum"), list):
            result["enum"] = self._repair_choices(result["enum"], result.get("type"), path)
        default = schema.get("default")
        if "default" in schema and "default" not in result:
            note = f"Default: {_spell_number(default)}."
            result["description"] = with_note(schema.get("description"), note)
        return result

    def _repair_inner(self, value: Any, path: str) -> Any:
        if isinstance(value, MAPPINGS):
            return self.schema(value, path)
        if isinstance(value, list):
            return [self._repair_inner(item, path) for item in value]
        return value

    def _repair_data(self, key: str, value: Any, path: str) -> dict[str, Any]:
        """A keyword with its value; it is left out if JSON can't express the value."""
        if key in ("enum", "examples") and isinstance(value, list):
            kept = [each for each in value if _is_json(each)]
            if len(kept) == len(value):
                return {key: value}
            self._note_change(path, key, "lists fewer values", _NO_NUMBER, key == "enum")
            return {key: kept} if kept else {}
        if _is_json(value):
            return {key: value}
        if key == "default":
            self._note_change(path, key, "is told in words", _NO_NUMBER, False)
        else:
            self._note_change(path, key, "was left out", _NO_NUMBER, key != "examples")
        return {}

    def _repair_type(self, value: Any, path: str) -> dict[str, Any]:
        """The types that JSON has, each once."""
        said = value if isinstance(value, list) else [value]
        lower = [each.lower() if isinstance(each, str) else each for each in said]
        known = [n for n, kind in enumerate(lower) if isinstance(kind, str) and kind in _KINDS]
        kept = list(dict.fromkeys(lower[n] for n in known))
        if kept == said:
            return {"type": value}
        if len(known) < len(said):
            self._note_change(path, "type", "was left out", "JSON has no such type", True)
        else:
            self._note_change(path, "type", "is written once", "types are small and unlike", False)
        return {"type": kept[0] if len(kept) == 1 else kept} if kept else {}

    def _repair_choices(self, values: list[Any], types: Any, path: str) -> list[Any]:
        """The choices that fit the type, each once; all choices if none fits."""
        kinds = [types] if isinstance(types, str) else types
        once = {(kind_of(each), repr(each)): each for each in values}
        fitting = [each for each in once.values() if not kinds or _is_of(each, kinds)]
        if not fitting or len(fitting) == len(values):
            return values
        why = "a choice is of the type and stands once"
        self._note_change(path, "enum", "lists fewer values", why, False)
        return fitting

    def _note_change(self, path: str, keyword: str, what: str, why: str, lost: bool) -> None:
        self._changes.append(SchemaChange(path, keyword, what, why, lost))


def _is_of(value: Any, kinds: list[str]) -> bool:
    kind = kind_of(value)
    if kind == "number" and isinstance(value, float) and value.is_integer():
        return "number" in kinds or "integer" in kinds
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _is_json(value: Any) -> bool:
    """Whether a value contains neither infinity nor NaN."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_json, value.values()))
    return all(map(_is_json, value)) if isinstance(value, list | tuple) else True


def _spell_number(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "not a number"
    return "infinity" if value > 0 else "minus infinity"


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
