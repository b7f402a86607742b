"""What tools cost, and that their rendering stays the same."""

import pytest

from wieldy import Toolbox
from wieldy.wire.cost import estimate_text_tokens, rendering, stable_json, tool_cost
from wieldy.wire.schema.target import PROVIDERS


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()
    box.groups.create("web", active=True)

    @box.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @box.tool(group="web")
    def fetch(url: str) -> str:
        """Fetch a page and give its text."""
        return url

    return box


def test_cost_is_told_per_tool_and_per_group(box: Toolbox) -> None:
    found = tool_cost(box, "openai")

    assert list(found.tools) == ["add", "fetch"]
    assert found.groups == {"basic": found.tools["add"], "web": found.tools["fetch"]}
    assert found.total == sum(found.tools.values())
    assert 30 < found.tools["add"] < 80


def test_another_counter_may_be_used(box: Toolbox) -> None:
    found = tool_cost(box, "anthropic", count=len)

    assert found.total > tool_cost(box, "anthropic").total


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("你好", 2)])
def test_the_estimate_counts_four_ascii_characters_or_one_other_as_a_token(
    text: str, tokens: int
) -> None:
    assert estimate_text_tokens(text) == tokens


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_more_only_appends(provider: str, strict: bool, box: Toolbox) -> None:
    for n in range(30):
        before = rendering(box, provider, strict)
        box.add(lambda x=1, y=None: None, name=f"tool {n}")
        assert rendering(box, provider, strict).startswith(before.removesuffix("]") + ",")


def test_equal_boxes_are_rendered_in_equal_bytes(box: Toolbox) -> None:
    assert rendering(box, "gemini") == rendering(box.view(), "gemini")
    assert stable_json({"b": "ä", "a": [1, None]}) == '{"b":"ä","a":[1,null]}'
