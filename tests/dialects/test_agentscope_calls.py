"""The contract of document 001: calls, errors, interruptions and spans."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from tests.dialects.agentscope_calls import (
    City,
    answer,
    async_stream,
    async_tool,
    call,
    later_async_stream,
    later_sync_stream,
    parameters,
    says,
    sync_stream,
    sync_tool,
    text_of,
    use,
)
from wieldy import Outcome, Status, Toolbox
from wieldy.dialects.agentscope import TextBlock, Toolkit, ToolResponse, ToolUseBlock

# 001.2


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


def raises_cancelled() -> ToolResponse:
    """Raise."""
    raise asyncio.CancelledError("test")


async def raises_cancelled_later() -> ToolResponse:
    """Raise later."""
    await asyncio.sleep(0)
    raise asyncio.CancelledError("test")


def cancelled_stream() -> Iterator[ToolResponse]:
    """Raise after a chunk."""
    yield says("so far", stream=True, is_last=False, id="x")
    raise asyncio.CancelledError


async def cancelled_stream_later() -> AsyncIterator[ToolResponse]:
    """Raise after a chunk, later."""
    yield says("so far", stream=True, is_last=False, id="x")
    raise asyncio.CancelledError


INTERRUPTED = "<system-info>The tool call has been interrupted by the user.</system-info>"


@pytest.mark.parametrize(
    "function",
    [raises_cancelled, raises_cancelled_later, cancelled_stream, cancelled_stream_later],
)
async def test_001_4_a_cancelled_error_of_the_tool_is_an_interruption(
    toolkit: Toolkit, function: Callable[..., Any]
) -> None:
    toolkit.register_tool_function(function)

    *before, last = await call(toolkit, function.__name__)

    assert [text_of(chunk) for chunk in before] == (["so far"] if before else [])
    said = [*map(text_of, before), INTERRUPTED]
    assert last == ToolResponse(
        [TextBlock(type="text", text=text) for text in said],
        stream=True,
        is_interrupted=True,
        id="x" if before else last.id,
    )


# is_last, as it is when a response is handed out


async def unsure(n: int) -> Any:
    """It may be anything."""
    return says(f"got {n}", is_last=False)


@pytest.mark.parametrize(
    ("name", "sent"),
    [("unsure", {"n": 1}), ("unsure", {"n": "x"}), ("nope", {}), ("plain", {}), ("cancelled", {})],
)
async def test_a_response_that_is_the_last_says_so_when_it_is_handed_out(
    toolkit: Toolkit, name: str, sent: dict[str, Any]
) -> None:
    toolkit.register_tool_function(unsure)
    toolkit.register_tool_function(lambda: 3, func_name="plain")
    toolkit.register_tool_function(raises_cancelled_later, func_name="cancelled")
    stream = toolkit.call_tool_function(use(name, **sent))

    assert (await anext(stream)).is_last
    assert [chunk async for chunk in stream] == []


async def test_chunks_of_a_function_that_gives_a_generator_go_out_at_once(toolkit: Toolkit) -> None:
    go_on = asyncio.Event()

    async def chunks() -> AsyncIterator[ToolResponse]:
        yield says("a", is_last=False)
        await go_on.wait()
        yield says("ab", is_last=False)

    async def unsaid():  # type: ignore[no-untyped-def]
        """It does not say what it gives."""
        return chunks()

    toolkit.register_tool_function(unsaid)
    stream = toolkit.call_tool_function(use("unsaid"))
    first = await anext(stream)
    assert (text_of(first), first.is_last) == ("a", False)
    go_on.set()
    (last,) = [chunk async for chunk in stream]
    assert (text_of(last), last.is_last, first.is_last) == ("ab", True, False)


async def test_a_response_that_is_yielded_again_and_again_is_seen_as_it_was(
    toolkit: Toolkit,
) -> None:
    async def grow() -> AsyncIterator[ToolResponse]:
        response = says("")
        for letter in "abc":
            response.content[0]["text"] += letter  # type: ignore[typeddict-item]
            yield response

    toolkit.register_tool_function(grow)

    assert [text_of(chunk) for chunk in await call(toolkit, "grow")] == ["a", "ab", "abc"]
    assert (await toolkit.toolbox.call("grow")).text == "abc"


async def test_a_generator_that_gives_nothing_gives_no_response(toolkit: Toolkit) -> None:
    def nothing() -> Iterator[str]:
        yield from ()

    toolkit.register_tool_function(nothing)

    assert await call(toolkit, "nothing") == []


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
        yield says(f"key {api_key} in {city} again", metadata={"n": 2})

    presets = {"api_key": "hunter2-hunter2", "city": "Shanghai"}
    toolkit.register_tool_function(leak, preset_kwargs=presets)
    chunks = await call(toolkit, "leak")
    said = "key ********** in Shanghai"
    assert [text_of(chunk) for chunk in chunks] == [said, f"{said} again"]
    assert [chunk.metadata for chunk in chunks] == [{"n": 1}, {"n": 2}]
    assert (await toolkit.toolbox.call("leak")).text == f"{said} again"


@pytest.mark.parametrize("ending", ["", " end"])
async def test_a_secret_preset_that_is_split_over_chunks_is_in_none_of_them(
    toolkit: Toolkit, ending: str
) -> None:
    async def leak(api_key: str) -> AsyncIterator[ToolResponse]:
        whole = f"key hunter {api_key}{ending}"
        for size in range(1, len(whole) + 1):
            yield says(whole[:size], stream=True)

    async def tease(api_key: str) -> AsyncIterator[ToolResponse]:
        yield says("key ")
        yield says(f"key {api_key[:7]}")

    for function in (leak, tease):
        toolkit.register_tool_function(function, preset_kwargs={"api_key": "hunter2-hunter2"})
    chunks = [text_of(response) for response in await call(toolkit, "leak")]

    whole = f"key hunter **********{ending}"
    assert chunks[-1] == whole
    assert all(whole.startswith(chunk) for chunk in chunks)
    shown = [text_of(response) for response in await call(toolkit, "tease")]
    assert shown[0] == "key " and shown[-1] == "key hunter2"

    items: list[Any] = [item async for item in toolkit.toolbox.stream("leak")]
    assert "".join(item.text for item in items[:-1]) == whole == items[-1].text
