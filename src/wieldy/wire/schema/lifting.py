"""Convert arguments that a model sent for a lowered schema back to the tool's own schema.

The tool's schema alone is enough to recognise what lowering did: null where null is not
allowed, text where text is not allowed, and, where both text and objects are allowed, an
object whose only property is `json_text`. The provider and the strict mode don't matter, and
a value that already fits is left unchanged. One form is ambiguous: such an object where the
schema allows any object and any text. It is read as JSON text.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from wieldy.core.bounded_json import LevelCount, NestedTooDeep, parse_json
from wieldy.core.schema.references import resolve_reference
from wieldy.core.tool import Tool
from wieldy.wire.loose_fields import as_list

from .schema_facts import (
    JSON_TEXT,
    Accepted,
    accepts_type,
    argument_name,
    kind_of,
    properties_of,
    required_of,
    types_of,
)

_NOT_JSON: Any = object()
# Lifting blocks the event loop, so its work is limited to a fraction of a second.
_MAX_STEPS = 60_000
# A level of a value takes two steps where the schema has a union for it.
_MAX_DEPTH = 150


def lift_arguments(arguments: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """A model's arguments as the tool declared them; values that can't be lifted are kept."""
    return lift_value(arguments, tool.input_schema)


def lift_value(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments lifted for a schema that does not belong to a tool."""
    try:
        lifted = _Lifting(schema).object(dict(arguments), schema)
    except (NestedTooDeep, _TooMuch):
        return dict(arguments)
    return lifted if isinstance(lifted, dict) else dict(arguments)


class _TooMuch(Exception):
    """Lifting these arguments would take too many steps."""


