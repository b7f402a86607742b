"""The server over HTTP: whom it lets in, whose calls are whose, and what it refuses."""

import asyncio
import contextlib
import gc
import http.client
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn
from mcp import Client, MCPError
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult, InputResponses

from tests.mcp.clients import MODES, Mode, Person, connected, soon, text_of
from tests.mcp.served import served
from wieldy import Context, Status, Toolbox
from wieldy.mcp import serve, server
from wieldy.mcp.serving.slow_clients import Patient
from wieldy.server import app

TOKENS = {"alice": "alice-secret-1", "bob": "bob-secret-2"}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def make_box(**options: Any) -> Toolbox:
    box = Toolbox(**options)

    @box.tool(tags={"math"})
    async def half(a: int) -> int:
        """Half of it."""
        return a // 2

    @box.tool
    async def who(context: Context) -> list[str | None]:
        """Who calls."""
        return [context.scope.agent, context.scope.session]

    @box.tool(permission="confirm")
    async def wipe(path: str) -> str:
        """Wipe it."""
        return f"wiped {path}"

    return box


@pytest.fixture
def box() -> Toolbox:
    return make_box()


@pytest.fixture
def url(box: Toolbox) -> Iterator[str]:
    with served(box) as address:
        yield address


@pytest.fixture
def guarded(box: Toolbox) -> Iterator[str]:
    views = {"bob": box.view(tags="math")}
    with served(box, tokens=TOKENS, views=views) as address:
        yield address


