"""The application: one door, several rooms."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from tests.mcp.clients import connected, text_of
from tests.mcp.served import served
from wieldy import Toolbox
from wieldy.server import app, run

TOKENS = {"alice": "alice-secret-1"}
ALICE = {"Authorization": "Bearer alice-secret-1"}
MODERN = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/list",
}
LISTING: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}


def make_box(**options: Any) -> Toolbox:
    box = Toolbox(**options)
    box.add(lambda: "hello", name="greet")
    return box


@asynccontextmanager
async def http(
    made: Starlette, peer: str = "127.0.0.1", base: str = "http://localhost"
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a running application, from some address."""
    transport = httpx2.ASGITransport(app=made, client=(peer, 4321))
    async with (
        made.router.lifespan_context(made),
        httpx2.AsyncClient(transport=transport, base_url=base) as client,
    ):
        yield client


async def test_the_application_serves_mcp_and_health() -> None:
    async with http(app(make_box(), TOKENS)) as client:
        listed = await client.post("/mcp", json=LISTING, headers={**MODERN, **ALICE})
        refused = await client.post("/mcp", json=LISTING, headers=MODERN)
        health = await client.get("/health")

    assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["greet"]
    assert refused.status_code == 401
    assert health.json() == {"status": "ok"}


async def test_the_application_can_be_started_again() -> None:
    made = app(make_box())
    for _ in range(2):
        async with http(made) as client:
            assert (await client.post("/mcp", json=LISTING, headers=MODERN)).status_code == 200


@pytest.mark.parametrize(
    ("peer", "options", "status"),
    [
        ("192.0.2.7", {}, 403),
        ("::ffff:192.0.2.7", {}, 403),
        ("fe80::1", {}, 403),
        ("::1", {}, 200),
        ("::ffff:127.0.0.1", {}, 200),
        ("127.8.9.1", {}, 200),
        ("192.0.2.7", {"anonymous": True}, 200),
    ],
)
async def test_without_tokens_another_machine_is_refused(
    peer: str, options: Any, status: int
) -> None:
    async with http(app(make_box(), **options), peer) as client:
        answer = await client.post("/mcp", json=LISTING, headers=MODERN)

    assert answer.status_code == status


async def test_any_host_and_origin_can_be_let_in() -> None:
    made = app(make_box(), TOKENS, hosts=["*"], origins=["*"])
    async with http(made, "192.0.2.7", "http://anything.example") as client:
        sent = {**MODERN, **ALICE, "Origin": "https://page.example"}
        assert (await client.post("/mcp", json=LISTING, headers=sent)).status_code == 200


async def test_a_store_that_is_gone_makes_the_server_unready(tmp_path: Path) -> None:
    store = tmp_path / "wieldy.db"
    box = make_box(store=f"sqlite:///{store}")
    async with box, http(app(box)) as client:
        assert (await client.get("/health")).json()["store"] == "ok"
    store.write_bytes(b"this is no database" * 1000)
    box = make_box(store=f"sqlite:///{store}")
    async with box, http(app(box)) as client:
        health = await client.get("/health")
        assert (health.status_code, health.json()["store"]) == (503, "unreachable")
        assert (await client.get("/health/live")).status_code == 200


async def test_an_application_that_was_not_started_says_so() -> None:
    transport = httpx2.ASGITransport(app=app(make_box()))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        with pytest.raises(RuntimeError, match="lifespan"):
            await client.post("/mcp", json=LISTING, headers=MODERN)


@pytest.mark.parametrize("wrong", ["localhost", "https://app.example"])
def test_one_host_is_not_a_list_of_letters(wrong: str) -> None:
    with pytest.raises(TypeError, match="lists of names"):
        app(make_box(), hosts=wrong)
    with pytest.raises(TypeError, match="lists of names"):
        app(make_box(), origins=wrong)


@pytest.mark.parametrize(("headers", "accepted"), [({}, False), (ALICE, True)])
async def test_the_door_is_the_same_for_websockets(headers: dict[str, str], accepted: bool) -> None:
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close()

    made = app(make_box(), TOKENS)
    made.router.routes.append(WebSocketRoute("/live", echo))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "path": "/live", "headers": [(b"host", b"localhost"), *raw]}
    await made({**scope, "client": ("127.0.0.1", 1), "query_string": b""}, receive, send)

    assert sent == (["websocket.accept", "websocket.close"] if accepted else ["websocket.close"])


async def test_the_application_runs_as_a_server_of_its_own() -> None:
    with served(make_box(), run, tokens=TOKENS) as url:
        async with connected(url, "alice-secret-1") as client:
            assert text_of(await client.call_tool("greet")) == "hello"
