"""The contract of document 001: names, presets, models and what is changed afterwards."""

import copy
import dataclasses
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from tests.dialects.agentscope_calls import (
    City,
    answer,
    async_tool,
    call,
    parameters,
    says,
    sync_stream,
    sync_tool,
    text_of,
    weather,
)
from wieldy import Toolbox
from wieldy.core.choices import ConflictPolicy
from wieldy.dialects.agentscope import ToolGroup, Toolkit, ToolResponse, ToolUseBlock

# 001.1: names


def names(toolkit: Toolkit) -> list[str]:
    return [schema["function"]["name"] for schema in toolkit.get_json_schemas()]


async def test_001_1_a_function_is_named_and_its_own_name_is_kept(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(sync_tool, func_name="first")
    toolkit.register_tool_function(functools.partial(sync_tool, 2), func_name="second")
    toolkit.register_tool_function(async_tool)

    assert names(toolkit) == ["first", "second", "async_tool"]
    assert [each.original_name for each in toolkit.tools.values()] == [
        "sync_tool", "sync_tool", None,
    ]  # fmt: skip
    assert await answer(toolkit, "first", n=1) == "got 1"
    assert await answer(toolkit, "second") == "got 2"


@pytest.mark.parametrize(
    ("strategy", "known", "said"),
    [
        ("override", ["work"], ["second"]),
        ("skip", ["work"], ["first"]),
        ("rename", ["work", "work_2"], ["first", "second"]),
    ],
)
async def test_001_1_a_taken_name_is_dealt_with_as_asked(
    toolkit: Toolkit, strategy: ConflictPolicy, known: list[str], said: list[str]
) -> None:
    toolkit.register_tool_function(lambda: "first", func_name="work")

    toolkit.register_tool_function(lambda: "second", func_name="work", namesake_strategy=strategy)

    assert names(toolkit) == known
    assert [await answer(toolkit, name) for name in known] == said


def test_001_1_a_renamed_function_keeps_its_original_name(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(sync_tool)
    toolkit.register_tool_function(sync_tool, namesake_strategy="rename")
    toolkit.register_tool_function(async_tool, func_name="sync_tool", namesake_strategy="rename")

    found = [(name, each.original_name) for name, each in toolkit.tools.items()]
    assert found == [
        ("sync_tool", None),
        ("sync_tool_2", "sync_tool"),
        ("sync_tool_3", "async_tool"),
    ]
    with pytest.raises(ValueError, match="A function with name 'sync_tool' is already registered"):
        toolkit.register_tool_function(sync_tool)
    with pytest.raises(ValueError, match="namesake_strategy"):
        toolkit.register_tool_function(sync_tool, namesake_strategy="guess")  # type: ignore[arg-type]


def test_001_1_presets_are_removed_from_a_given_schema(toolkit: Toolkit) -> None:
    given: dict[str, Any] = {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Given.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city", "days"],
            },
        },
    }
    before = copy.deepcopy(given)
    toolkit.register_tool_function(weather, json_schema=given, preset_kwargs={"days": 1})
    toolkit.register_tool_function(
        functools.partial(weather, "Oslo", 2),
        json_schema=given,
        func_name="there",
        func_description="Other words.",
    )

    first, second = toolkit.get_json_schemas()
    assert first["function"]["parameters"] == {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    assert second["function"] == {
        "name": "there",
        "description": "Other words.",
        "parameters": {"type": "object", "properties": {}},
    }
    assert given == before


def test_001_1_what_a_partial_binds_is_a_preset(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(functools.partial(weather, "Oslo", days=2))
    registered = toolkit.tools["weather"]

    assert registered.preset_kwargs == {"city": "Oslo", "days": 2}
    assert registered.original_func is weather


async def test_001_1_a_partial_may_bind_more_than_there_are_names(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(functools.partial(weather, "Oslo", 2, "f", "more"))

    assert parameters(toolkit)["properties"] == {}
    assert await answer(toolkit, "weather") == "Oslo 2 f ('more',) {}"


async def test_001_1_variadic_arguments_go_with_presets_and_models(toolkit: Toolkit) -> None:
    def work(city: City, n: int, *args: Any, **kwargs: Any) -> str:
        return f"{type(city).__name__} {n} {args} {kwargs}"

    toolkit.register_tool_function(
        work, preset_kwargs={"n": 3}, include_var_positional=True, include_var_keyword=True
    )
    sent = {"city": {"name": "Oslo"}, "args": [1], "kwargs": {"x": 2}}

    assert list(parameters(toolkit)["properties"]) == ["city", "args", "kwargs"]
    assert await answer(toolkit, "work", **sent) == "City 3 (1,) {'x': 2}"


def test_001_1_clear_takes_everything_out(toolkit: Toolkit) -> None:
    toolkit.create_tool_group("files", "Files.")
    toolkit.register_tool_function(sync_tool, group_name="files")
    toolkit.register_tool_function(async_tool)

    toolkit.clear()

    assert (toolkit.tools, toolkit.groups, toolkit.get_json_schemas()) == ({}, {}, [])
    toolkit.register_tool_function(async_tool)
    with pytest.raises(ValueError, match="'sync_tool' does not exist"):
        toolkit.remove_tool_function("sync_tool", allow_not_exist=False)


# 001.7


async def test_001_7_the_meta_tool_keeps_its_postprocessing_and_is_never_stale() -> None:
    box = Toolbox()
    toolkit = Toolkit(box)

    def louder(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
        return says(text_of(response).upper())

    toolkit.register_tool_function(
        toolkit.reset_equipped_tools, func_name="equip", postprocess_func=louder
    )
    toolkit.create_tool_group("files", "Files.", notes="Be careful.")
    box.groups.create("web", "The web.")
    toolkit.groups["web"].description = "All of the web."
    toolkit.register_tool_function(sync_tool, group_name="subagents")

    shown = toolkit.get_json_schemas(["basic"])[0]["function"]["parameters"]["properties"]
    assert shown["web"] == {"type": "boolean", "description": "All of the web.", "default": False}
    assert list(shown) == ["files", "web", "subagents"]
    assert box.schemas()[0]["function"]["parameters"]["properties"].keys() == shown.keys()
    said = await answer(toolkit, "equip", files=True)
    assert "<NOTES>## ABOUT FILES TOOLS\nBE CAREFUL.</NOTES>" in said
    toolkit.remove_tool_groups(["files", "web", "subagents"])
    assert parameters(toolkit) == {"type": "object", "properties": {}}


async def test_001_7_the_answer_holds_the_notes_of_what_is_on(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(toolkit.reset_equipped_tools)
    assert parameters(toolkit) == {"type": "object", "properties": {}}
    toolkit.create_tool_group("browser_use", "Browse.", notes="## Rules\n1. Close it.\n")
    assert parameters(toolkit)["properties"]["browser_use"]["default"] is False

    said = await answer(toolkit, "reset_equipped_tools", browser_use=True)

    assert said.endswith("<notes>## About browser_use Tools\n## Rules\n1. Close it.\n</notes>")


# 001.8


class Report(BaseModel):
    """A report."""

    title: str
    score: int = 0


def plain(n: int) -> dict[str, int]:
    return {"n": n}


def words(n: int) -> Iterator[str]:
    yield from ("a", "b")


async def later_words(n: int) -> AsyncIterator[str]:
    for word in ("a", "b"):
        yield word


async def gives_words(n: int) -> AsyncIterator[str]:
    return later_words(n)


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (sync_tool, ["got 1"]),
        (async_tool, ["got 1"]),
        (plain, ['{"n":1}']),
        (words, ["a", "ab"]),
        (later_words, ["a", "ab"]),
        (gives_words, ["a", "ab"]),
        (sync_stream, ["0"]),
        (functools.partial(sync_tool), ["got 1"]),
    ],
)
async def test_001_8_every_kind_of_function_answers_with_the_fields(
    toolkit: Toolkit, function: Callable[..., Any], texts: list[str]
) -> None:
    toolkit.register_tool_function(function, func_name="finish")
    toolkit.set_extended_model("finish", Report)

    chunks = await call(toolkit, "finish", n=1, title="T")

    assert [text_of(chunk) for chunk in chunks] == texts
    assert [(chunk.metadata or {})["response_msg"] for chunk in chunks] == [
        {"title": "T", "score": 0}
    ] * len(chunks)
    assert chunks[-1].is_last


async def test_001_8_partials_keep_what_they_bind_and_models_stay_models(toolkit: Toolkit) -> None:
    def finish(first: int, city: City, *, last: int = 3) -> str:
        return f"{first} {type(city).__name__} {last}"

    toolkit.register_tool_function(functools.partial(finish, 1, last=9))
    toolkit.set_extended_model("finish", Report)

    (response,) = await call(toolkit, "finish", city={"name": "Oslo"}, title="T")

    assert text_of(response) == "1 City 9"
    assert response.metadata == {"response_msg": {"title": "T", "score": 0}}


async def test_001_8_definitions_that_differ_clash(toolkit: Toolkit) -> None:
    def finish(city: City) -> str:
        return city.name

    class Trip(BaseModel):
        to: City

    def other() -> type[BaseModel]:
        class City(BaseModel):
            streets: int

        class Plan(BaseModel):
            to: City

        return Plan

    toolkit.register_tool_function(finish)
    toolkit.set_extended_model("finish", Trip)
    assert await answer(toolkit, "finish", city={"name": "A"}, to={"name": "B"}) == "A"
    with pytest.raises(ValueError, match="City"):
        toolkit.set_extended_model("finish", other())


# What is changed on `toolkit.groups` and `toolkit.tools` takes effect or is refused.


async def test_what_is_set_on_a_group_takes_effect(toolkit: Toolkit) -> None:
    toolkit.create_tool_group("files", "Files.")
    toolkit.register_tool_function(sync_tool, group_name="files")

    toolkit.groups["files"].active = True
    toolkit.groups["files"].notes = "Be careful."

    assert await answer(toolkit, "sync_tool", n=1) == "got 1"
    assert toolkit.get_activated_notes() == "## About Tool Group 'files'\nBe careful."
    assert toolkit.groups["files"] == ToolGroup("files", True, "Files.", "Be careful.")


async def test_what_is_set_on_a_function_takes_effect(toolkit: Toolkit) -> None:
    toolkit.create_tool_group("files", "Files.")
    toolkit.register_tool_function(weather)
    registered = toolkit.tools["weather"]

    registered.preset_kwargs = {"days": 7}
    assert list(parameters(toolkit)["properties"]) == ["city", "unit"]
    assert await answer(toolkit, "weather", city="Oslo") == "Oslo 7 c () {}"
    registered.postprocess_func = lambda tool_call, response: says("other")
    assert await answer(toolkit, "weather", city="Oslo") == "other"
    registered.extended_model = Report
    assert parameters(toolkit)["required"] == ["city", "title"]
    registered.extended_model = None
    schema = copy.deepcopy(registered.json_schema)
    schema["function"]["description"] = "Changed."
    del schema["function"]["parameters"]["properties"]["unit"]
    registered.json_schema = schema
    assert toolkit.get_json_schemas() == [schema]
    assert toolkit.toolbox.schemas()[0]["function"]["description"] == "Changed."
    registered.group = "files"
    assert (await answer(toolkit, "weather", city="Oslo")).startswith("FunctionInactiveError: ")
    assert registered == toolkit.tools["weather"]


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda t: t.groups.clear(), TypeError),
        (lambda t: t.groups.pop("files"), TypeError),
        (lambda t: t.groups.update(more=ToolGroup("more", True, "")), TypeError),
        (lambda t: setattr(t.groups["files"], "name", "other"), AttributeError),
        (lambda t: t.tools.pop("weather"), TypeError),
        (lambda t: t.tools.__setitem__("weather", None), TypeError),
        (lambda t: t.tools["weather"].preset_kwargs.update(days=1), TypeError),
        (lambda t: t.tools["weather"].json_schema["function"].pop("name"), TypeError),
        (lambda t: t.tools["weather"].json_schema["function"]["parameters"]["required"].append("x"),
         TypeError),
        (lambda t: setattr(t.tools["weather"], "name", "other"), AttributeError),
        (lambda t: setattr(t.tools["weather"], "original_func", sync_tool), AttributeError),
        (lambda t: setattr(t.tools["weather"], "group", "nowhere"), ValueError),
        (lambda t: setattr(t.tools["weather"], "preset_kwargs", {"zz": 1}), ValueError),
        (lambda t: setattr(t.tools["weather"], "json_schema", {}), TypeError),
        (
            lambda t: setattr(
                t.tools["weather"], "json_schema", {"type": "function", "function": {"name": "x"}}
            ),
            ValueError,
        ),
        (lambda t: setattr(t.tools["weather"], "extended_model", int), TypeError),
        (lambda t: setattr(t.tools["foreign"], "group", "files"), AttributeError),
    ],
)  # fmt: skip
def test_what_can_not_be_changed_is_refused(
    toolkit: Toolkit, act: Callable[[Any], None], error: type[Exception]
) -> None:
    def strict(a: int) -> int:
        return a

    toolkit.create_tool_group("files", "Files.")
    toolkit.register_tool_function(lambda city, days=1: says(city), func_name="weather")
    toolkit.toolbox.add(strict, name="foreign")
    before = copy.deepcopy(toolkit.get_json_schemas())
    with pytest.raises(error):
        act(toolkit)

    assert toolkit.get_json_schemas() == before
    assert list(toolkit.groups) == ["files"]


