"""Names that providers accept, and names near a wrong one."""

import difflib
import random
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Toolbox
from wieldy.core.names import find_near_names, plain_name, provider_name

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
legal_names = st.from_regex(LEGAL, fullmatch=True)
# Surrogates too: a name is free text.
any_names = st.text(st.characters(), min_size=1, max_size=100)


@given(legal_names)
def test_legal_name_stays_itself(name: str) -> None:
    assert provider_name(name) == name


@given(any_names)
def test_every_name_becomes_legal_and_always_the_same(name: str) -> None:
    shown = provider_name(name)

    assert LEGAL.match(shown)
    assert provider_name(name) == shown
    assert provider_name(shown) == shown


@given(st.lists(any_names, unique=True, max_size=30))
def test_different_names_stay_different(names: list[str]) -> None:
    assert len({provider_name(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("files.read", "files_read_"),
        ("天气", "tool_"),
        ("a b  c!", "a_b_c_"),
        ("legal\n", "legal_"),
        ("x" * 65, "x" * 55 + "_"),
        ("...", "tool_"),
    ],
)
def test_other_name_keeps_a_readable_form_and_a_hash(name: str, readable: str) -> None:
    shown = provider_name(name)

    assert shown[:-8] == readable
    assert re.fullmatch("[0-9a-f]{8}", shown[-8:])


async def test_tool_is_called_by_either_name() -> None:
    box = Toolbox()

    @box.tool(name="files.read")
    async def read() -> str:
        return "text"

    (shown,) = (each["function"]["name"] for each in box.schemas("openai"))

    assert shown == provider_name("files.read")
    assert (await box.call("files.read")).value == "text"
    assert (await box.call(shown)).value == "text"


@pytest.mark.parametrize(
    ("wrong", "known", "found"),
    [
        ("getUser", ["get_user", "set_user"], ["get_user"]),
        ("get-user", ["get_user", "getUser"], ["get_user", "getUser"]),
        ("wether", ["weather", "whether", "time"], ["weather", "whether"]),
        ("straße", ["STRASSE_", "lane"], ["STRASSE_"]),
        ("weather", ["w" * 1_000_000, "weather_now"], ["weather_now"]),
        ("zzz", ["weather"], []),
        ("x" * 201, ["x" * 201], []),
        ("x" * 1_000_000, ["x" * 200], []),
    ],
)
def test_near_names_are_found_the_best_first(
    wrong: str, known: list[str], found: list[str]
) -> None:
    assert find_near_names(wrong, known) == found


@pytest.mark.parametrize("name", ["user_name", "userName", "User-Name", "USER NAME", "user.name"])
def test_case_and_separators_do_not_count(name: str) -> None:
    assert plain_name(name) == "username"


def shuffled(name: str, count: int) -> list[str]:
    """Names of the same letters, which no quick look tells from a near one."""
    order = random.Random(1)
    return ["".join(order.sample(name, len(name))) for _ in range(count)]


def cpu_seconds(work: Callable[[], object]) -> float:
    """What a piece of work costs, the least of several times."""
    costs = []
    for _ in range(5):
        before = time.process_time()
        work()
        costs.append(time.process_time() - before)
    return min(costs)


def test_ten_thousand_names_cost_less_than_comparing_a_fifth_of_them_in_python() -> None:
    wrong = "forecast_for_tomorrow"
    known = shuffled(wrong, 10_000)
    find_near_names(wrong, known[:1])  # What is loaded at the first wrong name is loaded once.

    searched = cpu_seconds(lambda: find_near_names(wrong, known))
    compared = cpu_seconds(lambda: difflib.get_close_matches(wrong, known[:2_000], cutoff=0.6))

    assert searched < compared
