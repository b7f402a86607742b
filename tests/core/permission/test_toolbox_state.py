"""The state of a toolbox as JSON: exact both ways, or refused whole."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Toolbox


def make_box() -> Toolbox:
    box = Toolbox()
    for name in ("files", "web", "mail"):
        box.groups.create(name, active=name == "mail")
    return box


def full_box() -> Toolbox:
    box = make_box()
    box.groups.activate("web")
    box.rules.allow("read_*", {"path": ["/a/**", "b*"]}, agent="ann", session="s")
    box.rules.ask("send", {"count": 3, "big": 2.5, "dry": False, "to": None})
    box.rules.deny("*", {"text": re.compile("a+", re.I)}, reason="no")
    return box


def test_a_state_is_json_and_restores_exactly() -> None:
    state = full_box().state()
    assert state["active_groups"] == ["web", "mail"]
    other = make_box()
    other.rules.deny("everything")
    other.groups.activate("files")
    other.restore(json.loads(json.dumps(state)))
    assert other.state() == state
    assert [rule.where for rule in other.rules] == [rule.where for rule in full_box().rules]


async def test_restored_rules_hold_at_once() -> None:
    box = Toolbox()

    @box.tool
    async def send(text: str) -> str:
        """Send a text."""
        return text

    empty = box.state()
    assert (await box.call("send", {"text": "A"})).value == "A"
    box.restore(full_box().state() | {"active_groups": []})
    assert (await box.call("send", {"text": "bAb"})).status == "denied"
    box.restore(empty)
    assert (await box.call("send", {"text": "bAb"})).status == "ok"


@pytest.mark.parametrize("matcher", [lambda value: True, [lambda value: True], str])
def test_a_rule_that_json_cannot_hold_is_named(matcher: Any) -> None:
    box = make_box()
    box.rules.deny("send", {"text": matcher})
    with pytest.raises(ValueError, match="the rule deny 'send' can't be exported: what 'text' is"):
        box.state()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version must be 1, not 2"),
        ({"version": True}, "version must be 1, not True"),
        ({"active_groups": "web"}, "active_groups must be a list of texts"),
        ({"active_groups": [1]}, "active_groups must be a list of texts"),
        ({"active_groups": ["web", "nowhere"]}, "active_groups: There is no group 'nowhere'"),
        ({"rules": None}, "rules must be a list"),
        ({"rules": [3]}, r"rules\[0\] must be an object"),
        ({"rules": [{"verdict": "maybe"}]}, r"rules\[0\].verdict must be allow, ask or deny"),
        ({"rules": [{"verdict": []}]}, r"rules\[0\].verdict must be allow, ask or deny"),
        ({"rules": [{"verdict": "deny"}]}, r"rules\[0\].pattern must be text"),
        ({"rules": [{"verdict": "ask", "pattern": "a", "agent": 1}]}, r"rules\[0\].agent must be"),
        ({"rules": [{"verdict": "ask", "pattern": "a", "agent": ""}]}, r"rules\[0\]: an agent is"),
        ({"rules": [{"verdict": "ask", "pattern": "a", "where": []}]}, r"rules\[0\].where: it"),
        (
            {"rules": [{"verdict": "ask", "pattern": "a", "where": {"x": {"like": 1}}}]},
            r"rules\[0\].where: 'x': an object must be",
        ),
        (
            {"rules": [{"verdict": "ask", "pattern": "a", "where": {"x": {"regex": "("}}}]},
            r"rules\[0\].where: 'x': the regex can't be read",
        ),
        (
            {"rules": [{"verdict": "ask", "pattern": "a", "where": {"x": {"regex": 1}}}]},
            r"rules\[0\].where: 'x': the regex must be text",
        ),
        ({"rules": [{"verdict": "ask", "pattern": "a", "if": 1}]}, r"rules\[0\] has the unknown"),
        ({"tools": []}, "the state has the unknown key 'tools'"),
    ],
)
def test_a_state_that_is_wrong_changes_nothing_and_is_told_where(
    change: dict[str, Any], said: str
) -> None:
    box = full_box()
    before = box.state()
    with pytest.raises(ValueError, match=said):
        box.restore({**before, **change})
    assert box.state() == before


@pytest.mark.parametrize("state", [None, [], "x", {}, {"active_groups": ["web"]}])
def test_a_foreign_object_is_no_state(state: Any) -> None:
    box = full_box()
    before = box.state()
    with pytest.raises(ValueError, match="state"):
        box.restore(state)
    assert box.state() == before


def test_not_strict_passes_over_what_is_not_known_here() -> None:
    box = make_box()
    rule = {"verdict": "deny", "pattern": "a", "note": "from elsewhere"}
    state = {"version": 1, "active_groups": ["web", "nowhere"], "rules": [rule], "more": 1}
    box.restore(state, strict=False)
    assert box.state()["active_groups"] == ["web"]
    assert [rule.pattern for rule in box.rules] == ["a"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "active_groups", "rules", "verdict", "where", "regex"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
)


@given(_json, _json)
def test_whatever_comes_is_restored_or_refused_with_a_value_error(rules: Any, groups: Any) -> None:
    box = full_box()
    before = box.state()
    try:
        box.restore({"version": 1, "active_groups": groups, "rules": rules})
    except ValueError:
        assert box.state() == before
