"""The values of `Limits`: what is taken, and what is refused with the reason."""

from collections.abc import Mapping
from typing import Any

import pytest

from wieldy import DefinitionError, Limits, Scope, Tool, Toolbox
from wieldy.core.limits.limits import parse_rate, takes_scope


def test_everything_is_off_unless_set() -> None:
    assert Limits() == Limits(
        timeout=None,
        retries=0,
        retry_unsafe=False,
        concurrency=None,
        key=None,
        exclusive=False,
        rate=None,
        cache=None,
        isolation=None,
        max_result=None,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": "5"},
        {"timeout": True},
        {"cache": 0},
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"max_result": -1},
        {"max_result": 2.5},
        {"retries": -1},
        {"retries": 1.5},
        {"retries": True},
        {"key": str},
        {"isolation": "moon"},
        {"rate": "often"},
        {"rate": "10"},
        {"rate": "0/s"},
        {"rate": "10/fortnight"},
        {"rate": 10},
        {"rate": ("10", 1)},
        {"rate": (1.5, 1)},
        {"rate": (float("nan"), 1)},
        {"rate": (10, 0)},
        {"rate": (10, float("inf"))},
        {"rate": (1, 2, 3)},
    ],
)
def test_limit_that_makes_no_sense_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong

    with pytest.raises(ValueError, match=f"Limits: {name}"):
        Limits(**wrong)


@pytest.mark.parametrize(
    ("rate", "parsed"),
    [
        ("10/s", (10, 1.0)),
        ("10/second", (10, 1.0)),
        ("100/m", (100, 60.0)),
        ("1/minute", (1, 60.0)),
        ("5/h", (5, 3600.0)),
        ("5 / hour", (5, 3600.0)),
        ((3, 0.5), (3, 0.5)),
    ],
)
def test_rate_is_a_count_in_seconds(
    rate: str | tuple[int, float], parsed: tuple[int, float]
) -> None:
    assert parse_rate(rate) == parsed
    assert Limits(rate=rate).rate == rate


def test_each_limit_is_also_a_keyword_and_goes_over_the_given_limits() -> None:
    def work() -> None: ...

    tool = Toolbox().add(work, limits=Limits(timeout=5, retries=2), timeout=1)

    assert tool.limits == Limits(timeout=1, retries=2)


def test_cache_is_for_read_only_tools() -> None:
    def work() -> None: ...

    with pytest.raises(DefinitionError, match="only a read-only tool can have a cache"):
        Tool(work, limits=Limits(cache=5))
    assert Tool(work, limits=Limits(cache=5), read_only=True).limits.cache == 5


async def test_a_key_of_two_is_given_the_scope() -> None:
    seen: list[tuple[Any, ...]] = []
    box = Toolbox()

    def key(arguments: Mapping[str, Any], scope: Scope) -> Any:
        seen.append((dict(arguments), scope.caller))
        return scope.caller

    @box.tool(concurrency=1, key=key)
    async def touch(path: str) -> str:
        return path

    await box.view(caller="ann").call("touch", {"path": "a"})

    assert seen == [({"path": "a"}, "ann")]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (lambda arguments: 1, False),
        (lambda arguments, scope: 1, True),
        (lambda arguments, path="a": 1, False),
        (lambda arguments, scope=None: 1, True),
        (lambda scope: 1, False),
        (lambda *arguments: 1, False),
        (len, False),
    ],
)
def test_a_key_takes_the_scope_if_it_has_a_place_for_it(key: Any, expected: bool) -> None:
    assert takes_scope(key) is expected


@pytest.mark.parametrize("key", ["account", lambda one, two, three: 1])
def test_a_key_that_can_not_be_asked_is_refused(key: Any) -> None:
    with pytest.raises(ValueError, match="Limits: key is a function"):
        Limits(concurrency=1, key=key)
