"""Keep the keywords that a target supports, and put the others into the description."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from wieldy.core.arguments.argument_errors import describe_schema
from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.schema.references import resolve_reference

from .schema_facts import ANNOTATIONS, SILENT, SPEAKS_OF, properties_of
from .target import Target

_STRUCTURE = frozenset(
    {"type", "enum", "properties", "required", "items", "prefixItems", "additionalProperties"}
)
# Look-around, back-references and word boundaries, which providers' grammars don't support.
_HARD_PATTERN = re.compile(r"\(\?[=!<]|\\[1-9bBk]")
_SHOWN_NAMES = 12
_EXCLUSIVE = {"exclusiveMinimum": ("minimum", 1), "exclusiveMaximum": ("maximum", -1)}

Changed = Callable[[str, str, str, str, bool], None]


class Keywords:
    """Lowers the constraints and annotations of one value."""

    def __init__(self, target: Target, changed: Changed) -> None:
        self.target = target
        self.changed = changed

    def finish(
        self, schema: Mapping[str, Any], lowered: dict[str, Any], types: list[str], path: str
    ) -> dict[str, Any]:
        """A lowered structure with its type, its constraints and its description."""
        notes: list[str] = []
        result = {**self._type_keyword(types), **self._enum_keyword(schema, path)}
        result.update((key, value) for key, value in lowered.items() if key != "type")
        for key, value in schema.items():
            known = key in _STRUCTURE or key in ANNOTATIONS or key in SILENT or key in lowered
            if not known and _concerns_types(key, types):
                result.update(self._constraint_keyword(key, value, types, path, notes))
        said = schema.get("description")
        if notes:
            said = with_note(said, f"({', '.join(notes)})")
        return self._with_description(result, said, schema)

    def annotated(
        self, schema: Mapping[str, Any], result: dict[str, Any], path: str
    ) -> dict[str, Any]:
        """A union or a reference with the description that stands beside it."""
        said = schema.get("description", result.get("description"))
        described = self._with_description({**result}, said, schema)
        if "$ref" in described and len(described) > 1:
            # A reference allows no keywords beside it, so it is wrapped in a union.
            return {"anyOf": [result], "description": described["description"]}
        return described

    def _with_description(
        self, result: dict[str, Any], said: Any, schema: Mapping[str, Any]
    ) -> dict[str, Any]:
        text = note_default(said, schema)
        if text:
            result.pop("description", None)
            result["description"] = text
        return result

    def _type_keyword(self, types: list[str]) -> dict[str, Any]:
        if not types:
            return {}
        if self.target.flagged:
            return {"type": types[0].upper()}
        return {"type": types[0] if len(types) == 1 else types}

    def _enum_keyword(self, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        values = schema.get("enum")
        if not isinstance(values, list) or values == [None]:
            return {}
        if self.target.flagged:
            if not all(isinstance(value, str) for value in values):
                why = f"{self.target.title} has choices of text alone"
                self.changed(path, "enum", "became text", why, False)
            return {"type": "STRING", "format": "enum", "enum": [_as_text(v) for v in values]}
        odd = [value for value in values if isinstance(value, bool | dict | list)]
        if self.target.finite and odd:
            if not (True in odd and False in odd):
                self._drop_keyword(path, "enum")
            return {}
        return {"enum": values}

    def _constraint_keyword(
        self, key: str, value: Any, types: list[str], path: str, notes: list[str]
    ) -> dict[str, Any]:
        if self._keeps_keyword(key, value):
            return {key: value}
        whole = types in (["integer"], ["integer", "null"])
        known = key in _EXCLUSIVE and _EXCLUSIVE[key][0] in self.target.keywords
        if known and whole and isinstance(value, int | float):
            name, step = _EXCLUSIVE[key]
            return {name: math.floor(value) + 1 if step > 0 else math.ceil(value) - 1}
        self._drop_keyword(path, key)
        if not isinstance(value, dict | list):
            notes.append(f"{key}: {dump_json(value, MAX_WRAPPED, ensure_ascii=False)}")
        if key == "minItems" and self.target.most_min_items is not None:
            return {key: self.target.most_min_items}
        return {}

    def _keeps_keyword(self, key: str, value: Any) -> bool:
        if key not in self.target.keywords:
            return False
        if key == "format":
            return isinstance(value, str) and value in self.target.formats
        if key == "pattern" and self.target.simple_patterns:
            return isinstance(value, str) and not _HARD_PATTERN.search(value)
        most = self.target.most_min_items
        return key != "minItems" or most is None or (isinstance(value, int) and value <= most)

    def _drop_keyword(self, path: str, key: str) -> None:
        self.changed(path, key, "does not hold the model", f"not in {self.target.title}", True)


def with_note(description: Any, note: str) -> str:
    """A description and one more remark."""
    return f"{description} {note}" if isinstance(description, str) and description else note


def note_default(description: Any, schema: Mapping[str, Any]) -> str:
    """A description that mentions the default, for targets without that keyword."""
    default = schema.get("default")
    if default is None:
        return description if isinstance(description, str) else ""
    return with_note(description, f"Default: {_as_json(default)}.")


def allow_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, extended to accept null."""
    description = {key: value for key, value in schema.items() if key == "description"}
    bare = {key: value for key, value in schema.items() if key != "description"}
    if "anyOf" in bare and len(bare) == 1:
        return {"anyOf": [*bare["anyOf"], {"type": "null"}], **description}
    if isinstance(bare.get("type"), str) and "enum" not in bare:
        return {**bare, "type": [bare["type"], "null"], **description}
    if isinstance(bare.get("type"), list) and "enum" not in bare:
        return {**bare, "type": [*bare["type"], "null"], **description}
    return {"anyOf": [bare, {"type": "null"}], **description}


def schema_in_words(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """A description of the expected value, for a model that does not get its schema."""
    found = resolve_reference(schema, root)
    values = found.get("additionalProperties")
    try:
        words = describe_schema(found, root)
        if isinstance(values, Mapping) and values:
            words += f" with values of {describe_schema(values, root)}"
    except TypeError:
        # The schema itself is not well formed.
        words = "any value"
    names = list(properties_of(found))[:_SHOWN_NAMES]
    return f"{words} with {', '.join(names)}" if names else words


def _concerns_types(key: str, types: list[str]) -> bool:
    """Whether a keyword applies to values of these types."""
    kind = SPEAKS_OF.get(key)
    return kind is None or not types or kind in types or (kind == "number" and "integer" in types)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _as_json(value)


def _as_json(value: Any) -> str:
    return dump_json(value, MAX_WRAPPED, ensure_ascii=False, default=str)
