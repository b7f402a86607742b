"""Requests and results with very many values: bounded at the doors, and nobody else waits."""

import asyncio
import gc
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import httpx2
import pytest
from pydantic import BeforeValidator

from tests.mcp.served import served
from wieldy import Call, Status, Toolbox
from wieldy.mcp.serving.body_values import MAX_VALUES
from wieldy.server import run

TOKEN = "a-token-for-these-tests"
SMALL_LISTS = 400_000
MESSAGE = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "give",
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


# Four megabytes of each, or as many values as a request may have.
MAX_COUNT: dict[str, Callable[[], Any]] = {
    "values": lambda: [[]] * (MAX_VALUES // 2 - 10),
    "keys": lambda: {f"{number:060}": number for number in range(MAX_VALUES - 50)},
    "depth": lambda: [nested(90)] * (MAX_VALUES // 2 // 91),
    "text": lambda: 'a, "b" \\ [' * 300_000,
    "long numbers": lambda: [10**4_000 + 1] * 10 + ["1" * 3_000_000],
    "one key": lambda: {"k" * 3_900_000: 1},
}
TOO_MANY: dict[str, Callable[[], Any]] = {
    "values": lambda: [[]] * SMALL_LISTS,
    "keys": lambda: {str(number): 1 for number in range(SMALL_LISTS // 2)},
    "depth": lambda: [nested(90)] * 20_000,
    "numbers": lambda: [0] * (MAX_VALUES + 1),
    "digits": lambda: [10**4_000 + 1] * 950,
}


def make_box(**settings: Any) -> Toolbox:
    box = Toolbox(**settings)

    @box.tool(permission="confirm")
    def wipe(a: Any) -> int:
        """Wipe it."""
        return 1

    @box.tool
    def give(a: Any) -> Any:
        """Give it back."""
        return a

    @box.tool
    def make(count: int) -> Any:
        """Make many small lists."""
        return [[] for _ in range(count)]

    return box


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    box = make_box(store=f"sqlite:///{tmp_path}/store.db")
    with served(box, run, tokens={"ann": TOKEN}) as url:
        headers = {"authorization": f"Bearer {TOKEN}"}
        base = url.removesuffix("/mcp")
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=120) as client:
            yield client


async def post(
    client: httpx2.AsyncClient, path: str, body: Any, method: str = "POST"
) -> httpx2.Response:
    """Send JSON as it takes the fewest bytes."""
    content = json.dumps(body, separators=(",", ":")).encode()
    headers = {"content-type": "application/json"}
    return await client.request(method, path, content=content, headers=headers)


async def post_mcp(client: httpx2.AsyncClient, value: Any) -> httpx2.Response:
    params = {"name": "give", "arguments": {"a": value}, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    content = json.dumps(body, separators=(",", ":")).encode()
    return await client.post("/mcp", content=content, headers=MESSAGE)


async def while_others_ask(
    client: httpx2.AsyncClient, work: Coroutine[Any, Any, httpx2.Response]
) -> tuple[httpx2.Response, int]:
    """The answer to a request, and how often others asked meanwhile whether the server lives."""
    task, times = asyncio.create_task(work), 0
    while not task.done():
        assert (await client.get("/health/live")).status_code == 200
        times += 1
    return task.result(), times


@pytest.mark.parametrize("kind", TOO_MANY)
async def test_too_many_values_are_refused_at_every_door_and_nothing_is_kept(
    client: httpx2.AsyncClient, kind: str
) -> None:
    value = TOO_MANY[kind]()
    parked = (await post(client, "/api/calls", {"tool": "wipe", "arguments": {"a": 1}})).json()
    place = f"/api/pending/{parked['call_id']}"
    bodies = {
        "/api/calls": {"tool": "wipe", "arguments": {"a": value}},
        "/api/check-arguments": {"tool": "wipe", "arguments": {"a": value}},
        f"{place}/approve": {"arguments": {"a": value}},
        f"{place}/answer": {"answers": {"a": value}},
        "/api/explain": {"tool": "wipe", "arguments": {"a": value}},
        "/api/rules": {"verdict": "deny", "pattern": "x", "where": {"a": value}},
    }
    answers = [await post(client, path, body) for path, body in bodies.items()]
    answers.append(await post_mcp(client, value))
    # A stream would answer for ever, also where nobody reads the body.
    answers.append(await post(client, "/api/events", {"a": value}, "GET"))

    assert [each.status_code for each in answers] == [413] * len(answers)
    assert all("50,000 values" in each.text and "`max_values`" in each.text for each in answers)
    assert len((await client.get("/api/pending")).json()["pending"]) == 1


@pytest.mark.parametrize("kind", MAX_COUNT)
async def test_the_worst_that_comes_in_is_parked_and_read_while_others_are_answered(
    client: httpx2.AsyncClient, kind: str
) -> None:
    value = MAX_COUNT[kind]()
    body = {"tool": "wipe", "arguments": {"a": value}}

    parked, times = await while_others_ask(client, post(client, "/api/calls", body))
    assert (parked.status_code, times > 1) == (200, True), parked.text[:500]
    place = f"/api/pending/{parked.json()['call_id']}"
    for path in (f"{place}?whole=true", "/api/pending"):
        read, times = await while_others_ask(client, client.get(path))
        assert (read.status_code, times > 0) == (200, True)
    shown = (await client.get(f"{place}?whole=true")).json()["arguments"]
    assert shown == {"a": value}
    given, _ = await while_others_ask(client, post_mcp(client, value))
    assert (given.status_code, '"isError":true' in given.text) == (200, False)


async def test_a_result_of_any_size_is_given_whole_while_others_are_answered(
    client: httpx2.AsyncClient,
) -> None:
    body = {"tool": "make", "arguments": {"count": SMALL_LISTS}}
    made = (await post(client, "/api/calls", body)).json()
    place = f"/api/calls/{made['call_id']}"

    whole, times = await while_others_ask(client, client.get(f"{place}?whole=true"))
    assert (whole.status_code, times > 1) == (200, True)
    assert len(whole.json()["value"]) == SMALL_LISTS
    raw, times = await while_others_ask(client, client.get(f"{place}/raw/value"))
    assert (len(raw.json()), times > 1) == (SMALL_LISTS, True)


async def test_the_bound_is_a_setting_and_programs_have_none(tmp_path: Path) -> None:
    box = make_box()
    outcome = await box.call("give", {"a": [0] * (MAX_VALUES + 1)})
    assert (outcome.status, len(outcome.value)) == (Status.OK, MAX_VALUES + 1)

    for most, status in ((20, 413), (30, 200), (None, 200)):
        with served(make_box(), run, max_values=most) as url:
            async with httpx2.AsyncClient(base_url=url.removesuffix("/mcp")) as client:
                body = {"tool": "give", "arguments": {"a": [0] * 20}}
                assert (await post(client, "/api/calls", body)).status_code == status
                quoted = {"tool": "give", "arguments": {"a": "[,{" * 20}}
                assert (await post(client, "/api/calls", quoted)).status_code == 200
    with pytest.raises(ValueError, match="max_values must be above 0"):
        await run(box, max_values=0)


class Noted:
    """It writes down in which thread it is read."""

    def __init__(self, threads: set[int]) -> None:
        self._threads = threads

    def __repr__(self) -> str:
        self._threads.add(threading.get_ident())
        return "noted"


async def test_large_arguments_are_accepted_and_large_results_written_off_the_loop(
    tmp_path: Path,
) -> None:
    accepted: list[int] = []
    written: set[int] = set()

    def note(given: Any) -> Any:
        accepted.append(threading.get_ident())
        return given

    async with Toolbox(store=f"sqlite:///{tmp_path}/store.db") as box:

        @box.tool(isolation="inline")
        def take(items: Annotated[list[Any], BeforeValidator(note)]) -> Any:
            return [Noted(written), *items]

        await box.call("take", {"items": [0]})
        assert set(accepted) == written == {threading.get_ident()}
        for items in ([0] * 5_000, ["x" * 200_000], [10**4_000] * 100):
            accepted.clear()
            written.clear()
            done = await box.call("take", {"items": items})
            assert done.status is Status.OK
            assert threading.get_ident() not in {*accepted, *written}
            assert accepted != [] != [*written]
            kept = await box.ledger.get(done.call.id)
            assert kept is not None and kept.value == ["noted", *items]


async def test_a_large_result_is_recorded_although_its_caller_left_while_it_was_written(
    tmp_path: Path,
) -> None:
    begun, go = threading.Event(), threading.Event()

    class Slow:
        def __repr__(self) -> str:
            begun.set()
            assert go.wait(120)
            return "slow"

    async with Toolbox(store=f"sqlite:///{tmp_path}/store.db") as box:

        @box.tool(isolation="inline")
        def give() -> Any:
            return [Slow(), *[0] * 5_000]

        call = Call("give", {})
        task = asyncio.create_task(box.call(call))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        entry = await box.ledger.get(call.id)
        assert entry is not None and (entry.status, entry.value[0]) == (Status.OK, "slow")


async def test_the_garbage_collector_passes_over_what_was_loaded_while_a_box_is_served() -> None:
    before = gc.get_freeze_count()
    with served(make_box(), run):
        assert gc.get_freeze_count() > before
    assert gc.get_freeze_count() == before
