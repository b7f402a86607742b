"""A tool as a record: what can be said about it, and its fingerprint."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from wieldy import DefinitionError, Limits, Permission, Tool, Toolbox, tool

TRAITS = ("read_only", "idempotent", "destructive", "open_world")


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


class Adder:
    def __call__(self, a: int) -> int:
        return a

    def method(self, a: int) -> int:
        return a

    @staticmethod
    def static(a: int) -> int:
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        return a


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (add, "add"),
        (functools.partial(add, b=3), "add"),
        (functools.partial(functools.partial(add, b=3), 1), "add"),
        (Adder(), "Adder"),
        (Adder, "Adder"),
        (Adder().method, "method"),
        (Adder.static, "static"),
        (Adder.of_class, "of_class"),
        (len, "len"),
    ],
)
def test_tool_is_named_after_what_it_calls(function: Callable[..., Any], name: str) -> None:
    assert Tool(function).name == name


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (5, {}, "a tool needs something callable"),
        (lambda: 1, {}, "a lambda has no name of its own"),
        (add, {"name": 5}, "the name must be text"),
        (add, {"permission": "maybe"}, "permission must be one of auto, confirm, deny"),
        (add, {"validation": "hope"}, "validation must be one of repair, strict, describe"),
        (add, {"input_schema": {"type": "array"}}, "input_schema must be a dict"),
        (add, {"input_schema": {"properties": []}}, "input_schema must be a dict"),
        (add, {"input_schema": True}, "input_schema must be a dict"),
    ],
)
def test_tool_that_can_not_be_offered_is_refused_with_the_reason(
    function: Any, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DefinitionError, match=reason):
        Tool(function, **options)


def test_facts_are_kept_in_plain_forms() -> None:
    made = Tool(add, tags=["b", "a", "b"], permission="confirm", presets={"b": 1})

    assert made.tags == ("b", "a")
    assert Tool(add, tags="one").tags == ("one",)
    assert made.permission is Permission.CONFIRM
    assert made.traits == dict.fromkeys(TRAITS)
    assert (made.retryable, Tool(add, idempotent=True).retryable) == (False, True)
    assert repr(made) == "Tool('add')"


def test_replaced_facts_leave_the_first_tool_as_it_was() -> None:
    first = Tool(add, tags=["a"])
    second = first.replace(name="plus", tags=["b"], limits=Limits(timeout=1), presets={"b": 1})

    assert (first.name, first.tags, first.limits, first.presets) == ("add", ("a",), Limits(), {})
    assert (second.name, second.tags, second.limits.timeout) == ("plus", ("b",), 1)
    assert second.input_schema["properties"] == {"a": {"type": "integer"}}
    assert second.description == first.description == "Add two numbers."


def test_fingerprint_is_over_name_description_schemas_and_traits() -> None:
    first = Tool(add)
    same = [Tool(add, tags=["x"], permission="deny", validation="strict", limits=Limits(retries=1))]
    other = [
        Tool(add, name="plus"),
        Tool(add, description="Other."),
        Tool(add, read_only=True),
        Tool(add, idempotent=True),
        Tool(add, destructive=True),
        Tool(add, presets={"b": 1}),
        Tool(add, input_schema={"type": "object"}),
        Tool(add, output_schema={"type": "string"}),
    ]

    assert {each.fingerprint for each in same} == {first.fingerprint}
    assert len({each.fingerprint for each in [first, *other]}) == len(other) + 1


def test_fingerprint_tells_true_from_one_in_a_default() -> None:
    def one(flag: Any = 1) -> None: ...

    def true(flag: Any = True) -> None: ...

    assert Tool(one, name="f").fingerprint != Tool(true, name="f").fingerprint


def test_fingerprint_does_not_show_or_depend_on_the_value_of_a_preset() -> None:
    assert Tool(add, presets={"b": 1}).fingerprint == Tool(add, presets={"b": 2}).fingerprint


def test_marked_function_is_unchanged_and_its_options_count_when_it_is_added() -> None:
    @tool(name="plus", tags={"math"}, timeout=5, permission="confirm")
    def marked(a: int) -> int:
        return a

    @tool
    def bare(a: int) -> int:
        return a

    box = Toolbox()
    added = box.add(marked, tags=["other"])
    box.add(bare)

    assert (marked(1), bare(2)) == (1, 2)
    assert (added.name, added.tags, added.limits) == ("plus", ("other",), Limits(timeout=5))
    assert added.permission is Permission.CONFIRM
    assert box.names == ["plus", "bare"]


def test_marks_count_on_methods_of_every_kind_and_in_either_order() -> None:
    class Kit:
        @tool(name="one")
        def method(self) -> None: ...

        @tool(name="two")
        @staticmethod
        def outer_static() -> None: ...

        @staticmethod
        @tool(name="three")
        def inner_static() -> None: ...

        @tool(name="four")
        @classmethod
        def outer_class(cls) -> None: ...

        @classmethod
        @tool(name="five")
        def inner_class(cls) -> None: ...

    box = Toolbox()
    box.add_object(Kit(), prefix="kit")

    assert box.names == ["kit_one", "kit_two", "kit_three", "kit_four", "kit_five"]
    assert box.add(functools.partial(Kit().method)).name == "one"


def test_a_schema_can_be_worked_out_when_it_is_first_needed() -> None:
    asked: list[str] = []

    def schema() -> dict[str, Any]:
        asked.append("input")
        return {"properties": {"a": {"type": "integer", "title": "A"}, "b": {}}, "required": ["b"]}

    def nothing() -> None:
        asked.append("output")

    tool = Tool(add, input_schema=schema, output_schema=nothing, presets={"b": 1})
    assert (tool.name, asked) == ("add", [])

    described = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert tool.input_schema == tool.input_schema == described
    assert tool.output_schema is None
    assert asked == ["input", "output"]
    assert tool.replace(name="plus").input_schema == described


def test_a_schema_that_is_worked_out_must_describe_an_object() -> None:
    tool = Tool(add, input_schema=lambda: {"type": "array"})
    with pytest.raises(DefinitionError, match="input_schema must be a dict"):
        _ = tool.input_schema


def test_a_trait_that_nobody_spoke_of_is_none_and_counts_as_false_in_the_fingerprint() -> None:
    silent = Tool(add)
    denied = Tool(add, read_only=False, idempotent=False, destructive=False, open_world=False)

    assert silent.traits == dict.fromkeys(TRAITS)
    assert silent.retryable is False
    assert silent.fingerprint == denied.fingerprint
    assert silent.fingerprint != Tool(add, destructive=True).fingerprint
    assert silent.fingerprint != Tool(add, open_world=True).fingerprint


@pytest.mark.parametrize("cautious", [False, True])
@pytest.mark.parametrize("said", [None, False, True])
def test_what_nobody_said_counts_as_the_worse_only_of_tools_described_elsewhere(
    said: bool | None, cautious: bool
) -> None:
    tool = Tool(add, destructive=said, open_world=said, cautious=cautious)
    counts = cautious if said is None else said

    assert (tool.is_destructive, tool.is_open_world) == (counts, counts)


def test_a_read_only_tool_is_not_destructive_unless_somebody_says_so() -> None:
    assert not Tool(add, read_only=True, cautious=True).is_destructive
    assert Tool(add, read_only=True, cautious=True).is_open_world
    assert Tool(add, read_only=True, destructive=True, cautious=True).is_destructive


@pytest.mark.parametrize("said", [None, False, True])
def test_the_fingerprint_of_a_tool_described_elsewhere_says_nothing_of_the_open_world(
    said: bool | None,
) -> None:
    assert Tool(add, open_world=said, cautious=True).fingerprint == Tool(add).fingerprint


@pytest.mark.parametrize("trait", TRAITS)
def test_a_trait_that_is_neither_true_nor_false_is_refused(trait: str) -> None:
    options: dict[str, Any] = {trait: "yes"}
    with pytest.raises(DefinitionError, match=f"{trait} is True, False or None, not 'yes'"):
        Tool(add, **options)
