"""Random schemas of the kinds that tools have, and random values for a schema."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]

NAMES = st.sampled_from(["a", "b", "c", "long name", "x-y", "größe"])
SCALARS = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "string", "description": "Words."}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(
        lambda low: {"type": "integer", "minimum": low, "maximum": low + 9}, st.integers(0, 5)
    ),
    st.builds(lambda low: {"type": "integer", "exclusiveMinimum": low}, st.integers(0, 5)),
    st.just({"type": "number", "default": 1.5}),
    st.just({"type": "string", "minLength": 2, "maxLength": 4}),
    st.just({"type": "string", "format": "date-time"}),
    st.just({"type": ["string", "null"]}),
    st.just({"type": ["integer", "string"]}),
    st.lists(st.sampled_from(["x", "y", 1, 2, None, True]), min_size=1, max_size=4).map(
        lambda values: {"enum": values}
    ),
    st.sampled_from(["x", 1, None, False]).map(lambda value: {"const": value}),
    st.just({}),
    st.just({"type": "object"}),
    st.just({"type": "object", "additionalProperties": {"type": "integer"}}),
    st.just({"type": "object", "additionalProperties": {"type": "string"}}),
    st.just({"type": "array"}),
    st.sampled_from(["Leaf", "Node"]).map(lambda name: {"$ref": f"#/$defs/{name}"}),
    st.just({"$ref": "#/$defs/Leaf", "description": "A leaf."}),
)

# A value of the second kind looks to the first as if null stood for nothing.
NULL_LAST: list[Schema] = [
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"]},
]


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    schema: Schema = {"type": "object", "properties": properties, "required": required}
    extra = draw(st.sampled_from([None, False, False, True]))
    return schema if extra is None else {**schema, "additionalProperties": extra}


def _containers(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    members = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        objects(inner),
        st.builds(lambda items: {"type": "array", "items": items, "minItems": 1}, inner),
        st.builds(lambda items: {"type": "array", "items": items, "maxItems": 3}, inner),
        members.map(lambda items: {"type": "array", "prefixItems": items, "items": False}),
        members.map(lambda items: {"anyOf": items}),
        members.map(lambda items: {"oneOf": items, "description": "One of them."}),
        members.map(lambda items: {"allOf": items[:1]}),
        st.sampled_from([NULL_LAST, NULL_LAST[::-1]]).map(lambda items: {"anyOf": items}),
        objects(inner).map(lambda item: {"allOf": [item, {"type": "object", "required": ["a"]}]}),
    )


@st.composite
def tool_schemas(draw: st.DrawFn) -> Schema:
    """An input schema: an object with definitions, one of which is recursive."""
    schemas = st.recursive(SCALARS, _containers, max_leaves=8)
    top = draw(objects(schemas))
    leaf = draw(objects(SCALARS.filter(lambda schema: "$ref" not in schema)))
    kids = {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    node = {
        "type": "object",
        "properties": {"value": {"type": "string"}, "kids": kids},
        "required": draw(st.sampled_from([["value"], ["kids", "value"]])),
        "additionalProperties": False,
    }
    return {**top, "additionalProperties": False, "$defs": {"Leaf": leaf, "Node": node}}


JSON_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 20), st.text("ab", max_size=3), st.just({"k": 1})
)


@st.composite
def values(draw: st.DrawFn, schema: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
    """A value for a schema, mostly valid."""
    if isinstance(schema, bool):
        return draw(JSON_VALUES)
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    members = schema.get("anyOf") or schema.get("oneOf") or (schema.get("allOf") or ())[:1]
    if members:
        members = members if depth < 6 else members[-1:]
        return draw(values(draw(st.sampled_from(members)), root, depth + 1))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[-1] if depth > 6 else draw(st.sampled_from(kind))
    if kind == "object":
        return draw(_object_values(schema, root, depth))
    if kind == "array":
        return draw(_array_values(schema, root, depth))
    return draw(_scalar_values(schema, kind))


@st.composite
def _object_values(draw: st.DrawFn, schema: Schema, root: Mapping[str, Any], depth: int) -> Any:
    required = schema.get("required") or ()
    result = {}
    for name, inner in (schema.get("properties") or {}).items():
        if name in required or (depth < 5 and draw(st.booleans())):
            result[name] = draw(values(inner, root, depth + 1))
    extra = schema.get("additionalProperties", {})
    free = "properties" not in schema and extra in ({}, True, {"type": "string"})
    if free and draw(st.booleans()):
        # As lowering writes JSON text, and yet an object of this kind.
        return {"json_text": "[1]"}
    return result


@st.composite
def _array_values(draw: st.DrawFn, schema: Schema, root: Mapping[str, Any], depth: int) -> Any:
    if "prefixItems" in schema:
        return [draw(values(item, root, depth + 1)) for item in schema["prefixItems"]]
    least = schema.get("minItems", 0)
    most = min(schema.get("maxItems", 2), least if depth > 4 else least + 2)
    return [
        draw(values(schema.get("items", {}), root, depth + 1))
        for _ in range(draw(st.integers(min(least, most), most)))
    ]


def _scalar_values(schema: Schema, kind: str | None) -> st.SearchStrategy[Any]:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return {
        "string": st.text("ab", max_size=4) | st.sampled_from(["{}", "1", '{"a": 1}']),
        "integer": st.integers(low, schema.get("maximum", low + 9)),
        "number": st.floats(0, 9),
        "boolean": st.booleans(),
        "null": st.none(),
        None: JSON_VALUES,
    }[kind]