class _Lifting:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.left = _MAX_STEPS
        self.level = LevelCount(_MAX_DEPTH)
        self.named = True
        self.accepted: Accepted = {}
        self.fitting: dict[tuple[int, int], tuple[bool, Any, Any]] = {}

    def spend(self, steps: int) -> None:
        """Count steps, and raise `_TooMuch` beyond the limit."""
        self.left -= steps
        if self.left < 0:
            raise _TooMuch

    def accepts(self, schema: Any, kind: str) -> bool:
        """Whether a schema accepts some value of a type; the answer is cached."""
        return accepts_type(schema, kind, self.root, self.accepted)

    def value(self, value: Any, schema: Any, taken: bool = False) -> Any:
        """A value converted for a schema. If text is `taken`, a string stays a string."""
        with self.level:
            self.spend(1)
            schema = resolve_reference(schema, self.root)
            for key in ("anyOf", "oneOf"):
                if isinstance(schema.get(key), list):
                    return self.choice(value, schema[key], taken)
            if _is_marked(value) and JSON_TEXT not in properties_of(schema):
                return self.unmarked(value, schema, taken)
            for part in as_list(schema.get("allOf")):
                # The parts of an `allOf` describe the same value, so they are combined.
                if not isinstance(value, dict | list) or _is_choice(
                    resolve_reference(part, self.root)
                ):
                    value = self.value(value, part, taken)
            if isinstance(value, dict):
                return self.object(value, schema)
            if isinstance(value, list):
                return self.array(value, schema)
            if isinstance(value, str):
                return self.text(value, schema, taken)
            if isinstance(value, float) and value.is_integer() and "integer" in types_of(schema):
                return int(value)
            return value

    def choice(self, value: Any, members: list[Any], taken: bool) -> Any:
        """A value converted for the first member of a union that it fits."""
        taken = taken or any(self.accepts(member, "string") for member in members)
        for member in members:
            if self.fits(value, member):
                return self.value(value, member, taken)
        for member in members:
            lifted = self.value(value, member, taken)
            if self.fits(lifted, member):
                return lifted
        return value

    def object(self, value: dict[str, Any], schema: Any) -> Any:
        """An object with its original names, and without nulls that stand for absent values."""
        schema, members = self._union_parts(schema)
        properties, required = properties_of(schema), required_of(schema)
        unknown = any(key not in properties for key in value)
        hidden = [name for name in properties if name not in value] if unknown else []
        self.spend(len(hidden))
        shown = {argument_name(name): name for name in hidden}
        result: dict[str, Any] = {}
        for key, inner in value.items():
            name = key if key in properties else shown.get(key, key)
            wanted = properties.get(name, schema.get("additionalProperties", {}))
            unsaid = inner is None and name in properties and name not in required
            if unsaid and not self.accepts(wanted, "null"):
                continue
            known = name in properties or name in required
            result[name] = self.value(inner, wanted) if known else self._lift_extra(inner, wanted)
        return self._as_member(result, members) if members else result

    def unmarked(self, value: dict[str, str], schema: Any, taken: bool) -> Any:
        """The value in an object with JSON text, unless the schema allows the object itself."""
        decoded = _decode_json(value[JSON_TEXT])
        if decoded is _NOT_JSON:
            return value
        if self.fits(value, schema):
            marks = self.named and (taken or self.accepts(schema, "string"))
            return decoded if marks and self.fits(decoded, schema) else value
        return decoded

    def array(self, value: list[Any], schema: Mapping[str, Any]) -> list[Any]:
        """An array, item by item."""
        schema = self._combine_parts(schema)
        prefix = as_list(schema.get("prefixItems"))
        rest = schema.get("items", {})
        return [
            self.value(item, prefix[n] if n < len(prefix) else rest) for n, item in enumerate(value)
        ]

    def text(self, value: str, schema: Mapping[str, Any], taken: bool) -> Any:
        """The text, or the value that it encodes if the schema does not accept text."""
        choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(choices, list):
            return value if value in choices else _find_choice(value, choices)
        if taken or self.accepts(schema, "string"):
            return value
        decoded = _decode_json(value)
        kind = kind_of(decoded)
        wanted = kind in ("object", "array") and self.accepts(schema, kind)
        return decoded if decoded is not _NOT_JSON and wanted else value

    def fits(self, value: Any, schema: Any) -> bool:
        """Whether a value has the shape that a schema describes; bounds are not checked."""
        if isinstance(schema, bool):
            return schema
        schema = resolve_reference(schema, self.root)
        key = (id(schema), id(value))
        if key not in self.fitting:
            self.spend(1)
            # A schema that refers to itself adds no condition, so the answer in a cycle is yes.
            self.fitting[key] = (True, schema, value)
            with self.level:
                self.fitting[key] = (self._is_shaped(value, schema), schema, value)
        return self.fitting[key][0]

    def _is_shaped(self, value: Any, schema: Mapping[str, Any]) -> bool:
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list) and not any(_same_value(value, each) for each in choices):
            return False
        for key, combined in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            parts = schema.get(key)
            if isinstance(parts, list) and not combined(self.fits(value, part) for part in parts):
                return False
        types = types_of(schema) if "type" in schema else []
        kind = kind_of(value)
        if types and kind not in types and not (kind == "integer" and "number" in types):
            return False
        return self._contents_fit(value, schema)

    def _contents_fit(self, value: Any, schema: Mapping[str, Any]) -> bool:
        if isinstance(value, list):
            prefix, rest = as_list(schema.get("prefixItems")), schema.get("items", True)
            wanted = [*prefix[: len(value)], *[rest] * (len(value) - len(prefix))]
            return all(map(self.fits, value, wanted))
        if not isinstance(value, dict):
            return True
        properties = properties_of(schema)
        extra = schema.get("additionalProperties", True)
        if isinstance(schema.get("patternProperties"), Mapping):
            extra = True
        return all(name in value for name in required_of(schema)) and all(
            self.fits(inner, properties.get(name, extra)) for name, inner in value.items()
        )

    def _lift_extra(self, value: Any, schema: Any) -> Any:
        """A value under an undeclared name; lowering never marks these."""
        before, self.named = self.named, False
        try:
            return self.value(value, schema)
        finally:
            self.named = before

    def _union_parts(self, schema: Any) -> tuple[Mapping[str, Any], list[Any]]:
        """A schema with its `allOf` combined, and the members of its union if it is one."""
        schema = self._combine_parts(resolve_reference(schema, self.root))
        return schema, as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))

    def _combine_parts(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """A schema with the properties and items of its `allOf` parts."""
        parts = [schema, *self._inner_parts(schema, {id(schema)})]
        self.spend(len(parts))
        if len(parts) == 1:
            return schema
        whole = {key: value for key, value in schema.items() if key != "allOf"}
        names = dict.fromkeys(name for part in parts for name in properties_of(part))
        whole["properties"] = {name: _combine_all(_schemas_named(parts, name)) for name in names}
        whole["required"] = [name for part in parts for name in required_of(part)]
        length = max(len(as_list(part.get("prefixItems"))) for part in parts)
        whole["prefixItems"] = [_combine_all(_items_at(parts, place)) for place in range(length)]
        for key in ("items", "additionalProperties"):
            said = [part[key] for part in parts if key in part]
            if said:
                whole[key] = _combine_all(said)
        return whole

    def _inner_parts(
        self, schema: Mapping[str, Any], seen: set[int]
    ) -> Iterator[Mapping[str, Any]]:
        """The parts of an `allOf` at any depth, each once."""
        for each in as_list(schema.get("allOf")):
            part = resolve_reference(each, self.root)
            if id(part) not in seen:
                seen.add(id(part))
                yield part
                yield from self._inner_parts(part, seen)

    def _as_member(self, value: dict[str, Any], members: list[Any]) -> Any:
        return self.choice(value, members, taken=False)


def _is_choice(schema: Mapping[str, Any]) -> bool:
    return isinstance(schema.get("anyOf"), list) or isinstance(schema.get("oneOf"), list)


def _schemas_named(parts: list[Mapping[str, Any]], name: str) -> list[Any]:
    return [properties_of(part)[name] for part in parts if name in properties_of(part)]


def _items_at(parts: list[Mapping[str, Any]], place: int) -> list[Any]:
    """The schemas that the parts have for an item, by its position or from `items`."""
    found = []
    for part in parts:
        prefix = as_list(part.get("prefixItems"))
        if place < len(prefix):
            found.append(prefix[place])
        elif "items" in part:
            found.append(part["items"])
    return found


def _combine_all(said: list[Any]) -> Any:
    """One schema that combines several."""
    return said[0] if len(said) == 1 else {"allOf": said}


def _is_marked(value: Any) -> bool:
    return isinstance(value, dict) and list(value) == [JSON_TEXT]


def _same_value(value: Any, choice: Any) -> bool:
    return isinstance(value, bool) == isinstance(choice, bool) and bool(value == choice)


def _decode_json(text: Any) -> Any:
    if not isinstance(text, str):
        return _NOT_JSON
    try:
        return parse_json(text)
    except ValueError:
        return _NOT_JSON


def _find_choice(text: str, choices: list[Any]) -> Any:
    """The choice that the text encodes as JSON, else the text."""
    decoded = _decode_json(text)
    same = (each for each in choices if type(each) is type(decoded) and each == decoded)
    return next(same, text)