def post(url: str, headers: dict[str, str] | None = None, body: Any = HELLO) -> httpx2.Response:
    """One request, as it is."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx2.post(url, content=content, headers={**HEADERS, **(headers or {})}, timeout=120)


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_lists_and_calls_over_http(mode: Mode, url: str) -> None:
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with connected(url, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["half", "who", "wipe"]
        assert text_of(await client.call_tool("half", {"a": 8}, progress_callback=hear)) == "4"
        with pytest.raises(MCPError, match="There is no tool"):
            await client.call_tool("none")


@pytest.mark.parametrize("mode", MODES)
async def test_many_clients_at_once(mode: Mode, url: str) -> None:
    async def use(number: int) -> str:
        async with connected(url, mode=mode) as client:
            return text_of(await client.call_tool("half", {"a": number}))

    assert await asyncio.gather(*map(use, range(0, 20, 2))) == [str(n) for n in range(10)]


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_has_a_name_and_a_view(mode: Mode, guarded: str) -> None:
    async with connected(guarded, "alice-secret-1", mode) as client:
        assert len((await client.list_tools()).tools) == 3
        assert text_of(await client.call_tool("who")) == '["alice","alice"]'
    async with connected(guarded, "bob-secret-2", mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["half"]
        assert text_of(await client.call_tool("half", {"a": 4})) == "2"
        with pytest.raises(MCPError, match="There is no tool named 'who'"):
            await client.call_tool("who")


@pytest.mark.parametrize("mode", MODES)
async def test_who_approved_is_known(mode: Mode) -> None:
    decided: list[str | None] = []
    box = make_box(
        observers=[lambda o: decided.append(o.call.decision.by) if o.call.decision else None]
    )
    with served(box, tokens=TOKENS) as url:
        async with connected(url, "alice-secret-1", mode, elicitation_callback=Person()) as client:
            assert text_of(await client.call_tool("wipe", {"path": "a"})) == "wiped a"
    assert decided == ["alice, answered in the client"]


async def test_a_question_is_for_the_token_that_was_asked(guarded: str) -> None:
    call = "wipe", {"path": "a"}
    yes: InputResponses = {"approve": ElicitResult(action="accept", content={"approve": True})}
    async with (
        connected(guarded, "alice-secret-1", elicitation_callback=Person()) as alice,
        connected(guarded, "bob-secret-2", elicitation_callback=Person()) as bob,
    ):
        asked = await alice.session.call_tool(*call, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        state = asked.request_state
        with pytest.raises(MCPError, match="requestState"):
            await bob.session.call_tool(*call, input_responses=yes, request_state=state)
        result = await alice.session.call_tool(*call, input_responses=yes, request_state=state)
        assert isinstance(result, CallToolResult) and text_of(result) == "wiped a"


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer alice-secret-"},
        {"Authorization": "Bearer alice-secret-11"},
        {"Authorization": "Basic alice-secret-1"},
        {"Authorization": "alice-secret-1"},
        {"Authorization": "Bearer alice"},
        {"Authorization": "Bearer " + "a" * 8000},
    ],
)
def test_without_the_right_token_nobody_comes_in(sent: dict[str, str], guarded: str) -> None:
    answer = post(guarded, sent)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert post(guarded, {"Authorization": "bearer  alice-secret-1"}).status_code == 200


def test_a_session_belongs_to_the_token_that_opened_it(guarded: str) -> None:
    alice = {"Authorization": "Bearer alice-secret-1"}
    bob = {"Authorization": "Bearer bob-secret-2"}
    session = post(guarded, alice).headers["mcp-session-id"]
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    assert post(guarded, {**alice, "mcp-session-id": session}, told).status_code == 202
    assert post(guarded, {**alice, "mcp-session-id": session}, listing).status_code == 200
    assert post(guarded, {**bob, "mcp-session-id": session}, listing).status_code == 404
    assert (
        httpx2.delete(guarded, headers={**bob, **HEADERS, "mcp-session-id": session}).status_code
        == 404
    )
    assert post(guarded, {**alice, "mcp-session-id": session}, listing).status_code == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8000"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "localhost@evil.example"}, 421),
        ({"Host": "[::1].evil.example"}, 421),
        ({"Host": "evil.example:localhost"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "LOCALHOST:1"}, 200),
        ({"Host": "localhost.:1"}, 200),
        ({"Host": "[::1]:1"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://localhost@evil.example"}, 403),
        ({"Origin": "http://evil.example#localhost"}, 403),
        ({"Origin": "file://localhost"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://127.0.0.1"}, 200),
    ],
)
def test_strange_hosts_and_pages_are_refused(sent: dict[str, str], status: int, url: str) -> None:
    assert post(url, sent).status_code == status


def test_hosts_and_origins_can_be_allowed() -> None:
    with served(make_box(), hosts=["tools.example"], origins=["https://app.example"]) as url:
        assert post(url, {"Host": "tools.example"}).status_code == 200
        assert post(url, {"Origin": "https://app.example"}).status_code == 200
        assert post(url, {"Origin": "https://tools.example"}).status_code == 200
        assert post(url, {"Origin": "https://app.example:444"}).status_code == 403
        assert post(url, {"Host": "app.example"}).status_code == 421


def test_two_host_headers_are_refused(url: str) -> None:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)
    connection.putrequest("POST", "/mcp", skip_host=True)
    connection.putheader("Host", "localhost")
    connection.putheader("Host", "evil.example")
    connection.putheader("Content-Length", "0")
    connection.endheaders()
    assert connection.getresponse().status in (400, 421)
    connection.close()


def test_too_large_a_body_is_refused_before_it_is_read() -> None:
    with served(make_box(), max_body=2000) as url:
        assert post(url, body=b"[" * 2001).status_code == 413
        assert post(url, body=b"[" * 1999).status_code == 400
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)
        connection.putrequest("POST", "/mcp")
        connection.putheader("Content-Length", "9" * 15)
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()
        # Without a length too: in pieces, until it is too much.
        pieces = (b"x" * 100 for _ in range(30))
        assert httpx2.post(url, content=pieces, headers=HEADERS).status_code == 413
        assert post(url).status_code == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b"1e999"])
def test_what_is_no_message_is_refused(body: bytes, url: str) -> None:
    assert 400 <= post(url, body=body).status_code < 500
    modern = {"mcp-protocol-version": "2026-07-28"}
    assert 400 <= post(url, modern, body=body).status_code < 500
    assert post(url).status_code == 200


def test_health_is_for_everybody_and_tells_more_to_those_who_may_know(guarded: str) -> None:
    health = guarded.replace("/mcp", "/health")
    alice = {"Authorization": "Bearer alice-secret-1"}

    assert httpx2.get(f"{health}/live", headers={"Host": "10.0.0.7"}).json() == {"status": "ok"}
    assert httpx2.get(health).json() == {"status": "ok"}
    assert httpx2.get(health, headers=alice).json() == {
        "status": "ok",
        "draining": False,
        "starting": False,
        "running": 0,
        "store": "none",
        "upstreams": {},
    }
    foreign = httpx2.get(health, headers={**alice, "Host": "evil.example"})
    assert foreign.json() == {"status": "ok"}, "a page may call any address under its own name"
    assert httpx2.get(guarded.replace("/mcp", "/elsewhere")).status_code == 401
    assert httpx2.get(guarded.replace("/mcp", "/health/../mcp")).status_code == 401


async def test_without_tokens_only_this_machine_is_served(box: Toolbox) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.com"):
        with pytest.raises(ValueError, match="Without tokens only this machine is served"):
            await serve(box, port=0, host=host)


@pytest.mark.parametrize(
    "tokens", [{}, {"a": ""}, {"": "x"}, {"a": "same", "b": "same"}, {"a": "ü"}, {"a": "x\n"}]
)
async def test_tokens_that_could_not_work_are_refused(tokens: dict[str, str], box: Toolbox) -> None:
    with pytest.raises(ValueError, match=r"[Tt]oken"):
        await serve(box, port=0, tokens=tokens)


async def test_a_view_needs_a_token_of_its_name(box: Toolbox) -> None:
    with pytest.raises(ValueError, match="carol"):
        await serve(box, port=0, tokens=TOKENS, views={"carol": box.view()})


async def test_a_taken_port_is_an_error_and_not_an_exit(box: Toolbox) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, pytest.raises(OSError, match="in use"):
        await serve(box, port=taken.getsockname()[1])


async def test_a_client_hears_of_changes_over_http(box: Toolbox, url: str) -> None:
    async with connected(url) as client, client.listen(tools_list_changed=True) as changes:
        box.add(lambda: 1, name="more")
        await anext(aiter(changes))
        assert "more" in [tool.name for tool in (await client.list_tools()).tools]


async def test_one_server_object_serves_memory_and_http_alike(box: Toolbox) -> None:
    made = server(box, name="both")
    with served(made) as url:
        async with connected(url) as client:
            assert text_of(await client.call_tool("half", {"a": 2})) == "1"
    async with Client(made) as client:
        assert client.server_info is not None and client.server_info.name == "both"


@pytest.mark.parametrize("mode", MODES)
async def test_requests_that_are_given_up_leave_nothing_behind(mode: Mode) -> None:
    ended = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()
    box = Toolbox(
        observers=[
            lambda outcome: (
                loop.call_soon_threadsafe(ended.release)
                if outcome.status is Status.INTERRUPTED
                else None
            )
        ]
    )

    @box.tool
    async def wait(context: Context) -> None:
        """Wait for ever."""
        await context.progress(1)
        await asyncio.Event().wait()

    made = server(box)

    async def give_up(client: Client) -> None:
        started = asyncio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            started.set()

        task = asyncio.create_task(client.call_tool("wait", progress_callback=hear))
        await soon(started)
        task.cancel()
        await asyncio.wait((task,))

    with served(made) as url:
        async with connected(url, mode=mode) as client:
            await asyncio.gather(*(give_up(client) for _ in range(20)))
            async with asyncio.timeout(120):
                for _ in range(20):
                    await ended.acquire()
                while made.traffic.running:
                    await client.list_tools()


class Hasty(Patient):
    """The server's connection, with less patience."""

    seconds = 0.2


