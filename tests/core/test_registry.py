"""Names, groups and what happens when two tools want the same name."""

import pytest

from wieldy import DefinitionError, NameTaken, Status, Tool, Toolbox, ToolNotFound
from wieldy.core.choices import ConflictPolicy


def greet() -> str:
    """Say hello."""
    return "hello"


def shout() -> str:
    """Say hello loudly."""
    return "HELLO"


async def test_the_same_name_twice_is_refused_and_the_first_stays() -> None:
    box = Toolbox()
    box.add(greet)
    with pytest.raises(NameTaken, match="on_conflict"):
        box.add(shout, name="greet")
    assert (await box.call("greet")).value == "hello"


@pytest.mark.parametrize(
    ("policy", "names", "value"),
    [
        ("override", ["greet"], "HELLO"),
        ("skip", ["greet"], "hello"),
        ("rename", ["greet", "greet_2"], "hello"),
    ],
)
async def test_a_collision_follows_its_policy(
    policy: ConflictPolicy, names: list[str], value: str
) -> None:
    box = Toolbox()
    box.add(greet)
    box.add(shout, name="greet", on_conflict=policy)
    assert box.names == names
    assert (await box.call("greet")).value == value


def test_renaming_goes_on_counting() -> None:
    box = Toolbox()
    added = [box.add(greet, on_conflict="rename").name for _ in range(3)]
    assert added == ["greet", "greet_2", "greet_3"]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(DefinitionError, match="on_conflict must be one of"):
        Toolbox().add(greet, on_conflict="panic")  # type: ignore[arg-type]


async def test_overriding_keeps_the_place_in_the_order() -> None:
    box = Toolbox()
    for name in ("a", "b", "c"):
        box.add(greet, name=name)
    box.add(shout, name="b", on_conflict="override")
    assert box.names == ["a", "b", "c"]


async def test_a_replaced_tool_is_the_one_that_is_called() -> None:
    box = Toolbox()
    box.add(greet)
    await box.call("greet")
    box.add(shout, name="greet", on_conflict="override")
    assert (await box.call("greet")).value == "HELLO"


async def test_a_tool_answers_to_its_own_name_and_to_the_one_providers_see() -> None:
    box = Toolbox()
    box.add(greet, name="say hello: now!")
    shown = box.schemas("openai")[0]["function"]["name"]
    assert shown != "say hello: now!"
    outcomes = await box.call_many([("say hello: now!", None), (shown, None)])
    assert [outcome.value for outcome in outcomes] == ["hello", "hello"]


def test_a_name_that_providers_would_confuse_with_another_is_a_collision() -> None:
    box = Toolbox()
    tool = box.add(greet, name="say hello")
    shown = box.schemas("mcp")[0]["name"]
    with pytest.raises(NameTaken, match=repr(tool.name)):
        box.add(shout, name=shown)
    other = Toolbox()
    other.add(shout, name=shown)
    with pytest.raises(NameTaken, match=repr(shown)):
        other.add(greet, name="say hello")


async def test_a_removed_tool_is_gone_under_both_names() -> None:
    box = Toolbox()
    box.add(greet, name="say hello")
    shown = box.schemas("mcp")[0]["name"]
    await box.call("say hello")
    assert box.remove(shown).name == "say hello"
    outcomes = await box.call_many([("say hello", None), (shown, None)])
    assert [outcome.status for outcome in outcomes] == [Status.ERROR, Status.ERROR]
    assert len(box) == 0


def test_removing_what_is_not_there_names_what_is_near() -> None:
    box = Toolbox()
    box.add(greet)
    with pytest.raises(ToolNotFound, match="Did you mean 'greet'"):
        box.remove("gret")


async def test_an_unknown_tool_is_an_outcome_that_names_what_is_near() -> None:
    box = Toolbox()
    box.add(greet)
    outcome = await box.call("Greet")
    assert outcome.status is Status.ERROR
    assert isinstance(outcome.error, ToolNotFound)
    assert outcome.error.near == ("greet",)
    with pytest.raises(LookupError):
        outcome.unwrap()


