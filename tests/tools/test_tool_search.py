"""What a model that sees a few tools can do to find and load the others."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import DefinitionError, NameTaken, Status, Tool, Toolbox
from wieldy.tools.tool_search import add_search_tools
from wieldy.view import View
from wieldy.wire.cost import rendering, tool_cost

SHOWN = ["search_tools", "load_tools"]


def fill(box: Toolbox, count: int = 40) -> Toolbox:
    for number in range(count):
        box.add(lambda x=0: x, name=f"count_{number}", description=f"Count to {number}.")
    box.add(lambda to, text="": to, name="send_mail", description="Send an email to people.")
    box.add(lambda path="": path, name="wipe", description="Erase a disk.", permission="confirm")
    return box


@pytest.fixture
async def box() -> AsyncIterator[Toolbox]:
    async with Toolbox() as box:
        yield fill(box)


async def load(view: View, *names: str, unload: list[str] | None = None) -> dict[str, Any]:
    arguments: dict[str, Any] = {"names": list(names)}
    outcome = await view.call("load_tools", arguments | ({"unload": unload} if unload else {}))
    value: dict[str, Any] = outcome.unwrap()
    return value


async def search(view: View, query: str, **more: Any) -> list[str]:
    outcome = await view.call("search_tools", {"query": query, **more})
    return [tool["name"] for tool in outcome.unwrap()["tools"]]


async def test_a_session_sees_a_few_tools_and_what_it_loads(box: Toolbox) -> None:
    added = add_search_tools(box, always=["count_3"])
    ann, bob = box.view(session="ann"), box.view(session="bob")

    assert [tool.name for tool in added] == SHOWN
    assert ann.names == bob.names == [*SHOWN, "count_3"]
    assert await search(ann, "send a mail") == ["send_mail"]

    told = await load(ann, "send_mail")

    assert told["loaded"] == ["send_mail"]
    assert ann.names == [*SHOWN, "count_3", "send_mail"]
    assert [each["function"]["name"] for each in ann.schemas("openai")] == ann.names
    assert bob.names == [*SHOWN, "count_3"]
    assert len(box) == len(box.names) == 44


async def test_a_tool_that_is_not_loaded_is_called_by_name_with_its_permission(
    box: Toolbox,
) -> None:
    add_search_tools(box)
    view = box.view(session="ann")

    assert (await view.call("send_mail", {"to": "bob"})).value == "bob"
    assert (await view.call("wipe", {"path": "/"})).status is Status.PENDING


async def test_what_was_shown_keeps_its_bytes_and_new_tools_come_last(box: Toolbox) -> None:
    add_search_tools(box, always="later_*")
    view = box.view(session="ann")
    for name in ("send_mail", "count_9", "count_1"):
        before = rendering(view, "anthropic")
        await load(view, name)
        assert rendering(view, "anthropic").startswith(before.removesuffix("]") + ",")

    before = rendering(view, "anthropic")
    box.add(lambda: None, name="later_pinned", description="It was registered late.")
    assert rendering(view, "anthropic").startswith(before.removesuffix("]") + ",")


async def test_a_loaded_tool_that_disappears_moves_no_other_and_comes_back_to_its_place(
    box: Toolbox,
) -> None:
    add_search_tools(box)
    view = box.view(session="ann")
    await load(view, "count_5", "send_mail", "count_1")

    gone = box.remove("send_mail")
    assert view.names == [*SHOWN, "count_5", "count_1"]
    await load(view, "count_2")
    box.add(gone)

    assert view.names == [*SHOWN, "count_5", "send_mail", "count_1", "count_2"]


async def test_the_definitions_stay_within_the_budget_and_the_rest_is_refused(
    box: Toolbox,
) -> None:
    alone = add_search_tools(box, budget=1_000)
    view = box.view(session="ann")

    told = await load(view, *(f"count_{number}" for number in range(40)))

    assert told["loaded"] == view.names[2:]
    assert 1_000 - 60 < told["tokens"] == view.cost("openai").total <= 1_000
    assert tool_cost(alone, "openai").total < 300
    reasons = set(told["refused"].values())
    assert len(told["loaded"]) + len(told["refused"]) == 40
    assert all("of 1,000 are left" in reason and "unload" in reason for reason in reasons)


async def test_unloading_makes_room(box: Toolbox) -> None:
    add_search_tools(box, budget=390)
    view = box.view(session="ann")
    first = await load(view, "count_1", "count_2", "send_mail")
    assert first["refused"].keys() == {"send_mail"}

    told = await load(view, "send_mail", unload=["count_1", "search_tools", "no_such", "count_7"])

    assert told["unloaded"] == ["count_1"]
    assert view.names == [*SHOWN, "count_2", "send_mail"]
    assert told["tokens"] == view.cost().total


async def test_loading_twice_changes_nothing_and_unknown_names_get_near_ones(
    box: Toolbox,
) -> None:
    add_search_tools(box)
    view = box.view(session="ann")
    await load(view, "send_mail")

    told = await load(view, "send_mail", "send_mail", "sendmail", "\x1b[2Jx", "", "z" * 400)

    assert told["already_loaded"] == ["send_mail"]
    assert "loaded" not in told
    assert told["refused"]["sendmail"] == "There is no such tool. Did you mean send_mail?"
    assert "\x1b" not in str(told["refused"].keys())
    assert view.names == [*SHOWN, "send_mail"]


async def test_search_and_load_hold_to_what_the_caller_may_see(box: Toolbox) -> None:
    add_search_tools(box)
    box.rules.deny("wipe")
    names = [*SHOWN, "count_1", "send_mail", "wipe"]
    narrow = box.view(names=names, session="ann")
    strict = box.view(session="ann", where=lambda tool, scope: tool.name != "send_mail")

    assert await search(narrow, "count to") == ["count_1"]
    assert await search(narrow, "erase a disk") == []
    assert await search(strict, "send an email") == []
    told = await load(narrow, "wipe", "count_2", "count_1")
    assert (told["loaded"], set(told["refused"])) == (["count_1"], {"wipe", "count_2"})
    assert "wipe" not in told["refused"]["count_2"]
    await load(narrow, "send_mail")
    assert strict.names == [*SHOWN, "count_1"]


async def test_what_has_grown_since_it_was_loaded_is_shown_only_if_there_is_room(
    box: Toolbox,
) -> None:
    add_search_tools(box, budget=500)
    view = box.view(session="ann")
    await load(view, "count_1", "send_mail", "count_2")
    small = box.find_tool("send_mail")
    assert small is not None

    box.remove("send_mail")
    box.add(lambda to: to, name="send_mail", description="Send an email. " * 100)

    assert view.names == [*SHOWN, "count_1", "count_2"]
    assert view.cost().total <= 500
    assert (await view.call("send_mail", {"to": "ann"})).value == "ann"
    box.remove("send_mail")
    box.add(small)
    assert view.names == [*SHOWN, "count_1", "send_mail", "count_2"]


async def test_a_tool_that_is_gone_can_be_unloaded(box: Toolbox) -> None:
    add_search_tools(box)
    view = box.view(session="ann")
    await load(view, "count_1", "send_mail")
    gone = box.remove("count_1")

    told = await load(view, unload=["count_1", "nothing", "load_tools"])

    assert told["unloaded"] == ["count_1"]
    box.add(gone)
    assert view.names == [*SHOWN, "send_mail"]


@given(query=st.text(max_size=100))
def test_any_question_is_answered_or_refused_clearly(query: str) -> None:
    box = fill(Toolbox(), 5)
    add_search_tools(box)

    outcome = box.view(session="ann").call_sync("search_tools", {"query": query})

    assert outcome.ok or "nothing to search for" in outcome.text or "query" in outcome.text


async def test_a_hidden_group_is_neither_found_nor_loaded(box: Toolbox) -> None:
    add_search_tools(box)
    box.groups.create("post", active=False)
    box.add(lambda: None, name="letter", description="Write a letter.", group="post")
    view = box.view(session="ann")

    assert await search(view, "letter") == []
    assert set((await load(view, "letter"))["refused"]) == {"letter"}
    box.groups.activate("post")
    await load(view, "letter")
    assert view.names[-1] == "letter"
    box.groups.deactivate("post")
    assert view.names == SHOWN


async def test_a_summary_has_one_line_and_the_names_of_the_parameters(box: Toolbox) -> None:
    add_search_tools(box)
    box.add(lambda: None, name="Grüße!", description="Greet\u202e somebody.\nSecond line.")

    outcome = await box.call("search_tools", {"query": "greet", "limit": 1})
    other = await box.call("search_tools", {"query": "email"})

    (greeting,) = outcome.unwrap()["tools"]
    assert greeting["description"] == "Greet\\u202e somebody."
    assert box.get(greeting["name"]) is box.get("Grüße!")
    assert other.unwrap()["tools"][0]["parameters"] == ["to", "text"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "nothing to search for"),
        (" \n\t", "nothing to search for"),
        ("?!…", "nothing to search for"),
        ("the of and", "nothing to search for"),
        ("x" * 10_000_000, "at most 2000 characters"),
        ("\ud800", "query"),
        (None, "query"),
    ],
    ids=["empty", "space", "marks", "small words", "huge", "surrogate", "none"],
)
async def test_a_search_for_nothing_is_told_what_to_say(
    box: Toolbox, query: Any, said: str
) -> None:
    add_search_tools(box)

    outcome = await box.call("search_tools", {"query": query})

    assert outcome.status is Status.ERROR
    assert said in outcome.text
    assert len(outcome.text) < 1_000


async def test_a_search_that_finds_nothing_says_so(box: Toolbox) -> None:
    add_search_tools(box)

    outcome = await box.call("search_tools", {"query": "zebra"})

    assert outcome.unwrap()["tools"] == []
    assert "Try other words" in outcome.unwrap()["hint"]


@pytest.mark.parametrize(
    "arguments", [{"names": ["a"] * 101}, {"names": [1, {}]}, {"names": {"a": 1}}, {}]
)
async def test_bad_names_are_refused_clearly(box: Toolbox, arguments: dict[str, Any]) -> None:
    add_search_tools(box)

    outcome = await box.view(session="ann").call("load_tools", arguments)

    assert outcome.status is Status.ERROR
    assert "names" in outcome.text


async def test_loading_without_a_session_says_how_to_have_one(box: Toolbox) -> None:
    add_search_tools(box)

    outcome = await box.call("load_tools", {"names": ["send_mail"]})

    assert "box.view(session=" in outcome.text
    assert box.names[-2:] == SHOWN


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 0}, "budget is a whole number from 1 up"),
        ({"budget": -5}, "budget"),
        ({"budget": True}, "budget"),
        ({"budget": 1.5}, "budget"),
        ({"sessions": 0}, "sessions"),
        ({"budget": 100}, "always shown take"),
        ({"budget": 500, "always": "count_*"}, "always shown take"),
    ],
)
def test_a_budget_that_can_not_work_is_refused_and_nothing_is_added(
    options: dict[str, Any], said: str
) -> None:
    box = fill(Toolbox())

    with pytest.raises(ValueError, match=said):
        add_search_tools(box, **options)

    assert not set(SHOWN) & set(box.names)
    add_search_tools(box)


def test_names_that_are_taken_are_refused_and_nothing_is_added(box: Toolbox) -> None:
    box.add(lambda: None, name="load_tools", description="Mine.")
    with pytest.raises(NameTaken):
        add_search_tools(box)
    assert "search_tools" not in box
    box.remove("load_tools")
    add_search_tools(box)
    with pytest.raises(DefinitionError):
        add_search_tools(box)
    assert "search_tools" in box


async def test_a_tool_that_can_not_be_described_is_refused_and_harms_no_other(
    box: Toolbox,
) -> None:
    add_search_tools(box)
    odd = Tool(lambda **given: None, name="odd", input_schema=lambda: {"type": 1})
    box.add(odd)
    view = box.view(session="ann")

    told = await load(view, "odd", "send_mail")

    assert told["loaded"] == ["send_mail"]
    assert "can't be described" in told["refused"]["odd"]


async def test_sessions_that_load_at_once_each_get_all_of_theirs(box: Toolbox) -> None:
    add_search_tools(box)
    views = [box.view(session=f"s{number % 4}") for number in range(40)]

    await asyncio.gather(*(load(view, f"count_{n}") for n, view in enumerate(views)))

    for start in range(4):
        expected = {f"count_{number}" for number in range(start, 40, 4)}
        assert set(views[start].names) == {*SHOWN, *expected}


async def test_only_so_many_sessions_are_remembered(box: Toolbox) -> None:
    add_search_tools(box, sessions=2)
    for name in ("a", "b"):
        await load(box.view(session=name), "send_mail")
    assert box.view(session="a").names[-1] == "send_mail"

    await load(box.view(session="c"), "send_mail")

    assert box.view(session="b").names == SHOWN
    assert box.view(session="a").names[-1] == "send_mail"


async def test_what_is_loaded_is_there_in_another_process_and_after_a_restart(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Toolbox(store=url) as box, Toolbox(store=url) as other:
        for each in (box, other):
            add_search_tools(fill(each), sessions=1)
        view, there = box.view(session="ann"), other.view(session="ann")
        assert there.names == SHOWN
        await load(view, "count_2", "send_mail")

        assert [tool.name for tool in await there.callable_tools()] == view.names
        assert there.names == [*SHOWN, "count_2", "send_mail"]
        await asyncio.gather(load(view, "count_3"), load(there, "count_4"))
        await load(box.view(session="bob"), "count_9")
        assert set(view.names) == {*SHOWN, "count_2", "count_3", "count_4", "send_mail"}
    async with Toolbox(store=url) as again:
        add_search_tools(fill(again))
        assert again.view(session="ann").names[:4] == [*SHOWN, "count_2", "send_mail"]
        assert again.view(session="new").names == SHOWN


async def test_search_works_in_read_only_mode() -> None:
    async with Toolbox(permission_mode="read-only") as box:
        add_search_tools(fill(box))
        box.add(lambda: 1, name="look", description="Look around.", read_only=True)
        view = box.view(session="ann")

        assert await search(view, "look around, send an email") == ["look"]
        await load(view, "look", "send_mail")
        assert view.names == [*SHOWN, "look"]


def test_a_session_needs_a_name_that_can_be_kept(box: Toolbox) -> None:
    with pytest.raises(ValueError, match="session"):
        box.view(session="")
