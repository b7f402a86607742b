"""Which change of the definitions breaks a provider's cache, and from where on."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy.wire.cache_change import compare_costs
from wieldy.wire.cost import Cost, measure_texts


def cost(*tools: str) -> Cost:
    """What tools cost; `name=text` has another text than `name`."""
    named = [(each.partition("=")[0], each) for each in tools]
    return measure_texts("openai", [(name, "basic", f"{text} " * 10) for name, text in named], len)


@pytest.mark.parametrize(
    ("before", "after", "kept", "tool", "kind"),
    [
        ("a b c", "a b c", 3, None, None),
        ("a b c", "a b c d e", 3, None, None),
        ("", "a", 0, None, None),
        ("a b c", "a b=2 c", 1, "b", "changed"),
        ("a b c", "a x b c", 1, "x", "inserted"),
        ("a b c", "b c", 0, "a", "removed"),
        ("a b c", "a b", 2, "c", "removed"),
        ("a b c", "c a b", 0, "c", "moved"),
        ("a b", "", 0, "a", "removed"),
        ("a b c", "x b c", 0, "a", "removed"),
    ],
)
def test_the_first_tool_that_differs_is_named(
    before: str, after: str, kept: int, tool: str | None, kind: str | None
) -> None:
    old, new = cost(*before.split()), cost(*after.split())

    found = compare_costs(old, new)

    assert found.kept == kept
    assert (found.broken and (found.broken.tool, found.broken.kind)) == (tool and (tool, kind))
    if found.broken is not None:
        assert found.broken.at_token == sum(each.tokens for each in new.definitions[:kept])
        assert found.broken.at_token + found.broken.lost_tokens == new.total
        assert found.broken.at_byte == 1 + sum(each.bytes + 1 for each in new.definitions[:kept])
    assert found.to_dict()["kept"] == kept


def test_every_change_is_listed() -> None:
    found = compare_costs(cost("a", "b", "c", "d"), cost("b", "x", "c=2", "a", "y"))

    assert found.changes == {
        "d": "removed",
        "x": "inserted",
        "c": "changed",
        "a": "moved",
        "y": "appended",
    }


NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(NAMES, NAMES)
def test_the_cache_is_whole_exactly_if_definitions_were_at_most_appended(
    before: list[str], after: list[str]
) -> None:
    found = compare_costs(cost(*before), cost(*after))

    appended = after[: len(before)] == before
    assert (found.broken is None) == appended
    assert ({*found.changes.values()} <= {"appended"}) == appended


def test_thousands_of_tools_in_another_order_are_compared() -> None:
    names = [f"tool{number}" for number in range(3_000)]
    mixed = random.Random(1).sample(names, len(names))

    assert compare_costs(cost(*names), cost(*mixed)).broken is not None