@asynccontextmanager
async def hastily_served(application: Any) -> AsyncIterator[tuple[str, int]]:
    """The address of an application on such connections."""
    settings = uvicorn.Config(
        application, http=Hasty, lifespan="off", log_config=None, access_log=False
    )
    web = uvicorn.Server(settings)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        serving = asyncio.create_task(web._serve(sockets=[bound]))
        async with asyncio.timeout(120):
            yield bound.getsockname()
            web.should_exit = True
            await serving


async def test_a_connection_that_never_asks_is_closed() -> None:
    async def hello(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with hastily_served(hello) as address:
        reader, writer = await asyncio.open_connection(*address)
        half = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(half + b"\r\n" + half)
        assert (await reader.readline()).startswith(b"HTTP/1.1 204")
        # The second request never ends its head.
        await reader.read()
        writer.close()


async def test_a_body_with_two_lengths_is_refused_and_its_connection_closed() -> None:
    with served(make_box()) as url:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + head)
        said = await reader.read()
        writer.close()
    assert said.startswith(b"HTTP/1.1 400")
    assert said.count(b"HTTP/1.1") == 1
    assert b"connection: close" in said.lower()


async def test_a_connection_is_kept_between_requests_for_longer_than_proxies_keep_it() -> None:
    with served(make_box()) as url:
        async with httpx2.AsyncClient() as http:
            await http.get(url.replace("/mcp", "/health/live"))
            [kept] = [each for each in gc.get_objects() if type(each) is Patient]
            assert kept.timeout_keep_alive == 75
            # When it looks for clients that do nothing, this one is left alone.
            kept.loop.call_soon_threadsafe(kept._check_idle)
            kept.loop.call_soon_threadsafe(kept._check_idle)
            assert (await http.get(url.replace("/mcp", "/health/live"))).status_code == 200
            assert not kept.transport.is_closing()


