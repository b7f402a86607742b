"""What tools cost, and that their rendering stays the same."""

import json

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


def test_a_cost_is_printed_as_a_table_and_given_as_json(box: Toolbox) -> None:
    found = box.cost("openai")
    plain = found.to_dict()

    assert str(found) == repr(found)
    first, *_, last = str(found).splitlines()
    assert first.split() == ["tool", "(openai)", "tokens", "share"]
    assert last.split() == ["total", str(found.total), "100%"]
    assert "group web" in str(found)
    assert json.loads(json.dumps(plain)) == plain
    assert plain["total"] == found.total
    assert [each["name"] for each in plain["tools"]] == ["add", "fetch"]
    assert sum(each["tokens"] for each in plain["tools"]) == found.total
    assert found.bytes == len(rendering(box, "openai").encode())
    assert box.view(names="none").cost().bytes == len("[]")


def test_a_view_has_the_cost_of_its_own_tools(box: Toolbox) -> None:
    view = box.view(groups="web")

    assert view.cost().tools == {"fetch": box.cost().tools["fetch"]}
    assert str(box.view(names="none").cost()).endswith("0%")


def test_a_hostile_name_is_text_in_every_table() -> None:
    box = Toolbox()
    box.add(lambda: None, name="<script>\x1b[2J\ud800", description="\udfff")

    found = box.cost()

    assert "<script>" not in found._repr_html_()
    assert "\x1b" not in str(found)
    assert found.to_dict()["tools"][0]["bytes"] > 0


def test_of_many_tools_the_table_has_the_largest() -> None:
    box = Toolbox()
    for number in range(100):
        box.add(lambda: None, name=f"tool_{number}", description="word " * number)

    lines = str(box.cost()).splitlines()

    assert lines[1].startswith("tool_99 ")
    assert lines[-2].startswith("60 more ")
    assert len(lines) == 43
