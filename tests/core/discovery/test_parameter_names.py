"""Names of parameters, read without a schema."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from wieldy import Argument, Context, Tool
from wieldy.core.discovery.parameter_names import visible_parameters


def plain(city: str, context: Context, *rest: str, days: int = 1, **more: Any) -> None: ...


def told(city: str, context: "Context") -> None: ...


class Service:
    def method(self, city: str) -> None: ...

    def __call__(self, query: str) -> None: ...


@functools.wraps(told)
def wrapped(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (plain, ["city", "days"]),
        (told, ["city"]),
        (wrapped, ["city"]),
        (Service().method, ["city"]),
        (Service(), ["query"]),
        (functools.partial(plain, "Oslo"), ["days"]),
        (functools.partial(plain, days=3), ["city"]),
        (print, []),
    ],
    ids=["plain", "text annotation", "wrapped", "method", "object", "first", "keyword", "builtin"],
)
def test_names_are_those_that_the_schema_would_have(
    function: Callable[..., Any], names: list[str]
) -> None:
    assert visible_parameters(Tool(function, name="f")) == names


def test_presets_and_hidden_arguments_are_left_out_and_new_names_are_used() -> None:
    tool = Tool(plain, name="f", presets={"days": 2})
    other = Tool(plain, name="f").derive(
        arguments={"city": Argument(name="town"), "days": Argument(hidden=True)}
    )

    assert visible_parameters(tool) == ["city"]
    assert visible_parameters(other) == ["town"]


@pytest.mark.parametrize("properties", [None, {}, {"a": {}, "b": True}])
def test_a_given_schema_says_its_names(properties: dict[str, Any] | None) -> None:
    schema = {"type": "object"} | ({} if properties is None else {"properties": properties})

    tool = Tool(lambda **given: None, name="f", input_schema=schema)

    assert visible_parameters(tool) == list(properties or {})
