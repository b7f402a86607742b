"""A schema from outside can't ask for more work than a call is worth."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from wieldy import DefinitionError, Status, Tool, Toolbox
from wieldy.core.choices import ValidationMode
from wieldy.core.schema.misfit import find_misfits
from wieldy.core.schema.schema_check import SchemaCheck, TooComplex
from wieldy.core.schema.schema_graph import SchemaGraph, SchemaRefused

Schema = dict[str, Any]


def _chain(length: int, link: Callable[[Schema], Schema], end: Any = None) -> Schema:
    """A schema for `x` in which each definition is made of references to the next."""
    definitions = {f"d{n}": link({"$ref": f"#/$defs/d{n + 1}"}) for n in range(length)}
    definitions[f"d{length}"] = {"type": "integer"} if end is None else end
    first = {"x": {"$ref": "#/$defs/d0"}}
    return {"type": "object", "properties": first, "$defs": definitions}


SAME_VALUE: dict[str, Callable[[Schema], Schema]] = {
    "anyOf": lambda ref: {"anyOf": [ref, ref]},
    "oneOf": lambda ref: {"oneOf": [ref, {"allOf": [ref, {"minimum": 3}]}]},
    "allOf": lambda ref: {"allOf": [ref, ref]},
    "reference": lambda ref: {**ref, "allOf": [ref]},
    "if": lambda ref: {"if": ref, "then": ref, "else": ref},
    "not": lambda ref: {"not": {"not": ref}, "allOf": [ref]},
    "dependentSchemas": lambda ref: {"dependentSchemas": {"a": ref, "b": ref}},
    "unevaluated": lambda ref: {"anyOf": [ref, ref], "unevaluatedProperties": False},
}
INSIDE: dict[str, Callable[[Schema], Schema]] = {
    "properties": lambda ref: {
        "anyOf": [{"properties": {"x": ref}}, {"properties": {"x": ref}, "required": ["x"]}]
    },
    "additionalProperties": lambda ref: {
        "anyOf": [{"additionalProperties": ref}, {"patternProperties": {".": ref}}]
    },
    "unevaluatedProperties": lambda ref: {
        "anyOf": [
            {"unevaluatedProperties": ref},
            {"unevaluatedProperties": ref, "maxProperties": 9},
        ]
    },
    "not": lambda ref: {"not": {"anyOf": [{"not": {"properties": {"x": ref}}}] * 2}},
}
FILTER: Schema = {
    "type": "object",
    "properties": {"filter": {"$ref": "#/$defs/filter"}},
    "$defs": {
        "filter": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "op": {"enum": [op, "any"]},
                        "parts": {"type": "array", "items": {"$ref": "#/$defs/filter"}},
                    },
                    "required": ["op", "parts"],
                }
                for op in ("and", "or", "nor", "xor")
            ]
            + [{"type": "object", "properties": {"is": {"type": "string"}}, "required": ["is"]}],
        }
    },
}


def _filter(depth: int, leaf: Any, op: str = "any") -> Schema:
    value: Any = {"is": leaf}
    for _ in range(depth):
        value = {"op": op, "parts": [value]}
    return {"filter": value}


async def give(**values: Any) -> Any:
    """Give back what came."""
    return values


@pytest.mark.parametrize("link", SAME_VALUE.values(), ids=SAME_VALUE)
@pytest.mark.parametrize("length", [17, 45])
def test_schema_that_looks_at_one_value_in_too_many_ways_is_refused_when_it_is_added(
    link: Callable[[Schema], Schema], length: int
) -> None:
    with pytest.raises(DefinitionError, match="it has more than 10,000 ways to look at the same"):
        Toolbox().add(give, input_schema=_chain(length, link))


@pytest.mark.parametrize("name", ["$anchor", "$id", "$dynamicAnchor"])
def test_ways_through_references_by_name_are_counted_as_well(name: str) -> None:
    reference = "$dynamicRef" if name == "$dynamicAnchor" else "$ref"
    mark, sign = ("", "#") if name != "$id" else ("https://x.example/", "https://x.example/")
    definitions: Schema = {
        f"d{n}": {name: f"{mark}d{n}", "anyOf": [{reference: f"{sign}d{n + 1}"}] * 2}
        for n in range(20)
    }
    definitions["d20"] = {name: f"{mark}d20", "type": "integer"}
    schema = {"properties": {"x": {reference: f"{sign}d0"}}, "$defs": definitions}

    with pytest.raises(SchemaRefused, match="more than 10,000 ways"):
        SchemaGraph(schema).check()


def test_schema_that_a_function_gives_is_checked_when_it_is_built() -> None:
    tool = Tool(give, input_schema=lambda: _chain(20, SAME_VALUE["anyOf"]))

    with pytest.raises(DefinitionError, match="more than 10,000 ways"):
        _ = tool.input_schema


def test_long_chain_of_references_is_refused_before_a_validator_could_overflow() -> None:
    chain = _chain(1000, lambda ref: {"allOf": [ref], "unevaluatedProperties": False})

    with pytest.raises(DefinitionError, match="more than 50 references or unions follow"):
        Toolbox().add(give, input_schema=chain)


def test_one_dict_at_very_many_places_is_refused() -> None:
    part: Schema = {"type": "integer"}
    for _ in range(40):
        part = {"type": "object", "properties": {"a": part, "b": part}}

    with pytest.raises(DefinitionError, match="more than 1,000,000 parts"):
        Toolbox().add(give, input_schema=part)


@pytest.mark.parametrize("link", INSIDE.values(), ids=INSIDE)
async def test_ways_that_multiply_inside_a_value_cost_one_look_for_each_pair(
    link: Callable[[Schema], Schema],
) -> None:
    box = Toolbox(validation="strict")
    box.add(give, input_schema=_chain(40, link))
    right: Any = 1
    wrong: Any = "one"
    for _ in range(40):
        right, wrong = {"x": right}, {"x": wrong}

    assert (await box.call("give", {"x": right})).status is Status.OK
    refused = await box.call("give", {"x": wrong})

    assert refused.status is Status.ERROR
    assert refused.text.startswith("Invalid arguments for give: x")


@pytest.mark.parametrize("depth", [1, 10, 48])
@pytest.mark.parametrize("validation", ["strict", "repair"])
async def test_recursive_filter_is_checked_at_any_depth(
    depth: int, validation: ValidationMode
) -> None:
    box = Toolbox(validation=validation)
    box.add(give, input_schema=FILTER)

    right = await box.call("give", _filter(depth, "a"))
    wrong = await box.call("give", _filter(depth, ["a", "b"]))

    assert right.value == _filter(depth, "a")
    assert wrong.status is Status.ERROR
    assert wrong.text.startswith("Invalid arguments for give: filter: ")


async def test_value_that_is_too_much_for_its_schema_is_refused_and_says_so() -> None:
    many = [{"type": "array", "items": {"$ref": "#/$defs/v"}, "maxItems": n} for n in range(3000)]
    schema = {"properties": {"v": {"$ref": "#/$defs/v"}}, "$defs": {"v": {"anyOf": many}}}
    box = Toolbox()
    box.add(give, input_schema=schema)

    outcome = await box.call("give", {"v": [[[] for _ in range(1500)] for _ in range(3)]})

    assert outcome.text == (
        "Invalid arguments for give: arguments: too deep or too large for the schema that it has "
        "to be checked with"
    )


async def test_explaining_stops_after_a_few_of_very_many_errors() -> None:
    box = Toolbox(validation="strict")
    items = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    box.add(give, input_schema={"properties": {"v": {"type": "array", "items": items}}})

    outcome = await box.call("give", {"v": [1] * 300_000})

    assert outcome.text.endswith("; v[4]: expected string or null, got integer 1; and more")


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"$ref": "#"}, True),
        ({"not": {"$ref": "#"}}, False),
        ({"allOf": [{"$ref": "#"}, {"required": ["a"]}]}, True),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, True),
    ],
)
def test_schema_that_comes_back_to_itself_on_one_value_says_what_the_rest_says(
    schema: Schema, fits: bool
) -> None:
    assert SchemaCheck(schema).fits({"a": 1}) is fits


def test_parts_that_all_refer_to_each_other_are_looked_at_once() -> None:
    every = [{"$ref": f"#/$defs/d{n}"} for n in range(25)]
    definitions = {f"d{n}": {"allOf": every, "minimum": n} for n in range(25)}
    check = SchemaCheck({"$ref": "#/$defs/d0", "$defs": definitions})

    assert [check.fits(n) for n in (23, 24)] == [False, True]
    assert [*find_misfits(check, 23)]


async def test_base_that_lists_the_kinds_that_extend_it_takes_each_of_them() -> None:
    definitions: Schema = {
        f"kind{n}": {
            "allOf": [
                {"$ref": "#/$defs/base"},
                {"properties": {"kind": {"const": n}, f"own{n}": {"type": "string"}}},
            ]
        }
        for n in range(30)
    }
    definitions["base"] = {
        "type": "object",
        "required": ["kind"],
        "oneOf": [{"$ref": f"#/$defs/kind{n}"} for n in range(30)],
    }
    check = SchemaCheck({"$ref": "#/$defs/base", "$defs": definitions})

    assert all(check.fits({"kind": n, f"own{n}": "a"}) for n in range(30))
    assert not check.fits({"kind": 3, "own3": 3})
    assert not check.fits({"kind": 99})


@pytest.mark.parametrize(
    "pattern", ["(?=a)(a+)+$", r"^(?=.)(a|a)*\1$", r"(?<!b)(a+)+$", "^(a+)+$", "(.*a){20}$"]
)
async def test_pattern_that_could_be_tried_for_ever_is_not(pattern: str) -> None:
    box = Toolbox(validation="strict")
    items = {"type": "array", "items": {"type": "string", "pattern": pattern}}
    box.add(give, input_schema={"properties": {"v": items, "w": {"pattern": pattern}}})

    many = await box.call("give", {"v": ["a" * 900 + "!"] * 1000})
    long = await box.call("give", {"w": "a" * 1_000_000 + "!"})

    assert [many.status, long.status] == [Status.ERROR, Status.ERROR]


@pytest.mark.parametrize(("text", "fits"), [("abcdefg1", True), ("abcdefgh", False)])
async def test_pattern_that_looks_ahead_still_holds(text: str, fits: bool) -> None:
    check = SchemaCheck({"pattern": r"^(?=.*[a-z])(?=.*\d).{8,}$"})

    assert check.fits(text) is fits


def test_pattern_that_looks_ahead_is_named_where_it_does_not_match() -> None:
    check = SchemaCheck({"properties": {"word": {"pattern": "^(?=a)"}}})

    assert [*find_misfits(check, {"word": "b"})] == [
        (("word",), "wrong", 'it does not match "^(?=a)"')
    ]


def test_many_large_patterns_are_refused() -> None:
    patterns = {f"p{n}": {"pattern": f"^\\w{{{500 + n}}}$"} for n in range(100)}

    with pytest.raises(SchemaRefused, match="more than 50 large patterns"):
        SchemaCheck({"properties": patterns})


@pytest.mark.parametrize(
    ("items", "fits"),
    [
        ([*range(50_000)], True),
        ([10**30 + n for n in range(20_000)], True),
        ([{"a": [n]} for n in range(20_000)], True),
        ([1, True, "1", [1], {"1": 1}, None], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
    ],
)
def test_unique_items_are_found_out_in_one_pass(items: list[Any], fits: bool) -> None:
    assert SchemaCheck({"uniqueItems": True}).fits(items) is fits


def test_keyword_of_ours_in_a_foreign_schema_means_nothing() -> None:
    hostile: Schema = {"x-wieldy-place": 99, "x-wieldy-pattern": "a", "uniqueItems": True}
    large = {"properties": {f"p{n}": hostile for n in range(400)}, **hostile}

    assert SchemaCheck(large).fits({"p1": "b"})
    assert [*find_misfits(SchemaCheck({**large, "required": ["z"]}), {"p1": 1})] == [
        (("z",), "missing", "it is required and missing")
    ]


def test_places_that_were_cut_say_what_the_whole_says_about_what_is_left_over() -> None:
    schema = {
        "$defs": {
            "base": {"properties": {f"a{n}": {"$ref": "#/$defs/node"} for n in range(400)}},
            "node": {
                "allOf": [{"$ref": "#/$defs/base"}],
                "properties": {"name": {"type": "string"}},
                "unevaluatedProperties": False,
            },
        },
        "$ref": "#/$defs/node",
    }
    check = SchemaCheck(schema)

    assert check.fits({"name": "x", "a1": {"a2": {"name": "y"}}})
    assert [*find_misfits(check, {"a1": {"a2": {"nmae": "y"}}})] == [
        (("a1", "a2", "nmae"), "unknown", "there is no such property")
    ]


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []
    either: "Tree | list[Tree] | None" = None


async def test_recursive_models_of_the_program_itself_keep_working() -> None:
    box = Toolbox()

    @box.tool
    async def plant(tree: Tree) -> int:
        """Plant a tree."""
        return len(tree.children)

    value: Any = {"name": "leaf"}
    for n in range(20):
        value = {"name": str(n), "children": [value]}

    assert (await box.call("plant", {"tree": value})).value == 1
    assert box.schemas("openai") and box.schemas("anthropic", strict=True)
    box.add(give, input_schema=Tool(plant).input_schema)
    assert (await box.call("give", {"tree": value})).status is Status.OK


class All(BaseModel):
    op: Literal["all", "any"]
    parts: "list[Filter]"


class Some(BaseModel):
    op: Literal["some", "any"]
    parts: "list[Filter]"


class Is(BaseModel):
    value: str


Filter = All | Some | Is


@pytest.mark.parametrize("depth", [1, 8, 11, 200])
async def test_filter_of_models_that_contain_themselves_is_checked_or_refused_in_time(
    depth: int,
) -> None:
    box = Toolbox()

    @box.tool
    async def find(filter: Filter) -> str:
        """Find something."""
        return type(filter).__name__

    right: Any = {"value": "a"}
    wrong: Any = {"value": ["a", "b"]}
    for _ in range(depth):
        right, wrong = ({"op": "any", "parts": [each]} for each in (right, wrong))

    fits, fails = [await box.call("find", {"filter": each}) for each in (right, wrong)]

    if depth < 200:
        assert fits.value == "All"
        assert fails.text.startswith("Invalid arguments for find: filter")
    else:
        assert fits.text.endswith("arguments: nested more than 100 levels deep")
        assert fails.text == fits.text


async def test_models_themselves_are_taken_as_arguments_at_any_depth() -> None:
    box = Toolbox()

    @box.tool
    async def find(filter: Filter) -> str:
        """Find something."""
        return type(filter).__name__

    value: Filter = Is(value="a")
    for _ in range(9):
        value = Some(op="any", parts=[value])

    assert (await box.call("find", {"filter": value})).value == "Some"


def _graph_like(count: int) -> Schema:
    """Thousands of definitions that inherit, refer to each other, and are listed as unions."""
    definitions: Schema = {}
    for n in range(count):
        own = {
            "type": "object",
            "properties": {
                "name": {"type": ["string", "null"]},
                **{
                    f"link{k}": {"anyOf": [{"$ref": f"#/$defs/t{(n * 7 + k) % count}"}, _NULL]}
                    for k in range(4)
                },
                "all": {"type": "array", "items": {"$ref": f"#/$defs/t{(n * 3 + 1) % count}"}},
            },
        }
        parent = [{"$ref": f"#/$defs/t{n // 3}"}] if n else []
        definitions[f"t{n}"] = {"allOf": [*parent, own]}
    either = [{"$ref": f"#/$defs/t{n}"} for n in range(0, count, count // 10)]
    return {"type": "object", "properties": {"body": {"oneOf": either}}, "$defs": definitions}


_NULL: Schema = {"type": "null"}


async def test_large_documents_of_definitions_that_refer_to_each_other_are_taken() -> None:
    box = Toolbox()
    schema = _graph_like(3000)
    schema["properties"]["body"] = {"anyOf": schema["properties"]["body"]["oneOf"]}
    box.add(give, input_schema=schema)
    value: Schema = {"name": "a", "all": [{"name": "b", "link1": None}] * 3}

    assert (await box.call("give", {"body": value})).status is Status.OK
    wrong = await box.call("give", {"body": {"link0": {"link0": {"name": 5}}}})
    assert wrong.status is Status.ERROR


LEAVES = st.sampled_from(
    [
        {"type": "integer"}, {"type": "string"}, {"type": "object"}, {"type": "array"}, True, False,
        {"minimum": 1}, {"required": ["a"]}, {"enum": [1, "a", {}]}, {"maxItems": 1}, {"const": []},
        {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"pattern": "^a(?=b)"}, {"uniqueItems": True},
    ]
)  # fmt: skip


def _combined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(parts, min_size=1, max_size=3)
    named = st.dictionaries(st.sampled_from("ab"), parts, max_size=2)
    return st.one_of(
        *(st.builds(lambda key, value: {key: value}, st.just(key), several)
          for key in ("anyOf", "oneOf", "allOf", "prefixItems")),
        *(st.builds(lambda key, value: {key: value}, st.just(key), parts)
          for key in ("not", "if", "items", "additionalProperties", "contains", "propertyNames")),
        st.builds(lambda p, e: {"properties": p, "additionalProperties": e}, named, parts),
        st.builds(lambda i, t, e: {"if": i, "then": t, "else": e}, parts, parts, parts),
        st.builds(lambda d: {"dependentSchemas": d}, named),
    )  # fmt: skip


SCHEMAS = st.recursive(LEAVES, _combined, max_leaves=12)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, 0, 1, 1.0, "a", "ab", [], {}]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=300)
@given(SCHEMAS, SCHEMAS, SCHEMAS, VALUES)
def test_places_say_what_the_validator_says_and_what_does_not_fit_is_explained(
    root: Any, one: Any, other: Any, value: Any
) -> None:
    import jsonschema_rs  # noqa: PLC0415 - only this test compares with it

    schema = {"allOf": [root], "$defs": {"a": one, "b": other}}
    check = SchemaCheck(schema)
    cut = check.start().fits(check.graph.root, value)

    if not check.graph.rings:
        assert cut is check.fits(value) is jsonschema_rs.is_valid(schema, value)
    if not check.fits(value):
        assert [*find_misfits(check, value)]


def test_too_complex_is_a_value_error_that_says_what_is_too_much() -> None:
    assert "too deep or too large" in str(TooComplex())
