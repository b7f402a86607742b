"""Tools from anything callable, and what of it the model fills in."""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, NotRequired

import pytest
from pydantic import AliasChoices, BaseModel, Field
from typing_extensions import TypedDict, Unpack

from tests.core import later
from wieldy import Context, DefinitionError, Status, Tool, Toolbox
from wieldy.core.choices import Isolation, ValidationMode
from wieldy.core.schema.signature import unwrap_partial


def function(a: int, b: int = 2) -> list[int]:
    return [a, b]


async def coroutine(a: int, b: int = 2) -> list[int]:
    return [a, b]


def generator(a: int, b: int = 2) -> Iterator[int]:
    yield a
    yield b


async def async_generator(a: int, b: int = 2) -> AsyncIterator[int]:
    yield a
    yield b


def gives_coroutine(a: int, b: int = 2) -> Awaitable[list[int]]:
    return coroutine(a, b)


async def gives_generator(a: int, b: int = 2) -> Iterator[int]:
    return generator(a, b)


async def gives_async_generator(a: int, b: int = 2) -> AsyncIterator[int]:
    return async_generator(a, b)


def by_position(a: int, b: int = 2, /) -> list[int]:
    return [a, b]


def by_keyword(*, a: int, b: int = 2) -> list[int]:
    return [a, b]


@functools.cache
def cached(a: int, b: int = 2) -> list[int]:
    return [a, b]


def logged(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wrapped)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    return wrapper


class Kit:
    def method(self, a: int, b: int = 2) -> list[int]:
        return [a, b]

    async def async_method(self, a: int, b: int = 2) -> list[int]:
        return [a, b]

    @staticmethod
    def static(a: int, b: int = 2) -> list[int]:
        return [a, b]

    @classmethod
    def of_class(cls, a: int, b: int = 2) -> list[int]:
        return [a, b]


class Callable_:
    def __call__(self, a: int, b: int = 2) -> list[int]:
        return [a, b]


class AsyncCallable:
    async def __call__(self, a: int, b: int = 2) -> list[int]:
        return [a, b]


class GeneratorCallable:
    def __call__(self, a: int, b: int = 2) -> Iterator[int]:
        yield from (a, b)


KINDS: list[Any] = [
    function,
    coroutine,
    generator,
    async_generator,
    gives_coroutine,
    gives_generator,
    gives_async_generator,
    by_position,
    by_keyword,
    cached,
    logged(function),
    Kit().method,
    Kit().async_method,
    Kit.static,
    Kit.of_class,
    Kit().static,
    Callable_(),
    AsyncCallable(),
    GeneratorCallable(),
    functools.partial(function),
    functools.partial(functools.partial(coroutine)),
    functools.partial(Kit().method),
    functools.partial(Callable_()),
]


@pytest.mark.parametrize("kind", KINDS, ids=[f"{i}" for i in range(len(KINDS))])
@pytest.mark.parametrize("isolation", ["thread", "inline"])
async def test_anything_callable_is_a_tool(kind: Any, isolation: Isolation) -> None:
    box = Toolbox()
    added = box.add(kind, name="made", isolation=isolation)

    assert added.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "additionalProperties": False,
        "required": ["a"],
    }
    assert (await box.call("made", {"a": 1})).unwrap() == [1, 2]
    assert (await box.call("made", '{"a": 1, "b": 3}')).unwrap() == [1, 3]
    assert (await box.call("made", {"b": 3})).status is Status.ERROR


@dataclass
class Pair:
    a: int
    b: int = 2


class Model(BaseModel):
    a: int
    b: int = 2


class Row(NamedTuple):
    a: int
    b: int = 2


class Handmade:
    def __init__(self, a: int, b: int = 2) -> None:
        self.pair = (a, b)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handmade) and other.pair == self.pair


@pytest.mark.parametrize("kind", [Pair, Model, Row, Handmade])
async def test_class_is_a_tool_that_makes_an_instance(kind: Any) -> None:
    box = Toolbox()
    added = box.add(kind)

    assert added.input_schema["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "integer", "default": 2},
    }
    assert (await box.call(kind.__name__, {"a": "1"})).unwrap() == kind(a=1)


