"""Answer small questions about a schema, for lowering and lifting."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wieldy.core.schema.references import DEFINITIONS, resolve_reference

# A value that a provider can't describe is sent as JSON text. Where plain text is allowed too,
# the JSON text is the only property of an object with this name.
JSON_TEXT = "json_text"

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
SILENT = frozenset(
    {"$schema", "$id", "$comment", "$anchor", "$dynamicAnchor", *DEFINITIONS, "discriminator"}
)
SPEAKS_OF = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "contentEncoding"), "string"),
    "contentMediaType": "string",
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), "number"),
    "multipleOf": "number",
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems"), "array"),
    **dict.fromkeys(("contains", "minContains", "maxContains", "unevaluatedItems"), "array"),
    **dict.fromkeys(("properties", "required", "additionalProperties"), "object"),
    **dict.fromkeys(("patternProperties", "propertyNames", "minProperties"), "object"),
    **dict.fromkeys(("maxProperties", "unevaluatedProperties", "dependentRequired"), "object"),
    "dependentSchemas": "object",
}
SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
# `dict` comes first because most mappings are dicts and that check is faster.
MAPPINGS = (dict, Mapping)
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({
    "items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
# How many unions may follow each other on the same value.
_MAX_DEPTH = 50
_ILLEGAL_RUN = re.compile(r"[^a-zA-Z0-9_]+")

# Cached answers by the identity of a schema and a type; each keeps its schema alive.
Accepted = dict[tuple[int, str], tuple[bool, Any]]


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema without unions accepts; empty if it does not say."""
    said = schema.get("type")
    listed = said if isinstance(said, list) else [said]
    named = [each for each in listed if isinstance(each, str)]
    if isinstance(schema.get("enum"), list):
        kinds = list(dict.fromkeys(kind_of(value) for value in schema["enum"]))
        return [kind for kind in kinds if not named or kind in named or _has_wider(kind, named)]
    if named:
        return named
    implied = dict.fromkeys(SPEAKS_OF[key] for key in schema if key in SPEAKS_OF)
    if "format" in schema and not implied:
        implied["string"] = "string"
    return list(implied)


def kind_of(value: Any) -> str:
    """The JSON type of a value."""
    kinds: tuple[tuple[Any, str], ...] = (
        (type(None), "null"), (bool, "boolean"), (int, "integer"), (float, "number"),
        (str, "string"), (Mapping, "object"), ((list, tuple), "array"),
    )  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), "object")


def accepts_type(
    schema: Any,
    kind: str,
    root: Mapping[str, Any],
    known: Accepted | None = None,
    depth: int = 0,
) -> bool:
    """Whether a schema accepts some value of a type, judged by types alone.

    `known` caches the answers for one root schema.
    """
    known = {} if known is None else known
    if isinstance(schema, bool):
        return schema
    schema = resolve_reference(schema, root)
    key = (id(schema), kind)
    if key not in known:
        # A cycle, or a schema that is nested too deeply, counts as accepting. The schema is kept
        # with the answer, so that no other object can get the same id.
        known[key] = (True, schema)
        if depth >= _MAX_DEPTH:
            return True
        known[key] = (_accepts_kind(schema, kind, root, known, depth + 1), schema)
    return known[key][0]


def properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties that an object schema names."""
    named = schema.get("properties")
    return named if isinstance(named, Mapping) else {}


def required_of(schema: Mapping[str, Any]) -> list[str]:
    """The names that an object schema requires."""
    named = schema.get("required")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def is_open(schema: Mapping[str, Any]) -> bool:
    """Whether an object schema declares no properties and allows any, or any of one kind."""
    extra = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
    return not properties_of(schema) and not required_of(schema) and extra is not False


def takes_anything(schema: Mapping[str, Any]) -> bool:
    """Whether a tool's schema allows arguments that it does not declare."""
    extra = schema.get("additionalProperties", False)
    return extra is not False or bool(schema.get("patternProperties"))


def inner_schemas(schema: Any) -> Iterator[Any]:
    """The direct inner schemas of a schema, without its definitions."""
    if not isinstance(schema, MAPPINGS):
        return
    for key, value in schema.items():
        if key in _MAPS:
            if isinstance(value, MAPPINGS):
                yield from value.values()
        elif key in _LISTS:
            if isinstance(value, list):
                yield from value
        elif key in _SINGLE and isinstance(value, MAPPINGS):
            yield value


def walk_schemas(schema: Any, homes: Iterable[str] = DEFINITIONS) -> Iterator[Mapping[str, Any]]:
    """A schema and all inside it, with what is defined under these keywords."""
    waiting = [schema]
    while waiting:
        here = waiting.pop()
        if isinstance(here, MAPPINGS):
            yield here
            waiting += inner_schemas(here)
            for key in homes:
                if isinstance(here.get(key), MAPPINGS):
                    waiting += here[key].values()


def find_references(schema: Any) -> Iterator[str]:
    """Every reference inside a schema, at any depth, without its definitions."""
    for part in walk_schemas(schema, homes=()):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]


def are_exclusive(
    members: list[Any], root: Mapping[str, Any], known: Accepted | None = None
) -> bool:
    """Whether no value can match two of these, because of types or a distinguishing property."""
    schemas = [resolve_reference(member, root) for member in members]
    seen: set[str] = set()
    for schema in schemas:
        every = (*SCALARS, "object", "array")
        kinds = {kind for kind in every if accepts_type(schema, kind, root, known)}
        if kinds & seen:
            return _told_apart(schemas, root)
        seen |= kinds
    return True


def argument_name(name: str) -> str:
    """A property name that every provider accepts: a readable form with a hash."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    readable = _ILLEGAL_RUN.sub("_", name).strip("_0123456789")[:54]
    return f"{readable}_{digest}" if readable else f"argument_{digest}"


def _has_wider(kind: str, types: list[str]) -> bool:
    return kind == "integer" and "number" in types


def _told_apart(schemas: list[Mapping[str, Any]], root: Mapping[str, Any]) -> bool:
    tags: dict[str, list[Any]] = {}
    for schema in schemas:
        if types_of(schema) != ["object"]:
            return False
        for name in required_of(schema):
            inner = resolve_reference(properties_of(schema).get(name), root)
            values = [inner["const"]] if "const" in inner else inner.get("enum")
            if (
                isinstance(values, list)
                and values
                and all(kind_of(value) == "string" for value in values)
            ):
                tags.setdefault(name, []).append(values)
    for lists in tags.values():
        every = [value for values in lists for value in values]
        if len(lists) == len(schemas) and len(set(every)) == len(every):
            return True
    return False


def _accepts_kind(
    schema: Mapping[str, Any], kind: str, root: Mapping[str, Any], known: Accepted, depth: int
) -> bool:
    for key, combined in (("anyOf", any), ("oneOf", any), ("allOf", all)):
        parts = schema.get(key)
        if isinstance(parts, list) and parts:
            inside = (accepts_type(part, kind, root, known, depth) for part in parts)
            if not combined(inside):
                return False
    if "const" in schema:
        return kind_of(schema["const"]) == kind
    types = types_of(schema)
    return not types or kind in types or _has_wider(kind, types)
