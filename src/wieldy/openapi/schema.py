"""A schema of an OpenAPI document as JSON Schema 2020-12, with just the definitions it uses.

Real documents contain many schemas with mistakes. Parts that can't be understood are left out,
so that a mistake costs a hint for the model, and not the tool.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from wieldy.core.bounded_json import dump_json
from wieldy.core.schema.bounded_keywords import is_pattern
from wieldy.core.schema.references import last_name, write_reference
from wieldy.core.schema.schema_graph import SchemaGraph, SchemaRefused, add_up, same_parts
from wieldy.core.short_text import cut_text

from .document import Document, Node

# A schema in a schema takes two levels, and the whole must fit into `MAX_DEPTH`.
_MAX_DEPTH = 40
# The limit for one operation, because recursive schemas would be written out without end.
_MAX_PARTS = 50_000
_MAX_EXAMPLE = 200
# Known documents have up to 18 paths to one value.
_MAX_USUAL = 200
_MAX_TEXT = 1000
_TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")
_ODD = re.compile(r"[^a-zA-Z0-9_.-]+")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_pattern(value: Any) -> bool:
    return isinstance(value, str) and is_pattern(value)


# Keywords whose value is kept unchanged if it has the right form.
_PLAIN: dict[str, Callable[[Any], bool]] = {
    "description": lambda value: isinstance(value, str),
    "format": lambda value: isinstance(value, str),
    "pattern": _is_pattern,
    "contentEncoding": lambda value: isinstance(value, str),
    "contentMediaType": lambda value: isinstance(value, str),
    "default": lambda value: True,
    "const": lambda value: True,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "minContains": _is_count,
    "maxContains": _is_count,
    "minProperties": _is_count,
    "maxProperties": _is_count,
    "uniqueItems": lambda value: isinstance(value, bool),
    "deprecated": lambda value: isinstance(value, bool),
    "readOnly": lambda value: isinstance(value, bool),
    "writeOnly": lambda value: isinstance(value, bool),
    "required": _is_names,
}
_ONE = (
    "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_UNION = ("anyOf", "oneOf", "allOf")


def refusal(schema: Mapping[str, Any]) -> str | None:
    """The reason why a schema is too expensive, or None."""
    try:
        SchemaGraph(schema).check()
    except SchemaRefused as error:
        return str(error)
    return None


def is_entangled(document: Document) -> bool:
    """Whether the definitions of a document refer to each other unusually often.

    Only in this case is each operation checked before it is needed.
    """

    def onward(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        parts = same_parts(part)
        reference = part.get("$ref")
        target = document.find(reference, document.address) if isinstance(reference, str) else None
        if target is not None and isinstance(target.value, Mapping):
            parts.append(target.value)
        return parts

    components = document.root.get("components") or {}
    schemas = components.get("schemas")
    listed = schemas.values() if isinstance(schemas, Mapping) else ()
    counts = add_up([each for each in listed if isinstance(each, Mapping)], onward)
    return max(counts.values(), default=0) > _MAX_USUAL


class Schemas:
    """Reads the schemas of one operation, for what is sent or for what comes back.

    `definitions` holds the schemas that they refer to. `hidden` is the keyword of properties
    that don't belong to this direction: `readOnly` in a request, `writeOnly` in a response.
    """

    def __init__(self, document: Document, hidden: str) -> None:
        self.document = document
        self.hidden = hidden
        self.definitions: dict[str, Any] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._taken: set[str] = set()
        self._waiting: list[tuple[str, Node]] = []
        self._parts = 0

    def read(self, node: Node) -> Any:
        """The schema; the schemas that it refers to are added to the definitions."""
        schema = self._read_schema(node, 0)
        while self._waiting:
            name, target = self._waiting.pop()
            self.definitions[name] = self._read_schema(target, 0)
        return schema

    def whole(self, node: Node) -> dict[str, Any]:
        """The schema with its definitions under `$defs`."""
        schema = self.read(node)
        schema = {} if schema is True else {"not": {}} if schema is False else schema
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def _read_schema(self, node: Node, depth: int) -> Any:
        value = node.value
        if isinstance(value, bool):
            return value
        self._parts += 1
        if not isinstance(value, Mapping) or depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            return {}
        if isinstance(value.get("$ref"), str):
            return self._read_reference(node, depth)
        return self._read_keywords(node, depth)

    def _read_reference(self, node: Node, depth: int) -> Any:
        reference: str = node.value["$ref"]
        target = self.document.follow(node)
        if target is None:
            said = f"The document refers to {reference[:200]}, which is not there."
            return {"description": said}
        found = {"$ref": write_reference("$defs", self._definition_name(reference, target))}
        beside = {key: value for key, value in node.value.items() if key != "$ref"}
        if self.document.is_30:
            # In version 3.0 keywords beside a reference are ignored; a description does no harm.
            beside = {key: value for key, value in beside.items() if key == "description"}
        return (
            {**self._read_keywords(Node(beside, node.address), depth), **found} if beside else found
        )

    def _definition_name(self, reference: str, target: Node) -> str:
        key = (target.address, id(target.value))
        if key not in self._names:
            plain = _ODD.sub("_", last_name(reference))[:60].strip("_.") or "Schema"
            name, number = plain, 2
            while name in self._taken:
                name, number = f"{plain}_{number}", number + 1
            self._taken.add(name)
            self._names[key] = name
            self._waiting.append((name, target))
        return self._names[key]

    def _read_keywords(self, node: Node, depth: int) -> dict[str, Any]:
        value: Mapping[str, Any] = node.value
        schema = {
            key: value[key] for key, fits in _PLAIN.items() if key in value and fits(value[key])
        }
        kinds = _known_types(value.get("type"))
        if kinds:
            schema["type"] = kinds[0] if len(kinds) == 1 else kinds
        self._read_inner(node, depth, schema)
        self._leave_out(node, schema)
        _convert_bounds(value, schema)
        _add_examples(value, schema)
        if self.document.is_30 and value.get("nullable") is True:
            return _make_nullable(schema)
        if "description" in schema:
            schema["description"] = cut_text(schema["description"], _MAX_TEXT)
        return schema

    def _read_inner(self, node: Node, depth: int, schema: dict[str, Any]) -> None:
        value, address = node.value, node.address
        for key in _ONE:
            if isinstance(value.get(key), Mapping | bool):
                schema[key] = self._read_schema(Node(value[key], address), depth + 1)
        for key in _MANY:
            if isinstance(value.get(key), list) and value[key]:
                schema[key] = [
                    self._read_schema(Node(each, address), depth + 1) for each in value[key]
                ]
        for key in _NAMED:
            if isinstance(value.get(key), Mapping):
                schema[key] = {
                    str(name): self._read_schema(Node(each, address), depth + 1)
                    for name, each in value[key].items()
                    if key != "patternProperties" or _is_pattern(name)
                }

    def _leave_out(self, node: Node, schema: dict[str, Any]) -> None:
        """Drop the properties that don't belong to this direction."""
        given = node.get("properties")
        if not isinstance(given, Mapping):
            return
        for name, each in given.items():
            target = self.document.follow(Node(each, node.address))
            marks = (each, target.value if target is not None else None)
            if any(isinstance(mark, Mapping) and mark.get(self.hidden) is True for mark in marks):
                schema["properties"].pop(str(name), None)
        if "required" in schema:
            gone = given.keys() - schema["properties"].keys()
            schema["required"] = [name for name in schema["required"] if name not in gone]