@pytest.mark.parametrize("name", [None, 7, ["greet"], {"tool": "greet"}, "x" * 100_000, "\ud800"])
async def test_a_name_that_is_no_name_is_an_outcome_too(name: object) -> None:
    box = Toolbox()
    box.add(greet)
    outcome = await box.call(name)  # type: ignore[arg-type]
    assert outcome.status is Status.ERROR
    assert len(outcome.text) < 300


async def test_a_tool_of_an_inactive_group_is_neither_described_nor_called() -> None:
    box = Toolbox()
    box.groups.create("browser", "Look at pages.", active=False, notes="One page at a time.")
    box.add(greet, group="browser")
    assert box.schemas("openai") == []
    assert "greet" not in box
    outcome = await box.call("greet")
    assert outcome.status is Status.ERROR
    assert "'browser', which is not active" in outcome.text

    box.groups.activate("browser")
    assert box.names == ["greet"]
    assert (await box.call("greet")).value == "hello"

    box.groups.deactivate("browser")
    assert (await box.call("greet")).status is Status.ERROR


def test_the_basic_group_is_always_there_and_always_active() -> None:
    groups = Toolbox().groups
    assert [(group.name, group.active) for group in groups] == [("basic", True)]
    for change in (groups.activate, groups.deactivate, groups.remove, groups.create):
        with pytest.raises(ValueError, match="basic"):
            change("basic")


def test_a_group_must_exist_before_a_tool_can_join_it() -> None:
    box = Toolbox()
    with pytest.raises(DefinitionError, match=r"box\.groups\.create\('web'"):
        box.add(greet, group="web")
    with pytest.raises(ValueError, match="There is no group 'web'; there are 'basic'"):
        box.groups.activate("web")


def test_removing_a_group_removes_its_tools_and_only_those() -> None:
    box = Toolbox()
    box.groups.create("web", active=True)
    box.add(greet, group="web")
    box.add(shout)
    box.groups.remove("web")
    assert box.names == ["shout"]
    assert "web" not in box.groups
    assert box.groups.get("web") is None


def test_a_tool_record_can_be_added_to_several_boxes_and_changed_on_the_way() -> None:
    tool = Tool(greet, tags=["polite"])
    first, second = Toolbox(), Toolbox()
    first.add(tool)
    changed = second.add(tool, name="hi", timeout=3)
    assert first.get("greet") is tool
    assert (changed.name, changed.tags, changed.limits.timeout) == ("hi", ("polite",), 3)
    assert tool.limits.timeout is None


def test_whoever_watches_hears_of_each_change_until_it_ends() -> None:
    box = Toolbox()
    heard: list[str | None] = []
    end = box.view(names="a").watch(heard.append)

    box.add(lambda: 1, name="a")
    box.groups.create("more")
    box.groups.activate("more")
    box.remove("a")
    end()
    box.add(lambda: 1, name="b")

    assert heard == ["a", None, None, "a"]


async def test_what_is_changed_on_a_group_takes_effect_and_is_told() -> None:
    box = Toolbox()
    group = box.groups.create("extra", "More.")
    box.add(greet, group="extra")
    told: list[str | None] = []
    box.watch(told.append)

    group.active = True
    group.notes = "Be careful."

    assert (await box.call("greet")).ok
    assert told == [None, None]
    with pytest.raises(AttributeError, match="name"):
        group.name = "other"
    with pytest.raises(AttributeError, match="basic"):
        next(iter(box.groups)).active = False


def test_a_function_is_found_under_all_its_names() -> None:
    class Shop:
        def open(self) -> str:
            return "open"

    box, shop = Toolbox(), Shop()
    box.add(shop.open)
    box.add(shop.open, name="unlock")
    box.add(Shop().open, name="other")

    assert [tool.name for tool in box.tools_of(shop.open)] == ["open", "unlock"]
    assert box.tools_of(greet) == []


def test_a_tool_is_found_by_name_also_where_its_group_is_not_active() -> None:
    box = Toolbox()
    box.groups.create("shop", "…", active=False)
    tool = box.add(greet, group="shop", tags="a")

    assert box.get("greet") is None
    assert box.find_tool("greet") is tool
    assert box.view(tags="a").find_tool("greet") is tool
    assert box.view(tags="b").find_tool("greet") is None
    assert box.find_tool("nope") is None
