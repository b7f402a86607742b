"""Equal values have equal digests, and only they."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from wieldy import Secret
from wieldy.core.canonical import canonical_json, digest_of

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10
)


class Colour(Enum):
    RED = "red"


def test_values_that_python_calls_equal_but_json_does_not_differ() -> None:
    alike: list[Any] = [True, 1, 1.0, "1", [1], None, "null", "true", {"1": 1}, {1: 1}, {}, []]
    alike += [0, False, 0.0, "", Colour.RED, "red", {"!": "x"}, "!", [None], [[]]]

    digests = [digest_of({"value": each}) for each in alike]

    assert len(set(digests)) == len(alike)


@given(st.dictionaries(st.text(), values))
def test_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))

    assert digest_of(turned) == digest_of(value)


@given(values, values)
def test_digests_are_equal_just_where_the_json_is(first: Any, second: Any) -> None:
    same = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)

    assert (digest_of(first) == digest_of(second)) == same


@given(values)
def test_copy_has_the_same_digest(value: Any) -> None:
    assert digest_of(json.loads(json.dumps(value))) == digest_of(value)


def test_hostile_values_have_a_digest_of_their_own() -> None:
    hostile: list[Any] = ["\ud800", "\0", 10**5000, -(10**5000), float("nan"), float("inf")]
    hostile += [{"\ud800": 1}, {None: 1}, object(), {1, 2}, b"bytes"]

    assert [digest_of(each) for each in hostile] == [digest_of(each) for each in hostile]
    assert len({digest_of(each) for each in hostile}) == len(hostile)


def test_value_inside_itself_has_no_digest() -> None:
    loop: dict[str, Any] = {"a": 1}
    loop["self"] = loop

    with pytest.raises(ValueError, match="nested more than 150 levels deep"):
        canonical_json(loop)


def test_same_value_twice_is_not_a_loop() -> None:
    shared = {"a": 1}

    assert canonical_json([shared, shared]) == '[{"a":1},{"a":1}]'


@dataclass
class Point:
    x: int


class Plain:
    def __repr__(self) -> str:
        return "Plain()"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Secret("a"), Secret("b")),
        (SecretStr("a"), SecretStr("b")),
        (Point(1), Point(2)),
        (Point(1), Point(True)),
        ({1}, {True}),
        (Plain(), Plain()),
        (Decimal("1.0"), Decimal("1.00")),
    ],
)
def test_values_that_only_look_alike_differ(one: object, other: object) -> None:
    assert digest_of({"t": one}) != digest_of({"t": other})


@pytest.mark.parametrize("make", [lambda: Secret("a"), lambda: Point(1), lambda: {1, 2, 3}])
def test_values_that_hold_the_same_are_the_same(make: Callable[[], object]) -> None:
    assert digest_of({"t": make()}) == digest_of({"t": make()})