def _known_types(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else [given]
    known = [kind for kind in listed if isinstance(kind, str) and kind in _TYPES]
    # A list with an unknown type allows more than its known types, so it is not enforced.
    return list(dict.fromkeys(known)) if len(known) == len(listed) else []


def _convert_bounds(value: Mapping[str, Any], schema: dict[str, Any]) -> None:
    """Convert the boolean `exclusiveMinimum` and `exclusiveMaximum` of version 3.0."""
    for bound, exclusive in (
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ):
        if value.get(exclusive) is True and bound in schema:
            schema[exclusive] = schema.pop(bound)


def _add_examples(value: Mapping[str, Any], schema: dict[str, Any]) -> None:
    given = value.get("examples")
    listed = given if isinstance(given, list) else [value["example"]] if "example" in value else []
    try:
        short = [each for each in listed[:3] if len(dump_json(each)) <= _MAX_EXAMPLE]
    except (TypeError, ValueError):
        return
    if short:
        schema["examples"] = short


def _make_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("type"), str) and not schema.keys() & _UNION:
        schema["type"] = [schema["type"], "null"]
        return schema
    if not schema.keys() & {*_UNION, "not"}:
        return schema
    said: dict[str, Any] = {}
    said.update((key, schema.pop(key)) for key in ("description", "default") if key in schema)
    return {**said, "anyOf": [schema, {"type": "null"}]}
