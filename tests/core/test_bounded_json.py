"""What is deeper than our own bound is refused with one sentence, wherever the stack ends."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy.core.block import to_text
from wieldy.core.bounded_json import (
    MAX_DEPTH,
    NestedTooDeep,
    check_depth,
    check_text_depth,
    copy_json,
    dump_json,
    parse_json,
)

SENTENCE = "nested more than 100 levels deep"
JSON = st.recursive(
    st.none() | st.integers() | st.text('"\\[]{}a,:\ud800é', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text('"\\[]{}', max_size=3), inner, max_size=4)
    ),
    max_leaves=40,
)


@dataclass
class Node:
    """A link of a chain."""

    inner: Any


def nested(levels: int, leaf: Any = 1) -> Any:
    """Lists and dicts in each other."""
    for level in range(levels):
        leaf = [leaf] if level % 2 else {"a": leaf}
    return leaf


def nested_text(levels: int, leaf: str = "1") -> str:
    """The same as JSON text."""
    return (
        '[{"a":' * (levels // 2)
        + "[" * (levels % 2)
        + leaf
        + "]" * (levels % 2)
        + "}]" * (levels // 2)
    )


def chained(levels: int) -> Any:
    """Dataclasses in each other."""
    value: Any = 1
    for _ in range(levels):
        value = Node(value)
    return value


def deep_down(work: Callable[[], Any], frames: int = 200) -> Any:
    """The result of some work in a program that is 200 calls deep already."""
    return deep_down(work, frames - 1) if frames else work()


def levels_of(value: Any) -> int:
    """How deep a JSON value is."""
    if not isinstance(value, dict | list):
        return 0
    inner: Iterator[Any] = iter(value.values() if isinstance(value, dict) else value)
    return 1 + max(map(levels_of, inner), default=0)


@given(JSON, st.integers(0, 12), st.booleans())
def test_a_text_has_as_many_levels_as_its_value(value: Any, more: int, ascii_only: bool) -> None:
    text = json.dumps([*[value] * more, value], ensure_ascii=ascii_only)
    # The bound looks at long texts only, because short ones can't be deep.
    for most in range(1, 8):
        text = text.ljust(2 * most + 1)
        if levels_of(json.loads(text)) > most:
            with pytest.raises(NestedTooDeep):
                check_text_depth(text, most)
            with pytest.raises(NestedTooDeep):
                check_depth(json.loads(text), most)
        else:
            check_text_depth(text, most)
            check_text_depth(text.encode("utf-8", "surrogatepass"), most)
            check_depth(json.loads(text), most)


READERS: dict[str, Callable[[int], Any]] = {
    "text": lambda levels: parse_json(nested_text(levels)),
    "bytes": lambda levels: parse_json(nested_text(levels).encode()),
    "UTF-16": lambda levels: parse_json(nested_text(levels).encode("utf-16")),
    "half a pair": lambda levels: parse_json(nested_text(levels, '"\\ud800"')),
    "rows": lambda levels: parse_json(f"[{'{}, ' * 1000}{nested_text(levels - 1)}]"),
    "written": lambda levels: dump_json(nested(levels)),
    "indented": lambda levels: dump_json(nested(levels), indent=2),
    "copied": lambda levels: copy_json(nested(levels)),
    "walked": lambda levels: check_depth(nested(levels)),
    "dataclasses": lambda levels: check_depth(chained(levels)),
    "from objects": lambda levels: dump_json(chained(levels), default=vars),
}


@pytest.mark.parametrize("name", READERS)
def test_the_bound_is_the_same_deep_inside_a_program(name: str) -> None:
    deep_down(lambda: READERS[name](MAX_DEPTH))
    for levels in (MAX_DEPTH + 1, 200, 260, 1_000, 50_000):
        with pytest.raises(NestedTooDeep, match=SENTENCE):
            deep_down(lambda: READERS[name](levels))  # noqa: B023 - called at once


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '["' * 100_000, '\\"[' * 9_999])
def test_text_that_is_not_json_is_refused_in_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested more|line 1"):
        parse_json(text)


def test_brackets_in_strings_are_no_levels() -> None:
    text = json.dumps(["[" * 1000, '"{' * 1000, "\\[" * 1000, "]", "[[" * 500])
    assert parse_json(text) == json.loads(text)


def test_what_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(NestedTooDeep, match=SENTENCE):
        check_depth(ring)


def test_an_object_in_many_places_is_walked_in_time() -> None:
    value: list[Any] = [1]
    for _ in range(MAX_DEPTH - 1):
        value = [value] * 5
    check_depth(value)
    with pytest.raises(NestedTooDeep, match=SENTENCE):
        check_depth([value])


def test_the_text_of_a_deep_value_says_what_it_is() -> None:
    assert json.loads(to_text(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    for levels in (MAX_DEPTH + 1, 300, 50_000):
        kind = "list" if levels % 2 == 0 else "dict"
        assert deep_down(lambda: to_text(nested(levels))) == f"<{kind} {SENTENCE}>"  # noqa: B023