@pytest.mark.parametrize(
    ("made", "shown", "sent", "value"),
    [
        (functools.partial(function, b=9), ["a"], {"a": 1}, [1, 9]),
        (functools.partial(function, 7), ["b"], {"b": 1}, [7, 1]),
        (functools.partial(function, 7, b=9), [], {}, [7, 9]),
        (functools.partial(functools.partial(function, b=8), b=9), ["a"], {"a": 1}, [1, 9]),
    ],
)
async def test_argument_that_a_partial_holds_is_not_in_the_schema(
    made: Any, shown: list[str], sent: dict[str, Any], value: list[int]
) -> None:
    box = Toolbox()
    added = box.add(made)

    assert list(added.input_schema["properties"]) == shown
    assert (await box.call("function", sent)).unwrap() == value


@pytest.mark.parametrize("validation", ["repair", "strict", "describe"])
@pytest.mark.parametrize("schema", [None, {"type": "object"}])
async def test_argument_that_a_partial_holds_can_not_be_overridden(
    validation: ValidationMode, schema: dict[str, Any] | None
) -> None:
    box = Toolbox()

    def open_ended(a: int = 0, **rest: Any) -> list[Any]:
        return [a, rest]

    box.add(functools.partial(function, b=9), validation=validation, input_schema=schema)
    box.add(functools.partial(open_ended, a=9), validation=validation, input_schema=schema)

    closed = await box.call("function", {"a": 1, "b": 5})
    opened = await box.call("open_ended", {"a": 5, "c": 1})

    assert closed.value == [1, 9] or (validation == "strict" and closed.value is None)
    assert opened.value == [9, {"c": 1}]


class Tools:
    """An object whose attributes must not be touched."""

    constant = 5

    def __init__(self) -> None:
        self.count = 0

    def bump(self, by: int = 1) -> int:
        self.count += by
        return self.count

    async def later(self) -> str:
        return "later"

    @staticmethod
    def fixed() -> str:
        return "fixed"

    @classmethod
    def named(cls) -> str:
        return cls.__name__

    @property
    def risky(self) -> Any:
        raise AssertionError("a property was triggered")

    @functools.cached_property
    def cached(self) -> Any:
        raise AssertionError("a cached property was triggered")

    def _private(self) -> None: ...

    def __hidden(self) -> None: ...

    class Inner:
        pass


class MoreTools(Tools):
    def bump(self, by: int = 1) -> int:
        return -by

    def extra(self) -> str:
        return "extra"

    fixed = None  # type: ignore[assignment]


async def test_public_methods_of_an_object_become_tools() -> None:
    box = Toolbox()
    added = box.add_object(Tools())

    assert [each.name for each in added] == box.names == ["bump", "later", "fixed", "named"]
    assert [(await box.call(name)).unwrap() for name in [*box.names, "bump"]] == [
        1,
        "later",
        "fixed",
        "Tools",
        2,
    ]


async def test_inherited_methods_count_and_overridden_ones_as_overridden() -> None:
    box = Toolbox()
    box.add_object(MoreTools(), prefix="more")

    assert box.names == ["more_bump", "more_later", "more_named", "more_extra"]
    assert [(await box.call(name)).unwrap() for name in box.names] == [
        -1,
        "later",
        "MoreTools",
        "extra",
    ]


@pytest.mark.parametrize(
    "annotation",
    [Context, "Context", Context | None, Annotated[Context, "who calls"]],
)
async def test_context_is_passed_in_and_not_described(annotation: Any) -> None:
    box = Toolbox()

    def who(a: int, context: Any = None) -> list[Any]:
        return [a, type(context), context.deps]

    who.__annotations__["context"] = annotation
    added = box.add(who)

    assert list(added.input_schema["properties"]) == ["a"]
    assert (await box.call("who", {"a": 1}, deps="d")).unwrap() == [1, Context, "d"]
    assert (await box.call("who", {"a": 1, "context": 2})).status is Status.ERROR


async def test_context_and_presets_go_to_every_kind_of_parameter() -> None:
    box = Toolbox()

    def mixed(context: Context, a: int, /, b: int, *, key: str, **rest: int) -> list[Any]:
        return [type(context), a, b, key, rest]

    added = box.add(mixed, presets={"key": "k", "a": 1})

    assert added.input_schema == {
        "type": "object",
        "properties": {"b": {"type": "integer"}},
        "additionalProperties": {"type": "integer"},
        "required": ["b"],
    }
    sent = {"b": 2, "c": 3, "key": 4, "a": 5, "context": 6}
    assert (await box.call("mixed", sent)).unwrap()[1:4] == [1, 2, "k"]


def test_two_parameters_for_the_context_are_refused() -> None:
    def twice(a: Context, b: Context) -> None: ...

    with pytest.raises(DefinitionError, match="'a' and 'b' both ask for the context"):
        _ = Tool(twice).input_schema


