"""The contract of document 001: registering, describing, groups, models and state."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel, Field

import wieldy.dialects.agentscope as agentscope
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
from wieldy.dialects.agentscope import (
    HttpStatefulClient,
    HttpStatelessClient,
    ImageBlock,
    RegisteredToolFunction,
    StdIOStatefulClient,
    TextBlock,
    ToolGroup,
    Toolkit,
    ToolResponse,
    ToolUseBlock,
)


def test_exports_are_listed_and_sorted() -> None:
    assert agentscope.__all__ == sorted(agentscope.__all__)
    assert all(hasattr(agentscope, name) for name in agentscope.__all__)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (
            Toolkit.register_tool_function,
            "self tool_func group_name preset_kwargs func_description json_schema "
            "include_long_description include_var_positional include_var_keyword postprocess_func "
            "func_name namesake_strategy async_execution",
        ),
        (Toolkit.call_tool_function, "self tool_call"),
        (
            Toolkit.register_mcp_client,
            "self client group_name enable_funcs disable_funcs preset_kwargs_mapping "
            "postprocess_func wrap_tool_result namesake_strategy execution_timeout",
        ),
        (StdIOStatefulClient.__init__, "self name command args env cwd"),
        (
            HttpStatefulClient.__init__,
            "self name transport url headers timeout sse_read_timeout",
        ),
        (
            HttpStatelessClient.__init__,
            "self name transport url headers timeout sse_read_timeout",
        ),
        (StdIOStatefulClient.get_callable_function, "self name wrap_tool_result execution_timeout"),
        (Toolkit.get_json_schemas, "self group_names"),
        (Toolkit.set_extended_model, "self finish_function_name structured_model"),
        (Toolkit.create_tool_group, "self group_name description active notes"),
        (Toolkit.update_tool_groups, "self group_names active"),
        (Toolkit.remove_tool_groups, "self group_names"),
        (Toolkit.load_state_dict, "self state_dict strict"),
        (ToolResponse, "content metadata stream is_last is_interrupted id"),
        (ToolGroup, "name active description notes"),
        (RegisteredToolFunction.call, "self arguments stream_print"),
    ],
)
def test_parameters_have_the_names_of_the_contract(
    function: Callable[..., Any], names: str
) -> None:
    assert list(inspect.signature(function).parameters) == names.split()


# 001.1


def test_001_1_a_schema_from_signature_and_docstring(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(weather)
    assert toolkit.get_json_schemas() == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Tell the weather.\n\nIt is a forecast, in words.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "description": "where"},
                        "days": {"type": "integer", "default": 3, "description": "how many days"},
                        "unit": {"enum": ["c", "f"], "type": "string", "default": "c"},
                    },
                    "required": ["city"],
                },
            },
        }
    ]


def test_001_1_short_description_and_variadic_parameters(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(
        weather,
        include_long_description=False,
        include_var_positional=True,
        include_var_keyword=True,
    )
    (schema,) = toolkit.get_json_schemas()
    assert schema["function"]["description"] == "Tell the weather."
    assert list(parameters(toolkit)["properties"]) == ["city", "days", "unit", "args", "kwargs"]


async def test_001_1_variadic_arguments_reach_the_function(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(weather, include_var_positional=True, include_var_keyword=True)
    arguments = {"city": "Oslo", "days": 1, "unit": "f", "args": [1, 2], "kwargs": {"x": 3}}
    assert await answer(toolkit, "weather", **arguments) == "Oslo 1 f (1, 2) {'x': 3}"
    assert await answer(toolkit, "weather", city="Oslo") == "Oslo 3 c () {}"


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.\n\nArgs:\n    a: the first\n",
        "Do it.\nArgs:\n    a (int): the first\n",
        "Do it.\n\nParameters\n----------\na : int\n    the first\n",
        "Do it.\n\n:param a: the first\n",
    ],
)
def test_001_1_docstrings_of_every_style(toolkit: Toolkit, docstring: str) -> None:
    def work(a: int, b: int) -> ToolResponse:
        return says("")

    work.__doc__ = docstring
    toolkit.register_tool_function(work)
    (schema,) = toolkit.get_json_schemas()
    assert schema["function"]["description"] == "Do it."
    assert parameters(toolkit)["properties"] == {
        "a": {"type": "integer", "description": "the first"},
        "b": {"type": "integer"},
    }


def test_001_1_what_is_empty_is_absent_and_there_are_no_titles(toolkit: Toolkit) -> None:
    def bare(city: City | None = None) -> None:
        pass

    toolkit.register_tool_function(bare)
    (schema,) = toolkit.get_json_schemas()
    assert "description" not in schema["function"]
    assert "required" not in parameters(toolkit)
    assert "title" not in str(schema)
    assert "City" in parameters(toolkit)["$defs"]


class Service:
    """A service."""

    def look(self, what: str) -> ToolResponse:
        """Look it up."""
        return says(f"saw {what}")

    @classmethod
    def made(cls, what: str) -> str:
        return f"{cls.__name__} {what}"

    def __call__(self, what: str) -> str:
        """Be called."""
        return f"called {what}"


async def test_001_1_methods_partials_and_objects(toolkit: Toolkit) -> None:
    service = Service()
    toolkit.register_tool_function(service.look)
    toolkit.register_tool_function(Service.made)
    toolkit.register_tool_function(service)
    toolkit.register_tool_function(functools.partial(weather, "Oslo", days=2))
    assert [schema["function"]["name"] for schema in toolkit.get_json_schemas()] == [
        "look",
        "made",
        "Service",
        "weather",
    ]
    assert [list(parameters(toolkit, i)["properties"]) for i in range(4)] == [
        ["what"],
        ["what"],
        ["what"],
        ["unit"],
    ]
    assert await answer(toolkit, "look", what="x") == "saw x"
    assert await answer(toolkit, "made", what="x") == "Service x"
    assert await answer(toolkit, "Service", what="x") == "called x"
    assert await answer(toolkit, "weather", unit="f", days=9) == "Oslo 2 f () {}"


async def test_001_1_a_given_schema_is_used_as_it_is(toolkit: Toolkit) -> None:
    def work(**kwargs: Any) -> str:
        return str(kwargs)

    given = {
        "type": "function",
        "function": {
            "name": "job",
            "parameters": {
                "type": "object",
                "properties": {"n": {"type": "integer", "title": "N"}},
                "required": ["n"],
            },
        },
    }
    toolkit.register_tool_function(work, json_schema=given)
    assert toolkit.get_json_schemas() == [given]
    assert await answer(toolkit, "job", n=1) == "{'n': 1}"
    assert (await answer(toolkit, "job", n="x")).startswith("Error: ")


@pytest.mark.parametrize(
    "malformed",
    [
        "text",
        {},
        {"type": "function"},
        {"type": "object", "function": {"name": "a"}},
        {"type": "function", "function": {"parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}},
    ],
)
def test_001_1_a_malformed_schema_is_a_type_error(toolkit: Toolkit, malformed: Any) -> None:
    with pytest.raises(TypeError):
        toolkit.register_tool_function(weather, json_schema=malformed)
    assert toolkit.get_json_schemas() == []


def test_001_1_a_name_twice_and_an_unknown_group(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(weather)
    with pytest.raises(ValueError, match="weather"):
        toolkit.register_tool_function(weather)
    with pytest.raises(ValueError, match="nope"):
        toolkit.register_tool_function(Service().look, group_name="nope")
    toolkit.register_tool_function(Service().look, group_name="subagents")
    assert toolkit.groups["subagents"].active


def test_001_1_a_description_can_be_given(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(weather, func_description="Other words.")
    assert toolkit.get_json_schemas()[0]["function"]["description"] == "Other words."


# 001.5


async def test_001_5_presets_are_hidden_and_win(toolkit: Toolkit) -> None:
    def send(to: str, key: str) -> str:
        """Send."""
        return f"{to} {key}"

    toolkit.register_tool_function(send, preset_kwargs={"key": "mine"})
    assert list(parameters(toolkit)["properties"]) == ["to"]
    assert await answer(toolkit, "send", to="ann", key="theirs") == "ann mine"


@pytest.mark.parametrize("later", [False, True])
async def test_001_5_postprocessing_runs_on_every_chunk(toolkit: Toolkit, later: bool) -> None:
    seen: list[tuple[str, str]] = []

    def change(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse | None:
        seen.append((tool_call["name"], text_of(response)))
        return None if text_of(response) == "0" else says(text_of(response) + "!")

    async def change_later(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse | None:
        await asyncio.sleep(0)
        return change(tool_call, response)

    toolkit.register_tool_function(sync_stream, postprocess_func=change_later if later else change)
    chunks = await call(toolkit, "sync_stream", n=2)
    assert [text_of(chunk) for chunk in chunks] == ["0", "01!"]
    assert seen == [("sync_stream", "0"), ("sync_stream", "01")]


# 001.6


def test_001_6_groups_are_made_switched_and_removed(toolkit: Toolkit) -> None:
    toolkit.create_tool_group("browser", "Browse.", notes="Close it.")
    toolkit.create_tool_group("files", "Files.", active=True, notes="Be careful.")
    toolkit.register_tool_function(sync_tool, group_name="browser")
    toolkit.register_tool_function(async_tool, group_name="files")
    toolkit.register_tool_function(weather)
    assert toolkit.groups == {
        "browser": ToolGroup("browser", False, "Browse.", "Close it."),
        "files": ToolGroup("files", True, "Files.", "Be careful."),
    }

    def shown(groups: list[str] | None = None) -> list[str]:
        return [schema["function"]["name"] for schema in toolkit.get_json_schemas(groups)]

    assert shown() == ["async_tool", "weather"]
    assert shown(["browser"]) == ["sync_tool"]
    assert shown([]) == []
    toolkit.update_tool_groups(["browser", "basic"], True)
    assert shown() == ["sync_tool", "async_tool", "weather"]
    toolkit.update_tool_groups(["files", "basic"], False)
    assert shown() == ["sync_tool", "weather"]
    assert toolkit.get_tool_group_notes() == "## About Tool Group 'browser'\nClose it."
    assert toolkit.get_activated_notes() == toolkit.get_tool_group_notes()
    toolkit.remove_tool_groups(["browser", "files"])
    assert (shown(), toolkit.groups, toolkit.get_tool_group_notes()) == (["weather"], {}, "")
    assert list(toolkit.tools) == ["weather"]


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda t: t.create_tool_group("basic", ""), ValueError),
        (lambda t: t.create_tool_group("here", ""), ValueError),
        (lambda t: t.create_tool_group(3, ""), TypeError),
        (lambda t: t.remove_tool_groups(["basic"]), ValueError),
        (lambda t: t.remove_tool_groups("basic"), ValueError),
        (lambda t: t.remove_tool_groups(3), TypeError),
        (lambda t: t.remove_tool_groups([3]), TypeError),
        (lambda t: t.update_tool_groups(3, True), TypeError),
        (lambda t: t.update_tool_groups(["nope"], True), ValueError),
    ],
)
def test_001_6_what_groups_refuse(
    toolkit: Toolkit, act: Callable[[Any], None], error: type[Exception]
) -> None:
    toolkit.create_tool_group("here", "")
    with pytest.raises(error):
        act(toolkit)
    assert list(toolkit.groups) == ["here"]


# 001.7


async def test_001_7_a_model_chooses_its_groups(toolkit: Toolkit) -> None:
    toolkit.create_tool_group("browser", "Browse.", notes="Close it.")
    toolkit.register_tool_function(toolkit.reset_equipped_tools)
    toolkit.create_tool_group("files", "Files.", active=True)
    assert parameters(toolkit)["properties"] == {
        "browser": {"type": "boolean", "description": "Browse.", "default": False},
        "files": {"type": "boolean", "description": "Files.", "default": False},
    }
    said = await answer(toolkit, "reset_equipped_tools", browser=True)
    assert "browser" in said
    assert "Close it." in said
    assert toolkit.state_dict() == {"active_groups": ["browser"]}
    await answer(toolkit, "reset_equipped_tools", files=True, browser=False)
    assert toolkit.state_dict() == {"active_groups": ["files"]}
    for wrong in ({"browser": "yes"}, {"nope": True}, {"browser": 1}):
        said = await answer(toolkit, "reset_equipped_tools", **wrong)
        assert "Nothing was changed" in said
        assert toolkit.state_dict() == {"active_groups": ["files"]}
    await answer(toolkit, "reset_equipped_tools")
    assert toolkit.state_dict() == {"active_groups": []}
    toolkit.remove_tool_groups("files")
    assert list(parameters(toolkit)["properties"]) == ["browser"]


# 001.8


class Report(BaseModel):
    """A report."""

    title: str = Field(description="its title")
    score: int = 0


async def test_001_8_a_finish_function_takes_a_models_fields(toolkit: Toolkit) -> None:
    def finish(response: str, **kwargs: Any) -> ToolResponse:
        """End."""
        return says(response, metadata={"kept": True}, is_last=False)

    toolkit.register_tool_function(finish)
    plain = toolkit.get_json_schemas()
    toolkit.set_extended_model("finish", Report)
    assert parameters(toolkit)["properties"] == {
        "response": {"type": "string"},
        "title": {"type": "string", "description": "its title"},
        "score": {"type": "integer", "default": 0},
    }
    assert parameters(toolkit)["required"] == ["response", "title"]
    assert toolkit.tools["finish"].json_schema == plain[0]
    assert toolkit.tools["finish"].extended_json_schema == toolkit.get_json_schemas()[0]
    (response,) = await call(toolkit, "finish", response="done", title="T")
    assert response.metadata == {"kept": True, "response_msg": {"title": "T", "score": 0}}
    assert (text_of(response), response.is_last) == ("done", True)
    for wrong in ({"response": "x"}, {"response": "x", "title": "T", "score": "many"}):
        (response,) = await call(toolkit, "finish", **wrong)
        assert text_of(response).startswith("Error: ")
    toolkit.set_extended_model("finish", None)
    assert toolkit.get_json_schemas() == plain
    (response,) = await call(toolkit, "finish", response="done")
    assert response.metadata == {"kept": True}


async def test_001_8_async_functions_and_those_that_do_not_take_the_fields(
    toolkit: Toolkit,
) -> None:
    async def finish(response: str) -> ToolResponse:
        """End."""
        return says(response)

    toolkit.register_tool_function(finish)
    toolkit.set_extended_model("finish", Report)
    (response,) = await call(toolkit, "finish", response="done", title="T", score=2)
    assert response.metadata == {"response_msg": {"title": "T", "score": 2}}


def test_001_8_a_clash_an_unknown_function_and_no_model(toolkit: Toolkit) -> None:
    def finish(title: str) -> ToolResponse:
        """End."""
        return says(title)

    toolkit.register_tool_function(finish)
    before = toolkit.get_json_schemas()
    with pytest.raises(ValueError, match="title"):
        toolkit.set_extended_model("finish", Report)
    assert toolkit.get_json_schemas() == before
    with pytest.raises(ValueError, match="nope"):
        toolkit.set_extended_model("nope", Report)
    with pytest.raises(TypeError):
        toolkit.set_extended_model("finish", int)  # type: ignore[arg-type]


# 001.10


def test_001_10_state(toolkit: Toolkit) -> None:
    for name in ("a", "b", "c"):
        toolkit.create_tool_group(name, "", active=name != "b")
    state = toolkit.state_dict()
    assert state == {"active_groups": ["a", "c"]}
    toolkit.update_tool_groups(["a", "b"], True)
    toolkit.update_tool_groups(["c"], False)
    toolkit.load_state_dict(state)
    assert toolkit.state_dict() == state
    for wrong in ({}, {"active_groups": [], "tools": 1}, {"active_groups": ["nope"]}):
        with pytest.raises(ValueError, match=r"active_groups|nope"):
            toolkit.load_state_dict(wrong)
        assert toolkit.state_dict() == state
    toolkit.load_state_dict({"active_groups": ["b", "nope"], "tools": 1}, strict=False)
    assert toolkit.state_dict() == {"active_groups": ["b"]}
    toolkit.load_state_dict({}, strict=False)
    assert toolkit.state_dict() == {"active_groups": ["b"]}


# 001.11


async def test_001_11_a_registered_function_can_be_called(
    toolkit: Toolkit, capsys: pytest.CaptureFixture[str]
) -> None:
    toolkit.register_tool_function(sync_stream, preset_kwargs={"n": 2})
    registered = toolkit.tools["sync_stream"]
    assert (registered.name, registered.group, registered.source) == (
        "sync_stream",
        "basic",
        "function",
    )
    assert registered.original_func is sync_stream
    assert registered.preset_kwargs == {"n": 2}
    assert registered.extended_model is None
    chunks = [chunk async for chunk in registered.call(arguments={}, stream_print=True)]
    assert [text_of(chunk) for chunk in chunks] == ["0", "01"]
    assert capsys.readouterr().out == "01"


# 001.12


def test_001_12_responses_are_as_documented() -> None:
    assert [field.name for field in fields(ToolResponse)] == [
        "content", "metadata", "stream", "is_last", "is_interrupted", "id",
    ]  # fmt: skip
    response = says("x")
    assert (response.metadata, response.stream, response.is_last, response.is_interrupted) == (
        None,
        False,
        True,
        False,
    )
    stamp, _, tail = response.id.rpartition("_")
    assert stamp.count(":") == 2
    assert int(tail, 16) >= 0
    assert says("x").id != response.id
    block = TextBlock(type="text", text="x")
    assert (block["type"], block.get("text"), dict(block)) == (
        "text", "x", {"type": "text", "text": "x"},
    )  # fmt: skip


async def test_001_12_pictures_pass_through(toolkit: Toolkit) -> None:
    source: Any = {"type": "base64", "media_type": "image/png", "data": "aGk="}

    def draw() -> ToolResponse:
        """Draw."""
        return ToolResponse(
            [TextBlock(type="text", text="here"), ImageBlock(type="image", source=source)]
        )

    toolkit.register_tool_function(draw)
    (response,) = await call(toolkit, "draw")
    assert [item["type"] for item in response.content] == ["text", "image"]
    outcome = await toolkit.toolbox.call("draw")
    assert [block.type for block in outcome.content] == ["text", "image"]
    assert outcome.text == "here"
