"""A box as an MCP server: what clients of both eras list, call, hear and read."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server.subscriptions import ToolsListChanged
from mcp_types import LoggingMessageNotificationParams, ToolListChangedNotification

import wieldy.mcp
from tests.mcp.clients import MODES, Mode, Person, soon, text_of
from wieldy import (
    ActiveCall,
    Call,
    Context,
    Handler,
    Image,
    InputNeeded,
    Outcome,
    Secret,
    Status,
    Text,
    Toolbox,
)
from wieldy.wire.openai import render


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool(read_only=True, idempotent=True)
    async def half(a: int) -> dict[str, int]:
        """Half of it."""
        return {"half": a // 2}

    @box.tool(destructive=True)
    def fail(word: str) -> None:
        """Fail."""
        raise ValueError(f"no {word}")

    @box.tool
    def picture() -> list[Any]:
        """A picture with words."""
        return [Text("Look:"), Image(b"png")]

    @box.tool(timeout=0.01)
    async def late() -> None:
        """Take too long."""
        await asyncio.Event().wait()

    @box.tool(permission="deny")
    def never() -> None:
        """Never run."""

    @box.tool
    async def who(context: Context) -> list[str | None]:
        """Who calls."""
        return [context.scope.agent, context.scope.session]

    return box


@pytest.mark.parametrize("mode", MODES)
async def test_tools_are_listed_as_the_box_describes_them(mode: Mode, box: Toolbox) -> None:
    box.add(lambda: None, name="Zürich weather!", description="Look out.")
    async with Client(wieldy.mcp.server(box), mode=mode) as client:
        listed = (await client.list_tools()).tools

    half, fail = listed[0], listed[1]
    described = [each["name"] for each in box.schemas("mcp")]
    assert [tool.name for tool in listed] == [name for name in described if name != "never"]
    assert half.description == "Half of it."
    assert half.input_schema == box.schemas("mcp")[0]["inputSchema"]
    assert half.output_schema == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert half.annotations is not None and half.annotations.read_only_hint
    assert half.annotations.idempotent_hint and not half.annotations.destructive_hint
    assert fail.annotations is not None and fail.annotations.destructive_hint


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_gives_content_and_structure(mode: Mode, box: Toolbox) -> None:
    async with Client(wieldy.mcp.server(box), mode=mode) as client:
        half = await client.call_tool("half", {"a": "9"})
        picture = await client.call_tool("picture")

    assert (half.structured_content, half.is_error) == ({"half": 4}, False)
    assert text_of(half) == '{"half":4}'
    assert [block.type for block in picture.content] == ["text", "image"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("fail", {"word": "luck"}, "ValueError: no luck"),
        ("fail", {}, "Invalid arguments for fail"),
        ("late", {}, "late did not finish within 0.01 s."),
        ("never", {}, "The call of never was denied: the tool is switched off"),
    ],
)
async def test_what_goes_wrong_in_a_call_is_told_to_the_model(
    mode: Mode, tool: str, arguments: dict[str, Any], said: str, box: Toolbox
) -> None:
    async with Client(wieldy.mcp.server(box), mode=mode) as client:
        result = await client.call_tool(tool, arguments)

    assert result.is_error
    assert text_of(result).startswith(said)


@pytest.mark.parametrize("mode", MODES)
async def test_an_unknown_tool_is_the_protocols_error(mode: Mode, box: Toolbox) -> None:
    async with Client(wieldy.mcp.server(box), mode=mode) as client:
        with pytest.raises(MCPError, match=r"no tool named 'halve'\. Did you mean 'half'"):
            await client.call_tool("halve", {"a": 1})


async def test_a_tool_under_another_name_is_called_by_the_name_that_clients_see() -> None:
    box = Toolbox()
    box.add(lambda: "sunny", name="Zürich weather!")
    async with Client(wieldy.mcp.server(box)) as client:
        (listed,) = (await client.list_tools()).tools
        result = await client.call_tool(listed.name)

    assert listed.name != "Zürich weather!"
    assert text_of(result) == "sunny"


async def test_every_call_goes_through_the_engine(box: Toolbox) -> None:
    seen: list[Call] = []
    watched = Toolbox(observers=[lambda outcome: seen.append(outcome.call)])
    for tool in box:
        watched.add(tool)
    watched.rules.deny("fail", where={"word": "thirteen"}, reason="unlucky")
    async with Client(wieldy.mcp.server(watched)) as client:
        denied = await client.call_tool("fail", {"word": "thirteen"})
        await client.call_tool("picture")

    assert "unlucky" in text_of(denied)
    assert [call.tool for call in seen] == ["fail", "picture"]
    assert all(call.provider_id for call in seen)


@pytest.mark.parametrize("mode", MODES)
async def test_a_streaming_tool_is_told_as_progress_that_only_grows(mode: Mode) -> None:
    box = Toolbox()

    @box.tool
    async def report(context: Context) -> str:
        """Report."""
        await context.progress(1, 4, "started")
        await context.emit("first ")
        await context.progress(1, 4)
        await context.notice("nearly there")
        await context.progress(4, 4, "done")
        return "the end"

    @box.tool
    async def count() -> AsyncIterator[str]:
        """Count."""
        for word in ("one ", "two ", "three"):
            yield word

    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with Client(wieldy.mcp.server(box), mode=mode) as client:
        result = await client.call_tool("report", progress_callback=hear)
        reported, heard = heard, []
        counted = await client.call_tool("count", progress_callback=hear)
        silent = await client.call_tool("count")

    values = [progress for progress, _, _ in reported]
    assert values == sorted(set(values)) and values[0] == 1 and values[-1] == 4
    assert [message for _, _, message in reported] == [
        "started", "first ", None, "nearly there", "done",
    ]  # fmt: skip
    assert text_of(result) == "first the end"
    assert heard == [(1, None, "one "), (2, None, "two "), (3, None, "three")]
    assert text_of(counted) == text_of(silent) == "one two three"


@pytest.mark.parametrize("mode", MODES)
async def test_a_request_that_is_given_up_interrupts_its_call(mode: Mode) -> None:
    running, ended = asyncio.Event(), asyncio.Event()
    outcomes: list[Outcome] = []

    def told(outcome: Outcome) -> None:
        outcomes.append(outcome)
        ended.set()

    box = Toolbox(observers=[told])

    @box.tool
    async def wait() -> None:
        """Wait for ever."""
        running.set()
        await asyncio.Event().wait()

    async with Client(wieldy.mcp.server(box), mode=mode) as client:
        calling = asyncio.create_task(client.call_tool("wait"))
        await soon(running)
        calling.cancel()
        await soon(ended)
        assert [outcome.status for outcome in outcomes] == [Status.INTERRUPTED]
        await asyncio.wait((calling,))
        running.clear()
        # The connection goes on.
        assert (await client.list_tools()).tools[0].name == "wait"


async def test_a_client_hears_of_changed_tools_and_groups_on_its_stream(box: Toolbox) -> None:
    box.groups.create("more", active=False)
    async with (
        Client(wieldy.mcp.server(box)) as client,
        client.listen(tools_list_changed=True) as changes,
    ):
        # On another thread, and many at once.
        await asyncio.to_thread(
            lambda: [box.add(lambda: 1, name=f"tool_{n}", group="more") for n in range(50)]
        )
        assert isinstance(await anext(aiter(changes)), ToolsListChanged)
        before = len((await client.list_tools()).tools)
        box.groups.activate("more")
        assert isinstance(await anext(aiter(changes)), ToolsListChanged)
        assert len((await client.list_tools()).tools) == before + 50


async def test_an_older_client_hears_of_changed_tools(box: Toolbox) -> None:
    heard = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    server = wieldy.mcp.server(box)
    async with Client(server, mode="legacy", message_handler=hear) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        await client.list_tools()
        box.remove("half")
        await soon(heard)
    # Nobody is left to tell, and nothing holds on to who was.
    box.remove("fail")
    assert not server.changes._sessions


async def test_thousands_of_tools_come_in_pages_each_once_and_in_order() -> None:
    box = Toolbox()
    for number in range(2_345):
        box.add(lambda: None, name=f"tool_{number}")
    names: list[str] = []
    cursor = None
    async with Client(wieldy.mcp.server(box), cache=None) as client:
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
            # A tool that comes meanwhile appends, and one that goes is not missed.
            box.add(lambda: None, name=f"late_{len(names)}")
            box.remove(names[0]) if names[0] in box else None
        with pytest.raises(MCPError, match="Start without one"):
            await client.list_tools(cursor="bm8gc3VjaCB0b29s")
        with pytest.raises(MCPError, match="Start without one"):
            await client.list_tools(cursor="%%%")

    assert names[:2_345] == [f"tool_{number}" for number in range(2_345)]
    assert names[2_345:] == [name for name in box.names if name.startswith("late_")]


async def test_a_tool_reaches_the_request_that_it_serves(box: Toolbox) -> None:
    @box.tool
    async def client_name() -> str:
        """The name of the client."""
        params = wieldy.mcp.current_request().session.client_params
        return "?" if params is None else params.client_info.name

    async with Client(wieldy.mcp.server(box), mode="legacy") as client:
        assert text_of(await client.call_tool("client_name")) == "mcp"
    outcome = await box.call("client_name")
    assert outcome.text == "LookupError: This call was not made by an MCP client."


async def test_without_tokens_a_call_is_nobodys(box: Toolbox) -> None:
    async with Client(wieldy.mcp.server(box)) as client:
        assert text_of(await client.call_tool("who")) == "[null,null]"


async def test_a_hostile_result_does_not_break_the_answer() -> None:
    box = Toolbox()
    box.add(lambda: "\ud800 \x00", name="text")
    box.add(lambda: {"\ud800": float("nan")}, name="data")
    async with Client(wieldy.mcp.server(box), mode="legacy") as client:
        assert text_of(await client.call_tool("text")) == "\ufffd \x00"
        assert not (await client.call_tool("data")).is_error


async def test_a_secret_argument_is_not_repeated_to_the_client() -> None:
    box = Toolbox()

    @box.tool
    async def login(password: Secret, context: Context) -> str:
        """Log in."""
        await context.progress(1, message=f"with {password.get_secret_value()}")
        return f"hello {password.get_secret_value()}"

    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with Client(wieldy.mcp.server(box)) as client:
        result = await client.call_tool(
            "login", {"password": "correct horse"}, progress_callback=hear
        )

    assert "correct horse" not in text_of(result) + repr(heard)


async def test_two_clients_at_once_get_their_own_answers(box: Toolbox) -> None:
    server = wieldy.mcp.server(box)
    async with Client(server) as one, Client(server, mode="legacy") as other:
        results = await asyncio.gather(
            *(client.call_tool("half", {"a": n}) for n in range(50) for client in (one, other))
        )

    assert [result.structured_content for result in results] == [
        {"half": n // 2} for n in range(50) for _ in range(2)
    ]


async def test_a_server_that_is_ending_refuses_new_calls(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    server = wieldy.mcp.server(box)
    async with Client(server) as client:
        assert await server.traffic.drain(1)
        with pytest.raises(MCPError, match="shutting down"):
            await client.call_tool("half", {"a": 1})
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("mode", MODES)
async def test_a_result_that_was_cut_still_reaches_the_model(mode: Mode) -> None:
    box = Toolbox()

    @box.tool(max_result=50)
    async def much() -> dict[str, str]:
        """Give much."""
        return {"text": "x" * 1000}

    async with Client(wieldy.mcp.server(box), mode=mode) as client:
        result = await client.call_tool("much")

    assert result.is_error and text_of(result).startswith('{"text":"xxx')


@pytest.mark.parametrize("mode", MODES)
async def test_content_and_structured_content_are_bounded_for_a_client(mode: Mode) -> None:
    box = Toolbox()

    @box.tool
    async def rows() -> list[str]:
        """Give many rows."""
        return ["x" * 100] * 50_000

    @box.tool
    async def text() -> str:
        """Give a long text."""
        return "x" * 5_000_000

    @box.tool
    async def shown(context: Context) -> str:
        """Show much on the way."""
        for _ in range(50):
            await context.emit(Text("x" * 100_000))
        return "done"

    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async with Client(wieldy.mcp.server(box), mode=mode) as client:
        results = [
            await client.call_tool(name, progress_callback=hear)
            for name in ("rows", "text", "shown")
        ]

    assert [each.is_error for each in results] == [True, False, False]
    assert results[0].structured_content is None
    for result in results:
        assert len(text_of(result)) <= 100_000
        assert len(repr(result.structured_content)) <= 100_100
    assert sum(map(len, told)) <= 100_000
    assert len((await box.call("rows")).value) == 50_000


@pytest.mark.parametrize("mode", MODES)
async def test_a_view_can_be_served_and_takes_no_decisions(mode: Mode, box: Toolbox) -> None:
    box.add(lambda: None, name="ask", permission="confirm")
    view = box.view(names=["half", "ask"], agent="guest")
    person = Person()
    async with Client(wieldy.mcp.server(view), mode=mode, elicitation_callback=person) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["half", "ask"]
        assert text_of(await client.call_tool("half", {"a": 4})) == '{"half":2}'
        waiting = await client.call_tool("ask")
        (parked,) = await box.pending()

    assert parked.id in text_of(waiting) and person.asked == []
    assert parked.scope.agent == "guest"


async def test_a_call_that_shows_nothing_runs_in_the_task_of_its_request() -> None:
    found: list[str] = []

    async def note_task(active: ActiveCall, proceed: Handler) -> Outcome:
        found.append(getattr(active.task.get_coro(), "__qualname__", ""))
        return await proceed(active)

    box = Toolbox(middleware=[note_task])

    @box.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with Client(wieldy.mcp.server(box)) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})

    assert result.structured_content == {"result": 3}
    # A stream would have made a task of its own for the call.
    assert found and found != ["Engine.run"]


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
@pytest.mark.parametrize("mode", MODES)
async def test_what_is_told_on_the_way_is_bounded_in_all(mode: Mode) -> None:
    box = Toolbox()

    @box.tool
    async def chatter(context: Context) -> str:
        for step in range(30):
            await context.progress(step, 30, "p" * 10_000)
            await context.notice("n" * 10_000, logger="l" * 10_000)
        return "done"

    told: list[str] = []
    steps: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)
        told.append(message or "")

    async def log(params: LoggingMessageNotificationParams) -> None:
        told.append(f"{params.data}{params.logger}")

    async with Client(wieldy.mcp.server(box), mode=mode, logging_callback=log) as client:
        if mode == "legacy":
            await client.session.set_logging_level("info")
        result = await client.call_tool("chatter", progress_callback=hear)

    assert text_of(result) == "done"
    assert len(set(steps)) >= 30, "how far the work has come is told to its end"
    assert 90_000 < sum(map(len, told)) <= 100_000 + 200 * len(told)


@pytest.mark.parametrize("question", ["Really? " * 500_000, "Really?"])
async def test_what_a_client_reads_of_a_call_that_waits_is_bounded(question: str) -> None:
    box = Toolbox()

    @box.tool
    async def ask(context: Context) -> AsyncIterator[str]:
        yield "y" * 3_000_000
        raise InputNeeded.form(question)

    async with Client(wieldy.mcp.server(box), mode="legacy") as client:
        result = await client.call_tool("ask")
    (parked,) = await box.pending()

    said = text_of(result)
    assert result.is_error and parked.id in said and "Really?" in said
    assert len(result.model_dump_json()) < 12_000
    outcome = await box.outcome(parked.id)
    assert len(str(render([await box.results.for_model(outcome)]))) < 12_000