@pytest.mark.parametrize("pieces", [1, 200])
async def test_a_client_that_stops_reading_is_cut_off(pieces: int) -> None:
    ended = asyncio.Event()

    async def long(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(pieces):
                body = b"x" * (100_000_000 // pieces)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            await receive()
        finally:
            ended.set()

    async with hastily_served(long) as address:
        with socket.create_connection(address) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await soon(ended)


def test_an_answer_in_pieces_does_not_wait_for_the_clients_kernel() -> None:
    with served(make_box()) as url:
        address = urlsplit(url)
        with socket.create_connection((str(address.hostname), int(address.port or 0))) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(100)
            accepted = find_accepted(client)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            accepted.close()


def find_accepted(client: socket.socket) -> socket.socket:
    """The other end of a connection, which is in this process too."""
    for name in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            # It is no socket.
            continue
        with contextlib.suppress(OSError):
            if found.family == client.family and found.getpeername() == client.getsockname():
                return found
        found.close()
    raise AssertionError("the server has not accepted the connection")


async def test_one_session_too_many_is_told_when_to_come_back() -> None:
    with served(make_box(), max_sessions=2) as url:
        async with httpx2.AsyncClient(headers=HEADERS, timeout=120) as http:
            first, _, third = [await http.post(url, json=HELLO) for _ in range(3)]
            async with connected(url) as client:
                half = await client.call_tool("half", {"a": 8})
            await http.delete(url, headers={"mcp-session-id": first.headers["mcp-session-id"]})
            fourth = await http.post(url, json=HELLO)

    assert (first.status_code, third.status_code) == (200, 503)
    assert int(third.headers["retry-after"]) > 0
    assert text_of(half) == "4", "a client that holds no session is not counted"
    assert fourth.status_code == 200, "a session that ended makes room"


async def test_a_session_that_nobody_uses_ends_and_makes_room() -> None:
    with served(make_box(), max_sessions=1, session_idle=0.2) as url:
        async with httpx2.AsyncClient(headers=HEADERS, timeout=120) as http:
            first = await http.post(url, json=HELLO)
            async with asyncio.timeout(120):
                while (await http.post(url, json=HELLO)).status_code == 503:
                    pass

    assert first.status_code == 200


@pytest.mark.parametrize("option", ["max_sessions", "session_idle"])
async def test_a_limit_of_nothing_is_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must be above 0"):
        app(make_box(), **{option: 0})  # type: ignore[arg-type]
