"""The contract of document 001: functions in the background, and middleware around calls."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.dialects.agentscope_calls import (
    answer,
    async_tool,
    call,
    says,
    sync_stream,
    sync_tool,
    text_of,
    use,
)
from wieldy.dialects.agentscope import Toolkit, ToolResponse, ToolUseBlock

TASKS = ["view_task", "wait_task", "cancel_task"]


async def start(toolkit: Toolkit, name: str, **arguments: Any) -> str:
    """Call a function that runs in the background; gives the id of its task."""
    found = re.search(r"Task ID: (\w+)\.", await answer(toolkit, name, **arguments))
    assert found is not None
    return found.group(1)


# 001.1: in the background


async def test_001_1_a_background_function_answers_at_once_and_runs_on(toolkit: Toolkit) -> None:
    go_on = asyncio.Event()

    async def slow() -> ToolResponse:
        await go_on.wait()
        return says("done", metadata={"n": 1})

    toolkit.register_tool_function(slow, async_execution=True)
    task_id = await start(toolkit, "slow")

    assert text_of(await toolkit.view_task(task_id)) == f"Task {task_id} is still running."
    assert "still running after" in text_of(await toolkit.wait_task(task_id, timeout=0.01))
    go_on.set()
    result = await toolkit.wait_task(task_id)
    assert (text_of(result), result.metadata, result.is_last) == ("done", {"n": 1}, True)
    gone = text_of(await toolkit.view_task(task_id))
    assert gone == f"InvalidTaskIdError: Cannot find async task with ID {task_id}."


async def test_001_1_the_task_methods_are_tools(toolkit: Toolkit) -> None:
    toolkit.register_tool_function(async_tool, async_execution=True)
    task_id = await start(toolkit, "async_tool", n=4)

    assert list(toolkit.tools) == ["async_tool", *TASKS]
    assert await answer(toolkit, "wait_task", task_id=task_id, timeout=30) == "got 4"
    for name in TASKS:
        said = await answer(toolkit, name, task_id=task_id)
        assert said == f"InvalidTaskIdError: Cannot find async task with ID {task_id}."
    for method in (toolkit.view_task, toolkit.wait_task, toolkit.cancel_task):
        toolkit.register_tool_function(method)
    assert list(toolkit.tools) == ["async_tool", *TASKS]


async def test_001_1_a_task_is_stopped_once(toolkit: Toolkit) -> None:
    began, left = asyncio.Event(), []

    async def hang() -> ToolResponse:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.append("left")
        return says("never")

    toolkit.register_tool_function(hang, async_execution=True)
    toolkit.register_tool_function(sync_tool, async_execution=True)
    task_id = await start(toolkit, "hang")
    await began.wait()

    assert text_of(await toolkit.cancel_task(task_id)) == f"Task {task_id} has been cancelled."
    assert left == ["left"]
    again = text_of(await toolkit.cancel_task(task_id))
    assert again == f"Task {task_id} has already completed and cannot be cancelled."
    stopped = await toolkit.view_task(task_id)
    assert (stopped.is_interrupted, stopped.is_last) == (True, True)
    assert "cancelled by the user" in text_of(stopped)
    early = await start(toolkit, "sync_tool", n=1)
    assert "cancelled" in text_of(await toolkit.cancel_task(early))
    assert (await toolkit.view_task(early)).is_interrupted


def breaks() -> Iterator[ToolResponse]:
    yield says("a")
    raise ValueError("no luck")


def fails() -> ToolResponse:
    raise ValueError("no luck")


@pytest.mark.parametrize(
    ("function", "sent", "said"),
    [
        (sync_stream, {"n": 3}, ["0", "01", "012"]),
        (fails, {}, ["Error: no luck"]),
        (breaks, {}, ["Error during async execution: no luck"]),
        (sync_tool, {}, ["Error: "]),
    ],
)
async def test_001_1_results_and_errors_of_every_kind_are_kept(
    toolkit: Toolkit, function: Callable[..., Any], sent: dict[str, Any], said: list[str]
) -> None:
    seen: list[int] = []
    toolkit.register_tool_function(
        function,
        async_execution=True,
        postprocess_func=lambda tool_call, response: seen.append(len(response.content)),
    )

    result = await toolkit.wait_task(await start(toolkit, function.__name__, **sent), 30)

    texts = [str(item.get("text")) for item in result.content]
    assert [text[: len(start)] for text, start in zip(texts, said, strict=True)] == said
    assert result.is_last
    assert seen in ([len(said)], [])


# 001.1: middleware


async def test_001_1_the_first_middleware_is_outermost(toolkit: Toolkit) -> None:
    def around(mark: str) -> Callable[..., AsyncIterator[ToolResponse]]:
        async def middleware(kwargs: Any, next_handler: Any) -> AsyncIterator[ToolResponse]:
            assert kwargs["tool_call"]["name"] == "sync_stream"
            async for response in await next_handler(**kwargs):
                yield says(f"{mark}({text_of(response)})")

        return middleware

    toolkit.register_tool_function(sync_stream)
    toolkit.register_middleware(around("a"))
    toolkit.register_middleware(around("b"))

    chunks = await call(toolkit, "sync_stream", n=2)

    assert [text_of(chunk) for chunk in chunks] == ["a(b(0))", "a(b(01))"]


async def test_001_1_a_middleware_may_skip_or_change_a_call(toolkit: Toolkit) -> None:
    async def guard(kwargs: Any, next_handler: Any) -> AsyncIterator[ToolResponse]:
        block: ToolUseBlock = kwargs["tool_call"]
        if (block["input"] or {}).get("n") == 0:
            yield says("no zero")
            return
        kwargs["tool_call"] = use("sync_tool", n=7)
        async for response in await next_handler(**kwargs):
            yield response

    async def later(kwargs: Any, next_handler: Any) -> Any:
        return await next_handler(**kwargs)

    toolkit.register_tool_function(sync_tool)
    toolkit.register_middleware(guard)
    toolkit.register_middleware(later)

    assert await answer(toolkit, "sync_tool", n=0) == "no zero"
    assert await answer(toolkit, "sync_tool", n=1) == "got 7"
    assert [text_of(r) async for r in toolkit.tools["sync_tool"].call(arguments={"n": 1})] == [
        "got 7"
    ]
