"""The contract of document 001, point by point."""

import asyncio
import functools
import inspect
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Annotated, Any, Literal

import mcp_types
import pytest
from pydantic import BaseModel, Field

import wieldy.dialects.agentscope as agentscope
from tests.dialects.conftest import make_stall
from tests.mcp.conftest import SHOP, raw
from tests.mcp.waiting import alive
from tests.mcp.web import Seen, served
from wieldy import Outcome, ServerUnavailable, Status, Toolbox
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

SOON = 30


@pytest.fixture
def toolkit() -> Toolkit:
    return Toolkit()


def use(name: str, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(type="tool_use", id="u1", name=name, input=arguments)


def says(text: str, **facts: Any) -> ToolResponse:
    return ToolResponse(content=[TextBlock(type="text", text=text)], **facts)


def text_of(response: ToolResponse) -> str:
    return "".join(str(item.get("text", "")) for item in response.content)


async def call(toolkit: Toolkit, name: str, **arguments: Any) -> list[ToolResponse]:
    return [chunk async for chunk in await toolkit.call_tool_function(use(name, **arguments))]


async def answer(toolkit: Toolkit, name: str, **arguments: Any) -> str:
    (response,) = await call(toolkit, name, **arguments)
    return text_of(response)


def parameters(toolkit: Toolkit, index: int = -1) -> dict[str, Any]:
    found: dict[str, Any] = toolkit.get_json_schemas()[index]["function"]["parameters"]
    return found


DOCUMENTED = (
    "register_tool_function call_tool_function get_json_schemas set_extended_model "
    "create_tool_group update_tool_groups remove_tool_groups get_tool_group_notes "
    "get_activated_notes reset_equipped_tools state_dict load_state_dict"
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
            "include_long_description include_var_positional include_var_keyword postprocess_func",
        ),
        (Toolkit.call_tool_function, "self tool_call"),
        (
            Toolkit.register_mcp_client,
            "self client group_name enable_funcs disable_funcs preset_kwargs_mapping "
            "postprocess_func wrap_tool_result",
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
        (StdIOStatefulClient.get_callable_function, "self name wrap_tool_result"),
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


class City(BaseModel):
    """A city."""

    name: str
    near: "list[City]" = []


def weather(
    city: str, days: int = 3, unit: Literal["c", "f"] = "c", *args: Any, **kwargs: Any
) -> ToolResponse:
    """Tell the weather.

    It is a forecast, in words.

    Args:
        city: where
        days (int): how many days
    """
    return says(f"{city} {days} {unit} {args} {kwargs}")


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


# 001.2


def sync_tool(n: int) -> ToolResponse:
    """One."""
    return says(f"got {n}", metadata={"n": n})


async def async_tool(n: int) -> ToolResponse:
    """Two."""
    await asyncio.sleep(0)
    return says(f"got {n}", metadata={"n": n})


def sync_stream(n: int) -> Iterator[ToolResponse]:
    """Three."""
    text = ""
    for i in range(n):
        text += str(i)
        yield says(text, stream=True, is_last=False)


async def async_stream(n: int) -> AsyncIterator[ToolResponse]:
    """Four."""
    for chunk in sync_stream(n):
        await asyncio.sleep(0)
        yield chunk


async def later_sync_stream(n: int) -> Iterator[ToolResponse]:
    """Five."""
    return sync_stream(n)


async def later_async_stream(n: int) -> AsyncIterator[ToolResponse]:
    """Six."""
    return async_stream(n)


STREAMS = (sync_stream, async_stream, later_sync_stream, later_async_stream)


@pytest.mark.parametrize("function", [sync_tool, async_tool])
async def test_001_2_a_function_gives_one_response(
    toolkit: Toolkit, function: Callable[..., Any]
) -> None:
    toolkit.register_tool_function(function)
    (response,) = await call(toolkit, function.__name__, n=3)
    assert (text_of(response), response.metadata, response.is_last) == ("got 3", {"n": 3}, True)


@pytest.mark.parametrize("function", STREAMS)
async def test_001_2_generators_pass_their_responses_through(
    toolkit: Toolkit, function: Callable[..., Any]
) -> None:
    toolkit.register_tool_function(function)
    chunks = await call(toolkit, function.__name__, n=3)
    assert [text_of(chunk) for chunk in chunks] == ["0", "01", "012"]
    assert [chunk.is_last for chunk in chunks] == [False, False, True]
    assert all(chunk.stream for chunk in chunks)


async def test_001_2_the_result_may_be_iterated_without_awaiting(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(async_stream)
    chunks = [chunk async for chunk in toolkit.call_tool_function(use("async_stream", n=2))]
    assert len(chunks) == 2


async def test_001_2_the_first_chunk_comes_before_the_second_is_made(toolkit: Toolkit) -> None:
    go_on = asyncio.Event()

    async def slow() -> AsyncIterator[ToolResponse]:
        """Wait in between."""
        yield says("a", is_last=False)
        await go_on.wait()
        yield says("ab")

    toolkit.register_tool_function(slow)
    stream = await toolkit.call_tool_function(use("slow"))
    assert text_of(await anext(stream)) == "a"
    go_on.set()
    assert [text_of(chunk) async for chunk in stream] == ["ab"]


@pytest.mark.parametrize("sent", [None, {}])
async def test_001_2_input_may_be_none(toolkit: Toolkit, sent: Any) -> None:
    def now() -> str:
        """Tell."""
        return "now"

    toolkit.register_tool_function(now)
    block = ToolUseBlock(type="tool_use", id="1", name="now", input=sent)
    assert [text_of(r) async for r in toolkit.call_tool_function(block)] == ["now"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ({"a": [1]}, '{"a":[1]}'),
        (3, "3"),
        ([1, "x"], '[1,"x"]'),
        (None, "null"),
    ],
)
async def test_001_2_a_plain_value_is_one_text_block(
    toolkit: Toolkit, value: Any, text: str
) -> None:
    def give() -> Any:
        """Give."""
        return value

    toolkit.register_tool_function(give)
    (response,) = await call(toolkit, "give")
    assert response.content == [{"type": "text", "text": text}]
    assert response.is_last


async def test_001_2_plain_values_of_a_generator_accumulate(toolkit: Toolkit) -> None:
    def words() -> Iterator[str]:
        """Say words."""
        yield from ("a", "b", "c")

    toolkit.register_tool_function(words)
    chunks = await call(toolkit, "words")
    assert [text_of(chunk) for chunk in chunks] == ["a", "ab", "abc"]
    assert [chunk.is_last for chunk in chunks] == [False, False, True]
    assert len({chunk.id for chunk in chunks}) == 1


async def test_001_2_wrong_arguments_never_start_a_generator(toolkit: Toolkit) -> None:
    began: list[int] = []

    async def stream(n: int) -> AsyncIterator[ToolResponse]:
        """Stream."""
        began.append(n)
        yield says("x")

    toolkit.register_tool_function(stream)
    (response,) = await call(toolkit, "stream", n="many")
    assert text_of(response).startswith("Error: ")
    (missing,) = await call(toolkit, "stream")
    assert text_of(missing).startswith("Error: ")
    assert began == []


async def test_001_2_a_declared_model_receives_that_model(toolkit: Toolkit) -> None:
    def show(city: City) -> str:
        """Show."""
        return type(city).__name__

    toolkit.register_tool_function(show)
    assert await answer(toolkit, "show", city={"name": "Oslo"}) == "City"


async def test_001_2_a_blocking_function_does_not_block_the_loop(toolkit: Toolkit) -> None:
    def where() -> str:
        """Tell the thread."""
        return str(threading.get_ident())

    toolkit.register_tool_function(where)
    assert await answer(toolkit, "where") != str(threading.get_ident())


# 001.3


async def test_001_3_errors_of_functions_are_responses(toolkit: Toolkit) -> None:
    def fail(n: int) -> None:
        """Fail."""
        raise ValueError("no luck")

    async def fail_later(n: int) -> None:
        """Fail later."""
        raise ValueError("no luck")

    for function in (fail, fail_later):
        toolkit.register_tool_function(function)
        assert await answer(toolkit, function.__name__, n=1) == "Error: no luck"
        assert (await answer(toolkit, function.__name__)).startswith("Error: ")


async def test_001_3_unknown_and_inactive_functions(toolkit: Toolkit) -> None:
    assert (await answer(toolkit, "nope")).startswith("FunctionNotFoundError: ")
    toolkit.create_tool_group("browser", "Browse.")
    toolkit.register_tool_function(sync_tool, group_name="browser")
    assert (await answer(toolkit, "sync_tool", n=1)).startswith("FunctionInactiveError: ")
    toolkit.update_tool_groups(["browser"], True)
    assert await answer(toolkit, "sync_tool", n=1) == "got 1"


@pytest.mark.parametrize("later", [False, True])
async def test_001_3_an_exception_in_a_generator_propagates(toolkit: Toolkit, later: bool) -> None:
    raised = RuntimeError("broken")

    async def stream() -> AsyncIterator[ToolResponse]:
        """Break."""
        yield says("a")
        raise raised

    async def stream_later() -> AsyncIterator[ToolResponse]:
        """Break, later."""
        return stream()

    toolkit.register_tool_function(stream_later if later else stream)
    got: list[str] = []
    with pytest.raises(RuntimeError) as caught:
        async for chunk in toolkit.call_tool_function(use("stream_later" if later else "stream")):
            got.append(text_of(chunk))  # noqa: PERF401 - they count although it fails
    assert caught.value is raised
    assert got == ["a"]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"name": "sync_tool", "input": [1]}, "Error: Invalid arguments"),
        ({"name": "sync_tool", "input": "no JSON"}, "Error: Invalid arguments"),
        ({"name": "sync_tool", "input": 7}, "Error: Invalid arguments"),
        ({"name": "sync_tool", "input": {"unheard of": 1}}, "Error: Invalid arguments"),
        ({"name": 7, "input": {}}, "FunctionNotFoundError: "),
        ({"name": None, "input": {}}, "FunctionNotFoundError: "),
        ({"name": "x" * 10_000, "input": {}}, "FunctionNotFoundError: "),
    ],
)
async def test_001_3_a_block_that_makes_no_sense_is_answered(
    toolkit: Toolkit, block: Any, said: str
) -> None:
    toolkit.register_tool_function(sync_tool)

    (response,) = [chunk async for chunk in await toolkit.call_tool_function(block)]

    assert text_of(response).startswith(said)
    assert response.is_last


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda toolkit: toolkit.register_tool_function(3), ValueError),
        (lambda toolkit: toolkit.register_tool_function(lambda: 1), ValueError),
        (lambda toolkit: toolkit.register_tool_function(sync_tool, group_name=3), TypeError),
        (lambda toolkit: toolkit.register_tool_function(sync_tool, "nowhere"), ValueError),
        (lambda toolkit: toolkit.register_tool_function(sync_tool, preset_kwargs=[1]), TypeError),
        (
            lambda toolkit: toolkit.register_tool_function(sync_tool, preset_kwargs={"zz": 1}),
            ValueError,
        ),
        (lambda toolkit: toolkit.load_state_dict(None), TypeError),
        (lambda toolkit: toolkit.load_state_dict({"active_groups": ["nowhere"]}), ValueError),
    ],
)
def test_what_can_not_be_registered_changes_nothing(
    toolkit: Toolkit, wrong: Callable[[Toolkit], Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        wrong(toolkit)

    assert (toolkit.tools, toolkit.groups) == ({}, {})


# 001.4


async def read_all(toolkit: Toolkit, name: str, got: list[ToolResponse]) -> str:
    async for chunk in await toolkit.call_tool_function(use(name)):
        got.append(chunk)  # noqa: PERF401 - they count although it is cancelled
    return "went on"


async def test_001_4_a_cancelled_call_ends_with_an_interrupted_response(toolkit: Toolkit) -> None:
    began = asyncio.Event()
    left: list[str] = []

    async def hang() -> ToolResponse:
        """Hang."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.append("left")
        return says("never")

    toolkit.register_tool_function(hang)
    got: list[ToolResponse] = []
    task = asyncio.create_task(read_all(toolkit, "hang", got))
    await began.wait()
    task.cancel()
    assert await task == "went on"
    (last,) = got
    assert (last.is_interrupted, last.is_last, left) == (True, True, ["left"])
    assert "interrupted by the user" in text_of(last)
    assert task.cancelling() == 0


async def test_001_4_a_generator_keeps_what_it_had_produced(toolkit: Toolkit) -> None:
    began = asyncio.Event()

    async def hang() -> AsyncIterator[ToolResponse]:
        """Hang after a while."""
        yield says("so far", stream=True, is_last=False, id="x")
        began.set()
        await asyncio.Event().wait()

    toolkit.register_tool_function(hang)
    got: list[ToolResponse] = []
    task = asyncio.create_task(read_all(toolkit, "hang", got))
    await began.wait()
    task.cancel()
    await task
    assert [(chunk.id, chunk.is_interrupted) for chunk in got] == [("x", False), ("x", True)]
    assert got[1].content[0] == {"type": "text", "text": "so far"}
    assert "interrupted" in str(got[1].content[1])


async def test_001_4_under_a_timeout_the_reader_goes_on(toolkit: Toolkit) -> None:
    async def hang() -> ToolResponse:
        """Hang."""
        await asyncio.Event().wait()
        return says("never")

    toolkit.register_tool_function(hang)
    got: list[ToolResponse] = []
    async with asyncio.timeout(0.01):
        await read_all(toolkit, "hang", got)
    assert got[-1].is_interrupted
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


async def test_001_4_the_engine_knows_that_it_was_interrupted() -> None:
    heard: list[Status] = []
    toolkit = Toolkit(Toolbox(observers=[lambda outcome: heard.append(outcome.status)]))
    began = asyncio.Event()

    async def hang() -> None:
        """Hang."""
        began.set()
        await asyncio.Event().wait()

    toolkit.register_tool_function(hang)
    task = asyncio.create_task(read_all(toolkit, "hang", []))
    await began.wait()
    task.cancel()
    await task
    assert heard == [Status.INTERRUPTED]


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


# 001.9


def shop(name: str = "shop", **env: str) -> StdIOStatefulClient:
    return StdIOStatefulClient(name, sys.executable, args=[SHOP], env=env)


def hand_written(mode: str) -> StdIOStatefulClient:
    command, *args = raw(mode)
    return StdIOStatefulClient("raw", command, args)


@asynccontextmanager
async def connected(client: StdIOStatefulClient) -> AsyncIterator[StdIOStatefulClient]:
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


async def test_001_9_a_clients_functions_are_listed_and_called() -> None:
    async with connected(shop()) as client:
        listed = await client.list_tools()
        add = await client.get_callable_function("add")
        failing = await client.get_callable_function("fail")
        as_sent = await client.get_callable_function("add", wrap_tool_result=False)

        assert all(isinstance(tool, mcp_types.Tool) for tool in listed)
        assert [tool.name for tool in listed][:3] == ["add", "price", "greet"]
        assert (add.name, add.mcp_name, add.description) == ("add", "shop", "Add two numbers.")
        assert add.json_schema["function"]["parameters"]["required"] == ["a"]
        assert text_of(await add(a=40)) == "42"
        assert text_of(await failing(why="no luck")) == "Error: Error executing tool fail"
        result = await as_sent(a=1)
        assert isinstance(result, mcp_types.CallToolResult)
        assert result.structured_content == {"result": 3}
        with pytest.raises(ValueError, match=r"no function 'sell', only: add, price"):
            await client.get_callable_function("sell")


async def test_001_9_a_server_becomes_functions_of_the_toolkit(toolkit: Toolkit) -> None:
    async with connected(shop()) as client:
        toolkit.create_tool_group("shopping", "Buying things.", active=True)
        await toolkit.register_mcp_client(
            client,
            group_name="shopping",
            enable_funcs=["add", "price", "fail"],
            preset_kwargs_mapping={"add": {"b": 10}},
        )

        assert [each["function"]["name"] for each in toolkit.get_json_schemas()] == [
            "add",
            "price",
            "fail",
        ]
        assert list(parameters(toolkit, 0)["properties"]) == ["a"]
        assert await answer(toolkit, "add", a=1, b=99) == "11"
        assert json.loads(await answer(toolkit, "price", item="tea")) == {
            "item": "tea",
            "cents": 300,
        }
        assert await answer(toolkit, "fail", why="?") == "Error: Error executing tool fail"
        assert (await answer(toolkit, "add", a="x")).startswith("Error: Invalid arguments")
        registered = toolkit.tools["add"]
        assert (registered.source, registered.mcp_name) == ("mcp_server", "shop")
        toolkit.update_tool_groups("shopping", False)
        assert (await answer(toolkit, "add", a=1)).startswith("FunctionInactiveError: ")


async def test_001_9_blocks_of_every_kind_are_one_response(toolkit: Toolkit) -> None:
    async with connected(hand_written("kinds")) as client:
        await toolkit.register_mcp_client(client)

        (response,) = await call(toolkit, "echo")

    assert response.is_last
    assert response.metadata == {"cost": 3}
    assert response.content[:3] == [
        {"type": "text", "text": "t"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "aW1n"},
        },
        {
            "type": "audio",
            "source": {"type": "base64", "media_type": "audio/wav", "data": "c25k"},
        },
    ]
    link, inside, binary = (str(item.get("text")) for item in response.content[3:])
    assert "file:///a" in link
    assert inside == "inside"
    assert "file:///c" in binary


async def test_001_9_full_schemas_with_definitions(toolkit: Toolkit) -> None:
    async with connected(hand_written("schemas")) as client:
        await toolkit.register_mcp_client(client, enable_funcs=["loop", "tree"])

        assert parameters(toolkit, 0)["$defs"]["a"] == {"$ref": "#/$defs/b"}
        assert parameters(toolkit, 1)["properties"]["child"] == {"$ref": "#"}
        assert parameters(toolkit, 1)["additionalProperties"] is False


async def test_001_9_the_raw_result_and_postprocessing(toolkit: Toolkit) -> None:
    seen: list[Outcome] = []
    toolkit = Toolkit(toolbox=Toolbox(observers=[seen.append]))

    def louder(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
        return says(text_of(response) + "!")

    async with connected(shop()) as client:
        await toolkit.register_mcp_client(
            client, enable_funcs=["add", "fail"], wrap_tool_result=False
        )
        await toolkit.register_mcp_client(client, enable_funcs=["greet"], postprocess_func=louder)
        (good,) = await call(toolkit, "add", a=1)
        (bad,) = await call(toolkit, "fail", why="no luck")

        assert isinstance(good, mcp_types.CallToolResult)
        assert good.structured_content == {"result": 3}
        assert isinstance(bad, mcp_types.CallToolResult)
        assert bad.is_error
        assert [outcome.status for outcome in seen] == [Status.OK, Status.ERROR]
        assert await answer(toolkit, "greet", context="you") == "hello you!"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"enable_funcs": ["add"], "disable_funcs": ["add"]}, ValueError, "both"),
        ({"enable_funcs": ["sell"]}, ValueError, "only: add, price"),
        ({"disable_funcs": ["sell"]}, ValueError, "only: add, price"),
        ({"preset_kwargs_mapping": {"sell": {}}}, ValueError, "only: add, price"),
        ({"enable_funcs": "add"}, TypeError, "enable_funcs"),
        ({"disable_funcs": [1]}, TypeError, "disable_funcs"),
        ({"preset_kwargs_mapping": ["add"]}, TypeError, "preset_kwargs_mapping"),
        ({"group_name": "nowhere"}, ValueError, "nowhere"),
    ],
)
async def test_001_9_what_registering_a_client_refuses(
    toolkit: Toolkit, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    async with connected(shop()) as client:
        with pytest.raises(error, match=said):
            await toolkit.register_mcp_client(client, **given)

    assert toolkit.tools == {}


async def test_001_9_a_taken_name_changes_nothing_and_no_client_is_no_client(
    toolkit: Toolkit,
) -> None:
    def price() -> ToolResponse:
        return says("mine")

    toolkit.register_tool_function(price)
    async with connected(shop()) as client:
        with pytest.raises(ValueError, match="'price' already"):
            await toolkit.register_mcp_client(client)
        with pytest.raises(TypeError, match="client"):
            await toolkit.register_mcp_client("shop")  # type: ignore[arg-type]
        await toolkit.register_mcp_client(client, disable_funcs=["price"])

        assert await answer(toolkit, "price") == "mine"
        assert "add" in toolkit.tools


@pytest.mark.parametrize("method", ["remove_mcp_servers", "remove_mcp_clients"])
async def test_001_9_a_servers_functions_are_removed(toolkit: Toolkit, method: str) -> None:
    def mine() -> ToolResponse:
        return says("mine")

    toolkit.register_tool_function(mine)
    async with connected(shop()) as one, connected(hand_written("plain")) as other:
        await toolkit.register_mcp_client(one)
        await toolkit.register_mcp_client(other)
        await getattr(toolkit, method)(["shop", "unheard of"])

        assert list(toolkit.tools) == ["mine", "echo", "ask", "more"]
        assert one.is_connected
        with pytest.raises(TypeError):
            await getattr(toolkit, method)(7)


async def test_001_9_a_client_is_used_between_connect_and_close(toolkit: Toolkit) -> None:
    client = shop()
    with pytest.raises(RuntimeError, match=r"'shop' is not connected: connect\(\) first"):
        await client.list_tools()
    with pytest.raises(RuntimeError, match="not connected"):
        await toolkit.register_mcp_client(client)
    await client.connect()
    with pytest.raises(RuntimeError, match="connected already"):
        await client.connect()
    add = await client.get_callable_function("add")
    await toolkit.register_mcp_client(client)
    await client.close()
    await client.close()

    assert not client.is_connected
    with pytest.raises(RuntimeError, match="not connected"):
        await client.get_callable_function("add")
    with pytest.raises(RuntimeError, match="not connected"):
        await add(a=1)
    assert (await answer(toolkit, "add", a=1)).startswith("Error: the MCP client 'shop' is not")
    await client.connect()
    assert text_of(await add(a=1)) == await answer(toolkit, "add", a=1) == "3"
    await client.close()


async def test_001_9_clients_close_from_any_task_in_any_order() -> None:
    clients = [shop(f"shop {number}") for number in range(3)]
    for client in clients:
        await asyncio.create_task(client.connect())
    numbers = [await client.get_callable_function("pid") for client in clients]
    pids = [int(text_of(await number())) for number in numbers]

    await clients[1].close()
    assert text_of(await numbers[2]()) == str(pids[2])
    await asyncio.gather(clients[0].close(), clients[2].close())

    assert len(set(pids)) == 3
    assert not any(alive(pid) for pid in pids)


async def test_001_9_a_server_that_can_not_be_started_is_told(toolkit: Toolkit) -> None:
    client = hand_written("die")
    with pytest.raises(ServerUnavailable, match="no licence found"):
        await client.connect()

    assert not client.is_connected


@pytest.mark.parametrize("kind", [HttpStatefulClient, HttpStatelessClient])
async def test_001_9_servers_behind_a_url(
    toolkit: Toolkit, kind: Any, transport: str, url: str, visits: Seen
) -> None:
    client = kind("stall", transport, url, headers={"X-Key": "k1"})
    await client.connect()
    await toolkit.register_mcp_client(client)
    add = await client.get_callable_function("add")

    assert [tool.name for tool in await client.list_tools()] == ["add", "fail"]
    assert await answer(toolkit, "add", a=40) == text_of(await add(a=40)) == "42"
    assert (await answer(toolkit, "fail", why="no luck")).startswith("Error: ")
    assert {request.get("x-key") for request in visits.requests} == {"k1"}
    await client.close()


@pytest.mark.parametrize("kind", [HttpStatefulClient, HttpStatelessClient])
def test_001_9_an_unknown_transport_is_a_value_error(kind: Any) -> None:
    with pytest.raises(ValueError, match="streamable_http, sse"):
        kind("stall", "carrier pigeon", "http://127.0.0.1:9")


async def test_001_9_a_stateless_client_needs_no_connect_and_leaves_nothing_open(
    toolkit: Toolkit,
) -> None:
    before = threading.active_count()
    visits = Seen(make_stall().streamable_http_app())
    with served(visits) as port:
        client = HttpStatelessClient("stall", "streamable_http", f"http://127.0.0.1:{port}/mcp")
        await toolkit.register_mcp_client(client)
        assert await answer(toolkit, "add", a=1) == "3"
        seen = len(visits.requests)
        assert await answer(toolkit, "add", a=1) == "3"
        assert len(visits.requests) - seen > 1
    assert threading.active_count() <= before + 1


async def test_001_9_an_mcp_function_is_registered_like_any_other(toolkit: Toolkit) -> None:
    given = {
        "type": "function",
        "function": {
            "name": "plus",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
    }
    async with connected(shop()) as client:
        add = await client.get_callable_function("add")
        toolkit.register_tool_function(functools.partial(add, b=5), func_description="Add five.")
        toolkit.register_tool_function(add, json_schema=given, preset_kwargs={"b": 7})

        first, second = toolkit.get_json_schemas()
        assert first["function"]["description"] == "Add five."
        assert list(first["function"]["parameters"]["properties"]) == ["a"]
        assert second == given
        assert await answer(toolkit, "add", a=1) == "6"
        assert await answer(toolkit, "plus", a=1) == "8"


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


# 001.13


async def test_001_13_each_call_is_one_span(toolkit: Toolkit, spans: Any) -> None:
    toolkit.register_tool_function(async_stream)
    await call(toolkit, "async_stream", n=3)
    (span,) = spans()
    assert span.name == "execute_tool async_stream"
    assert "gen_ai.tool.call.arguments" not in (span.attributes or {})


async def test_001_13_inputs_outputs_and_the_exception_are_in_the_span(spans: Any) -> None:
    def divide(a: int, by: int) -> ToolResponse:
        return says(str(a // by))

    toolkit = Toolkit(toolbox=Toolbox(capture_content=True))
    toolkit.register_tool_function(divide)
    assert await answer(toolkit, "divide", a=6, by=2) == "3"
    await answer(toolkit, "divide", a=6, by=0)

    good, bad = spans()
    assert json.loads(good.attributes["gen_ai.tool.call.arguments"]) == {"a": 6, "by": 2}
    assert good.attributes["gen_ai.tool.call.result"] == "3"
    assert bad.attributes["error.type"] == "ZeroDivisionError"
    assert bad.status.description.startswith("ZeroDivisionError: ")
    assert not bad.status.is_ok


# One toolbox, several ways in.


async def test_a_shared_toolbox_is_called_from_both_sides() -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])
    toolkit = Toolkit(toolbox=box)
    toolkit.register_tool_function(sync_stream)

    @box.tool
    def add(a: Annotated[int, "first"], b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    assert await answer(toolkit, "add", a=1) == "3"
    assert parameters(toolkit)["properties"]["a"] == {"type": "integer", "description": "first"}
    outcome = await box.call("sync_stream", {"n": 3})
    assert outcome.text == "012"
    items = [item async for item in box.stream("sync_stream", {"n": 3})]
    assert [getattr(item, "text", None) for item in items] == ["0", "1", "2", "012"]
    box.rules.ask("add")
    waits = await answer(toolkit, "add", a=1)
    (parked,) = await box.pending()
    assert waits.startswith("Error: ")
    assert parked.id in waits


async def test_a_secret_preset_is_covered_in_every_chunk(toolkit: Toolkit) -> None:
    def leak(api_key: str, city: str) -> Iterator[ToolResponse]:
        """Leak."""
        yield says(f"key {api_key} in {city}", metadata={"n": 1})

    presets = {"api_key": "hunter2-hunter2", "city": "Shanghai"}
    toolkit.register_tool_function(leak, preset_kwargs=presets)
    (response,) = await call(toolkit, "leak")
    assert text_of(response) == "key ********** in Shanghai"
    assert response.metadata == {"n": 1}
