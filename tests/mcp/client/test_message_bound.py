"""Messages of servers that are larger than their bound."""

import json
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mcp.conftest import SERVERS
from tests.mcp.servers.sized import as_event, sized_app, sized_message
from tests.mcp.web import served
from wieldy import Limits, Status, Toolbox
from wieldy.mcp import Patience
from wieldy.mcp.client.message_bound import BoundedEvents, BoundedMessage, MessageTooLong
from wieldy.mcp.client.patience import MAX_MESSAGE

MAX_COUNT = 2_000_000
TRANSPORTS = ["stdio", "json", "gzip", "events", "sse"]


@contextmanager
def sized(transport: str) -> Iterator[Any]:
    """The source of a server whose answers have the size that is asked for."""
    if transport == "stdio":
        yield [sys.executable, str(SERVERS / "sized.py")]
        return
    with served(sized_app(transport)) as port:
        kind = {"type": "sse"} if transport == "sse" else {}
        yield {"mcpServers": {"sized": {"url": f"http://127.0.0.1:{port}/", **kind}}}


@pytest.fixture(params=TRANSPORTS)
async def bounded(request: pytest.FixtureRequest, box: Toolbox) -> AsyncIterator[Toolbox]:
    with sized(request.param) as source:
        patience = Patience(max_message=MAX_COUNT)
        await box.add_mcp(source, "sized", patience=patience, limits=Limits(timeout=60))
        yield box
        await box.remove_mcp("sized")


@pytest.mark.parametrize("lines", [1, 1000])
@pytest.mark.parametrize("form", ["head", "tail"])
async def test_a_message_over_its_bound_is_an_error_and_the_next_call_works(
    bounded: Toolbox, lines: int, form: str
) -> None:
    for size in (MAX_COUNT, MAX_COUNT + 1, MAX_COUNT - 1, MAX_COUNT * 3):
        asked = {"size": size, "lines": lines, "form": form}
        outcome = await bounded.call("give", asked)

        if size > MAX_COUNT:
            assert outcome.status is Status.ERROR
            assert "its answer has more than 2,000,000 bytes" in outcome.text
        else:
            assert outcome.status is Status.OK, outcome.text
            assert len(outcome.text) > MAX_COUNT - 100 - 40 * lines
    assert bounded.mcp["sized"].error is None


@pytest.mark.parametrize("transport", ["stdio", "events", "sse"])
async def test_the_bound_is_32_mb_unless_another_is_set(box: Toolbox, transport: str) -> None:
    assert Patience().max_message == MAX_MESSAGE == 32 * 1024 * 1024
    with sized(transport) as source:
        await box.add_mcp(source, "sized", limits=Limits(timeout=120))

        inside = await box.call("give", {"size": MAX_MESSAGE - 1, "lines": 1000})
        beyond = await box.call("give", {"size": MAX_MESSAGE + 1, "lines": 1000})

        assert inside.ok
        assert "its answer has more than 33,554,432 bytes" in beyond.text
        await box.remove_mcp("sized")


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    """Hold how much memory Python takes at any moment meanwhile."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


@pytest.mark.parametrize("form", ["head", "tail"])
async def test_memory_does_not_grow_with_a_message(box: Toolbox, form: str) -> None:
    with sized("stdio") as source:
        patience = Patience(max_message=MAX_COUNT)
        await box.add_mcp(source, "sized", patience=patience, limits=Limits(timeout=60))

        with memory_below(4 * MAX_COUNT):
            long = await box.call("give", {"size": MAX_COUNT * 15, "form": form})

        assert "more than 2,000,000 bytes" in long.text
        await box.remove_mcp("sized")


@pytest.mark.parametrize("line", [b"data: " + b"x" * 50_000, b"data: x\n" * 600])
def test_memory_does_not_grow_with_an_event(line: bytes) -> None:
    most = MAX_COUNT // 10
    events = BoundedEvents(most, lambda: 7)

    with memory_below(4 * most):
        passed = sum(len(events.feed(line)) for _ in range(most * 15 // len(line)))

    assert passed < most


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "32MB"])
def test_a_bound_that_can_not_be_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="max_message"):
        Patience(max_message=wrong)  # type: ignore[arg-type]


def feed_all(events: BoundedEvents, data: bytes, cuts: list[int]) -> bytes:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return b"".join(events.feed(data[a:b]) for a, b in pairwise(places))


def read_events(data: bytes) -> list[httpx2.ServerSentEvent]:
    response = httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, content=data, request=REQUEST
    )
    return list(httpx2.EventSource(response, max_event_size=None))


REQUEST = httpx2.Request("GET", "http://localhost/")
FIELDS = st.sampled_from(
    [
        "data: a",
        "data:b",
        "data",
        "data: ",
        ": ping",
        "id: 7",
        "retry: 9",
        "event: x",
        "",
        "odd",
        "data:  c",
    ]
)


@given(
    st.lists(FIELDS, max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_events_within_the_bound_are_what_they_were(
    lines: list[str], end: str, cuts: list[int]
) -> None:
    data = "".join(line + end for line in [*lines, ""]).encode()

    passed = feed_all(BoundedEvents(100), data, cuts)

    assert [each.data for each in read_events(passed)] == [each.data for each in read_events(data)]
    assert [each.event for each in read_events(passed)] == [
        each.event for each in read_events(data)
    ]


@given(st.integers(200, 400), st.integers(1, 4), st.lists(st.integers(0, 500), max_size=8))
def test_only_the_event_that_is_too_long_is_replaced(
    size: int, lines: int, cuts: list[int]
) -> None:
    small = sized_message(1, 190, 1)
    data = as_event(small) + as_event(sized_message("two", size, lines)) + as_event(small)

    found = read_events(feed_all(BoundedEvents(300), data, cuts))

    said = [json.loads(each.data) for each in found if each.data]
    assert [each["id"] for each in said] == [1, "two", 1]
    assert ("error" in said[1]) == (size > 300)


@pytest.mark.parametrize(
    "head",
    [b'{"jsonrpc":"2.0","method":"ping","id":5,', b'{"id":5, "method" : "x",', b'{"method":"n",'],
)
def test_a_request_or_notification_that_is_too_long_is_passed_over(head: bytes) -> None:
    message = BoundedMessage(100)

    assert message.add(head) is None
    assert message.add(b'"params":{"a":"' + b"x" * 5000) is None
    assert message.add(b'"}}') is None
    assert message.end() == b""
    message.add(b"{}")
    assert message.end() == b"{}"


@pytest.mark.parametrize(
    "torn",
    [b'{"result":{"id":7,"a":"', b'{"result":{"a":"\\",\\"id\\":7}', b'{"x":[{"id":7}],"y":"'],
)
def test_an_id_inside_a_result_is_not_taken_for_that_of_the_answer(torn: bytes) -> None:
    message = BoundedMessage(100)
    assert message.add(torn) is None
    assert message.add(b"x" * 3000) is None

    with pytest.raises(MessageTooLong):
        message.add(b'"}}')
        message.end()


def test_bytes_that_are_no_message_and_never_end_are_not_waited_for() -> None:
    with pytest.raises(MessageTooLong, match="more than 100 bytes"):
        BoundedMessage(100).add(b"x" * 101)
    message = BoundedMessage(100)
    message.add(b'{"result":"' + b"x" * 100)
    with pytest.raises(MessageTooLong):
        for _ in range(20):
            message.add(b"x" * 100)