def test_a_function_that_was_removed_can_not_be_changed(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(sync_tool)
    registered = toolkit.tools["sync_tool"]
    toolkit.remove_tool_function("sync_tool")

    with pytest.raises(AttributeError, match="not registered any more"):
        registered.preset_kwargs = {"n": 1}
    assert toolkit.tools == {}


def test_copies_of_groups_and_functions_are_plain_records(toolkit: Toolkit) -> None:
    toolkit.create_tool_group("files", "Files.")
    toolkit.register_tool_function(sync_tool, group_name="files")

    group = copy.deepcopy(toolkit.groups)["files"]
    function = copy.deepcopy(toolkit.tools)["sync_tool"]
    group.active = True
    function.preset_kwargs["n"] = 1
    function.json_schema["function"]["parameters"]["required"].append("x")

    assert dataclasses.asdict(group)["active"]
    assert not toolkit.groups["files"].active
    assert toolkit.tools["sync_tool"].preset_kwargs == {}
    assert toolkit.get_json_schemas(["files"])[0]["function"]["parameters"]["required"] == ["n"]


async def test_a_function_is_sent_to_the_background_afterwards(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(sync_tool)
    toolkit.tools["sync_tool"].async_execution = True

    assert "Task ID: " in await answer(toolkit, "sync_tool", n=1)
    assert "wait_task" in toolkit.tools


def test_001_8_a_field_can_not_have_the_name_of_a_preset(toolkit: Toolkit) -> None:
    def finish(title: str) -> str:
        return title

    toolkit.register_tool_function(finish, preset_kwargs={"title": "hidden"})

    with pytest.raises(ValueError, match="title"):
        toolkit.set_extended_model("finish", Report)
    assert toolkit.tools["finish"].extended_model is None
