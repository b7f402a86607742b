"""Values and arguments stand in the ledger as the standard library would write them."""

import json
import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from wieldy.core.bounded_json import MAX_DEPTH
from wieldy.store.row_values import from_column, to_column, written_arguments

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.floats()
JSON = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=4)
    ),
)


class Number(int):
    """A number that shows otherwise than it is."""

    def __repr__(self) -> str:
        return "many"


class Size(BaseModel):
    """A value of a tool that uses pydantic."""

    at: float


@dataclass
class Place:
    """A value of a tool that uses the standard library."""

    at: float


class Colour(Enum):
    """A value that JSON has no word for."""

    RED = "red"


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


@given(JSON)
def test_what_json_can_hold_is_written_as_json_writes_it(value: Any) -> None:
    assert to_column(value) == json.dumps(value)
    assert written_arguments({"value": value}, ()) == (json.dumps({"value": value}), 0)


def test_arguments_are_all_there_down_to_our_bound() -> None:
    deep = {"value": nested(MAX_DEPTH - 1)}
    text, partial = written_arguments(deep, ())
    assert (from_column(text), partial) == (deep, 0)
    text, partial = written_arguments({"value": nested(MAX_DEPTH)}, ())
    assert (from_column(text), partial) == ("<dict nested more than 100 levels deep>", 1)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Number(3), 3),
        ({Number(3): 1}, {"3": 1}),
        ({None: 1}, {"null": 1}),
        ({math.inf: 1}, {"Infinity": 1}),
        ({"size": Size(at=math.inf)}, {"size": {"at": math.inf}}),
        ({"place": Place(1.5)}, {"place": {"at": 1.5}}),
        ({1}, [1]),
        (b"x", "eA=="),
        (Colour.RED, "red"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        ({"iterated": iter("ab")}, {"iterated": ["a", "b"]}),
    ],
)
def test_what_json_does_not_know_is_kept_in_its_terms(value: Any, kept: Any) -> None:
    assert from_column(to_column(value)) == kept


@pytest.mark.parametrize("value", [{1}, b"x", Place(1.5), Colour.RED, object(), {(1, 2): 3}])
def test_arguments_that_json_can_not_hold_are_not_all_there(value: Any) -> None:
    assert written_arguments({"value": value}, ())[1] == 1


def test_what_contains_itself_is_named() -> None:
    value: list[Any] = []
    value.append(value)
    assert from_column(to_column(value)) == "<list nested more than 100 levels deep>"
    assert written_arguments({"value": value}, ())[1] == 1