def test_preset_for_a_missing_parameter_is_refused() -> None:
    with pytest.raises(DefinitionError, match="it has no parameter 'c' for the preset"):
        _ = Tool(function, presets={"c": 1}).input_schema


class Options(TypedDict):
    """How to search."""

    query: str
    limit: NotRequired[int]


async def test_any_number_of_named_arguments_is_described_by_their_type() -> None:
    box = Toolbox()

    def named(*ignored: int, **rest: int) -> list[Any]:
        return [ignored, rest]

    added = box.add(named)

    assert added.input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": {"type": "integer"},
    }
    assert (await box.call("named", {"a": 1, "b": "2"})).unwrap() == [(), {"a": 1, "b": 2}]


async def test_unpacked_typed_dict_is_described_by_its_keys() -> None:
    box = Toolbox()

    def search(index: str, **options: Unpack[Options]) -> list[Any]:
        return [index, options]

    added = box.add(search)

    assert added.input_schema == {
        "type": "object",
        "properties": {
            "index": {"type": "string"},
            "query": {"type": "string"},
            "limit": {"type": "integer"},
        },
        "additionalProperties": False,
        "required": ["index", "query"],
    }
    assert (await box.call("search", {"index": "i", "query": "q"})).unwrap() == [
        "i",
        {"query": "q"},
    ]
    assert (await box.call("search", {"index": "i", "Query": "q", "limit": "3"})).unwrap() == [
        "i",
        {"query": "q", "limit": 3},
    ]
    assert (await box.call("search", {"index": "i"})).text == (
        "Invalid arguments for search: query: missing, expected string"
    )
    assert (await box.call("search", {"index": "i", "query": "q", "zz": 1})).status == "error"


async def test_unpacked_typed_dict_may_be_the_type_of_another_parameter_too() -> None:
    box = Toolbox()

    def search(before: Options | None = None, **options: Unpack[Options]) -> list[Any]:
        return [before, options]

    added = box.add(search)

    assert list(added.input_schema["properties"]) == ["before", "query", "limit"]
    assert list(added.input_schema["$defs"]) == ["Options"]
    assert (await box.call("search", {"query": "q", "before": {"query": "p"}})).unwrap() == [
        {"query": "p"},
        {"query": "q"},
    ]


async def test_annotations_that_are_text_find_local_classes() -> None:
    box = Toolbox()
    later.register(box)

    outcome = await box.call("order", {"order": {"item": {"name": "tea"}}, "count": "2"})

    assert outcome.unwrap() == "2 x tea"
    assert (await box.call("nested", {"row": {"n": 1}})).unwrap() == 1


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("Missing", "which is not known where it is defined. Import it there"),
        ("functools.Missing", "the annotation of the parameter 'a' can't be read"),
        ("1 +", "the annotation of the parameter 'a' can't be read"),
        (Annotated[int, Field(validation_alias=AliasChoices("a", "b"))], "is not one name"),
    ],
)
async def test_annotation_that_can_not_be_read_is_refused_with_the_reason(
    annotation: Any, reason: str
) -> None:
    def wrong(a: int) -> None: ...

    wrong.__annotations__["a"] = annotation
    box = Toolbox()
    made = box.add(wrong)

    with pytest.raises(DefinitionError, match=reason):
        _ = made.input_schema
    outcome = await box.call("wrong", {"a": 1})
    assert (outcome.status, reason in outcome.text) == (Status.ERROR, True)


@pytest.mark.parametrize("builtin", [max, int])
def test_callable_without_a_signature_needs_a_schema(builtin: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Pass input_schema=\{…\}"):
        _ = Tool(builtin).input_schema


async def test_bare_schema_goes_with_a_function_of_any_arguments() -> None:
    box = Toolbox()
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "key": {"type": "string"}},
        "required": ["n", "key"],
    }

    async def give(context: Context, /, **values: Any) -> list[Any]:
        return [context.tool, values]

    added = box.add(give, input_schema=schema, presets={"key": "k"})

    assert added.input_schema == {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }
    assert (await box.call("give", {"n": "1"})).unwrap() == ["give", {"n": 1, "key": "k"}]
    assert (await box.call("give", {"n": 1, "key": "other"})).unwrap() == [
        "give",
        {"n": 1, "key": "k"},
    ]


def test_partials_of_partials_are_unwrapped_to_the_function_and_what_is_bound() -> None:
    inner = functools.partial(function, 1, b=2)
    outer = functools.partial(inner, b=3)

    assert unwrap_partial(outer) == (function, (1,), {"b": 3})
    assert unwrap_partial(function) == (function, (), {})
