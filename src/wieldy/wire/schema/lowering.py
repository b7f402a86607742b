"""Convert a tool's JSON Schema to the form that a provider accepts, and report the losses."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wieldy.core.bounded_json import NestedTooDeep, check_depth

from .merging import Schema, flatten_union
from .provider_limits import openai_strict_faults
from .sanitize import sanitize_schema
from .schema_change import Lowered, SchemaChange
from .schema_facts import (
    MAPPINGS,
    argument_name,
    properties_of,
    required_of,
    takes_anything,
    walk_schemas,
)
from .schema_rewriter import Walk
from .target import OPENAI_STRICT, Loose, Target, target_of

_NO_ARGUMENTS: Schema = {"type": "object", "properties": {}}
_TOP_KEYWORDS = frozenset({"anyOf", "oneOf", "allOf", "$ref", "not", "enum"})


def lower_schema(schema: Mapping[str, Any], provider: str, strict: bool = False) -> Lowered:
    """A tool's input schema in the form that a provider accepts; the given one is not changed.

    A tool can't be strict if it accepts any argument or exceeds the provider's limits. Its
    schema is then lowered without `strict`, and a change says why.
    """
    target = target_of(provider, strict)
    changes: list[SchemaChange] = []
    try:
        check_depth(schema)
        lowered = _lower_once(sanitize_schema(schema, changes), provider, target)
    except NestedTooDeep as error:
        change = SchemaChange("", "schema", "became any object", f"it is {error}", True)
        return Lowered({"type": "object", "properties": {}}, (change,))
    return replace(lowered, changes=(*lowered.changes, *dict.fromkeys(changes)))


def _lower_once(schema: Schema, provider: str, target: Target | Loose) -> Lowered:
    if isinstance(target, Loose):
        return _loosen_schema(schema, target)
    lowered = Walk(schema, target).run()
    if not target.strict:
        return lowered
    faults = openai_strict_faults(lowered.schema) if target is OPENAI_STRICT else []
    if takes_anything(schema):
        faults.append("the tool takes arguments that it does not name")
    return _without_strict(schema, provider, target, faults[0]) if faults else lowered


def _without_strict(
    schema: Mapping[str, Any], provider: str, target: Target, fault: str
) -> Lowered:
    change = SchemaChange("", "strict", "was left off", f"{target.title}: {fault}", True)
    loose = _lower_once(dict(schema), provider, target_of(provider))
    return Lowered(loose.schema, (change, *loose.changes))


def _loosen_schema(schema: Mapping[str, Any], target: Loose) -> Lowered:
    """The schema, changed only at the top, in its arrays and in its names."""
    changes: list[SchemaChange] = []
    plain: Schema = dict(schema)
    if not target.names_dialect:
        plain.pop("$schema", None)
    if target.plain_top and _TOP_KEYWORDS & {*plain}:
        plain = _plain_top(plain, target, changes)
    plain = {**_NO_ARGUMENTS, **plain, "type": "object", "properties": properties_of(plain)}
    if target.needs_items and any(map(_lacks_items, walk_schemas(plain))):
        plain = _with_items(plain)
        why = f"{target.title} asks for it in every array"
        changes.append(SchemaChange("", "items", "was added, saying nothing", why, False))
    if target.key is not None:
        plain = _with_legal_names(plain, target, changes)
    return Lowered(plain, tuple(changes))


def _plain_top(schema: Schema, target: Loose, changes: list[SchemaChange]) -> Schema:
    lost: list[str] = []
    flat = flatten_union(schema, schema, lost)
    why = f"{target.title} takes one plain object at the top"
    keywords = dict.fromkeys([*lost, *(key for key in ("not", "enum") if key in flat)])
    changes += [
        SchemaChange("", each, "was folded into one object", why, True) for each in keywords
    ]
    return {key: value for key, value in flat.items() if key not in ("not", "enum")}


def _with_legal_names(schema: Schema, target: Loose, changes: list[SchemaChange]) -> Schema:
    """The schema with property names at the top that the target accepts."""
    legal = {
        name: name if target.key is None or target.key.match(name) else argument_name(name)
        for name in schema["properties"]
    }
    renamed = {name: new for name, new in legal.items() if name != new}
    if not renamed:
        return schema
    for name, new in renamed.items():
        why = f"{target.title} does not take the name"
        changes.append(SchemaChange("", repr(name), f"is called {new}", why, False))
    required = [legal.get(name, name) for name in required_of(schema)]
    properties = {legal[name]: inner for name, inner in schema["properties"].items()}
    return {**schema, "properties": properties, "required": required}


def _with_items(schema: Any) -> Any:
    """A copy in which every array has `items`."""
    if isinstance(schema, list):
        return [_with_items(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    data = ("enum", "const", "default", "examples")
    copy = {key: value if key in data else _with_items(value) for key, value in schema.items()}
    return {**copy, "items": {}} if _lacks_items(schema) else copy


def _lacks_items(schema: Any) -> bool:
    if not isinstance(schema, MAPPINGS) or "items" in schema:
        return False
    said = schema.get("type")
    return "array" in said if isinstance(said, list) else said == "array"
