"""Answers that last end with the token, the session, the roles and the view of their receiver."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcp.clients import Person, connected, text_of
from tests.mcp.served import served
from tests.server.api.api_client import make_box
from tests.server.test_app import LISTING, MODERN, http
from wieldy import Toolbox
from wieldy.core.choices import Role
from wieldy.mcp.serving import held_answers
from wieldy.mcp.serving.callers import Identity
from wieldy.server import app, run
from wieldy.server.api.event_stream import KEPT_STREAMS, MAX_OF_ONE, MAX_STREAMS

OLD = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Desk:
    """Knows people by their names, which are their tokens, and what they may do now."""

    def __init__(self) -> None:
        self.known: dict[str, Identity] = {}

    def add(self, name: str, *roles: Role, **more: Any) -> dict[str, str]:
        """The header of somebody who may come in."""
        self.known[name] = Identity(name, frozenset(roles), **more)
        return {"Authorization": f"Bearer {name}"}

    async def identify(self, token: str) -> Identity | None:
        """Who it is, at this time."""
        return self.known.get(token)


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern(method: str, **params: Any) -> dict[str, Any]:
    """A request of the newer protocol, for httpx."""
    sent = rpc(method, **LISTING["params"], **params)
    named = {"Mcp-Name": params["name"]} if "name" in params else {}
    return {"json": sent, "headers": {**MODERN, "Mcp-Method": method, **named}}


CHANGES: list[Callable[[Desk], Any]] = [
    lambda desk: desk.known.pop("ann"),
    lambda desk: desk.add("ann", "call"),
    lambda desk: desk.add("ann", "call", "approve", "administer"),
    lambda desk: desk.add("ann", "call", "approve", view="sums"),
]


@pytest.mark.parametrize("change", CHANGES)
async def test_an_event_stream_ends_with_what_its_reader_was(
    change: Callable[[Desk], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_answers, "LOOK_SECONDS", 0.05)
    desk, box = Desk(), make_box(tmp_path)
    ann = desk.add("ann", "call", "approve")
    async with http(app(box, identifiers=[desk])) as client:
        stream = asyncio.create_task(client.get("/api/events", headers=ann, timeout=120))
        # Two looks find nothing new.
        await asyncio.wait((stream,), timeout=0.2)
        assert not stream.done()
        change(desk)
        async with asyncio.timeout(120):
            answer = await stream
    await box.close()
    assert answer.status_code == 200 and "event: hello" in answer.text


async def test_nothing_is_sent_to_somebody_who_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_answers, "_FRESH_SECONDS", 0.0)
    monkeypatch.setattr(held_answers, "LOOK_SECONDS", 300.0)
    desk, box = Desk(), make_box(tmp_path)
    ann = desk.add("ann", "call")
    proceed, entered = asyncio.Event(), asyncio.Event()

    @box.tool
    async def wait() -> str:
        entered.set()
        await proceed.wait()
        return "the secret"

    async with http(app(box, identifiers=[desk])) as client:
        body = {"tool": "wait"}
        calling = asyncio.create_task(client.post("/api/calls", json=body, headers=ann))
        stream = asyncio.create_task(client.get("/api/events", headers=ann))
        await entered.wait()
        del desk.known["ann"]
        proceed.set()
        answer, events = await calling, await stream
    await box.close()
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "no_token")
    assert "secret" not in answer.text and '"state":"ok"' not in events.text


# The SDK does not close the stream of an older client's call if the client leaves before its end.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_answers_of_mcp_end_with_their_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_answers, "LOOK_SECONDS", 0.05)
    desk, box = Desk(), make_box(tmp_path)
    ann = desk.add("ann", "call", "approve")

    proceed = threading.Event()

    @box.tool
    async def wait() -> str:
        await asyncio.to_thread(proceed.wait, 120)
        return "the secret"

    with served(box, run, identifiers=[desk]) as url:
        async with (
            httpx2.AsyncClient(headers=ann, timeout=60) as client,
            AsyncExitStack() as opened,
        ):
            hello = await client.post(url, json=rpc("initialize", **HELLO), headers=OLD)
            old = {**OLD, "Mcp-Session-Id": hello.headers["mcp-session-id"]}
            asked: list[dict[str, Any]] = [
                {"method": "GET", "headers": old},
                {"method": "POST", "headers": old, "json": rpc("tools/call", name="wait")},
                {
                    "method": "POST",
                    **modern("subscriptions/listen", notifications={"toolsListChanged": True}),
                },
            ]
            answers = [
                await opened.enter_async_context(client.stream(url=url, **each)) for each in asked
            ]
            waiting = asyncio.create_task(client.post(url, **modern("tools/call", name="wait")))
            lists = (await client.post(url, json=rpc("tools/list"), headers=old)).status_code
            await asyncio.wait((waiting,), timeout=0.2)
            assert not waiting.done()
            del desk.known["ann"]
            texts = [(await each.aread()).decode() for each in answers]
            refused = await waiting
            proceed.set()
            after = await client.post(url, json=rpc("tools/list"), headers=old)
    gc.collect()
    assert [each.status_code for each in answers] == [200, 200, 200]
    assert (lists, refused.status_code, after.status_code) in ((200, 401, 401), (200, 200, 401))
    assert not any("secret" in text for text in (*texts, refused.text))


async def test_the_answer_to_a_call_outlasts_an_oauth_token_and_a_listening_stream_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_answers, "LOOK_SECONDS", 0.05)
    desk, box = Desk(), make_box(tmp_path)
    expired = {"exp": int(time.time()) - 1}
    ann = desk.add("ann", "call", claims=expired)
    proceed, entered = asyncio.Event(), asyncio.Event()

    @box.tool
    async def wait() -> str:
        entered.set()
        await proceed.wait()
        return "the result"

    async with http(app(box, identifiers=[desk])) as client:
        client.headers.update(ann)
        calling = asyncio.create_task(client.post("/mcp", **modern("tools/call", name="wait")))
        listening = modern("subscriptions/listen", notifications={"toolsListChanged": True})
        streams = [
            asyncio.create_task(client.get("/api/events", timeout=120)),
            asyncio.create_task(client.post("/mcp", **listening, timeout=120)),
        ]
        await entered.wait()
        del desk.known["ann"]
        await asyncio.gather(*streams)
        proceed.set()
        answer = await calling
    await box.close()
    assert answer.status_code == 200 and "the result" in answer.text


async def test_whoever_gets_more_roles_gets_the_answer_they_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_answers, "_FRESH_SECONDS", 0.0)
    desk, box = Desk(), make_box(tmp_path)
    ann = desk.add("ann", "call")

    @box.tool
    def promote() -> str:
        desk.add("ann", "call", "approve")
        return "done"

    @box.tool
    def move() -> str:
        desk.known["ann"] = replace(desk.known["ann"], view="sums")
        return "done"

    async with http(app(box, identifiers=[desk])) as client:
        more = await client.post("/api/calls", json={"tool": "promote"}, headers=ann)
        other = await client.post("/api/calls", json={"tool": "move"}, headers=ann)
    await box.close()
    assert (more.status_code, other.status_code) == (200, 503)
    assert other.json()["error"]["code"] == "try_again"


async def test_whoever_loses_a_role_while_asked_does_not_approve(tmp_path: Path) -> None:
    desk, box = Desk(), make_box(tmp_path)
    desk.add("ann", "call", "approve")

    class Demoted(Person):
        async def __call__(self, context: Any, params: Any) -> Any:
            desk.add("ann", "call")
            return await super().__call__(context, params)

    with served(box, run, identifiers=[desk]) as url:
        async with connected(url, "ann", "legacy", elicitation_callback=Demoted()) as client:
            result = await client.call_tool("wipe", {"path": "x"})
    assert result.is_error and "you may not give it" in text_of(result)
    async with Toolbox(store=f"sqlite:///{tmp_path}/calls.db") as after:
        assert len(await after.pending()) == 1


@pytest.mark.parametrize("way", ["sign_out", "revoke"])
async def test_a_stream_of_a_browser_ends_with_its_session(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_answers, "LOOK_SECONDS", 0.05)
    box, own = make_box(tmp_path), {"Origin": "http://localhost"}
    async with http(app(box, stored_tokens=True)) as client:
        await box.store.tokens.make("ann", ["approve"])
        key = await box.store.sign_ins.make_link("ann")
        await client.post("/sign-in", json={"key": key}, headers=own)
        stream = asyncio.create_task(client.get("/api/events", timeout=120))
        await asyncio.wait((stream,), timeout=0.2)
        assert not stream.done()
        if way == "revoke":
            await box.store.tokens.revoke("ann")
        else:
            await client.post("/sign-out", json={}, headers=own)
        answer = await stream
    await box.close()
    assert answer.status_code == 200 and "event: hello" in answer.text


async def test_callers_leave_streams_for_those_who_approve(tmp_path: Path) -> None:
    desk, box = Desk(), make_box(tmp_path)
    ann = desk.add("ann", "approve")
    most = MAX_STREAMS - KEPT_STREAMS
    callers = [desk.add(f"cal{number}", "call") for number in range(most // MAX_OF_ONE + 2)]
    async with http(app(box, identifiers=[desk])) as client:
        open_streams = [
            asyncio.create_task(client.get("/api/events", headers=callers[number // MAX_OF_ONE]))
            for number in range(most + MAX_OF_ONE)
        ]
        waiting = {*open_streams}
        while len(waiting) > most:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        once = {"seconds": 0}
        more = await client.get("/api/events", params=once, headers=callers[-1])
        approver = await client.get("/api/events", params=once, headers=ann)
        for stream in open_streams:
            stream.cancel()
        await asyncio.wait(open_streams)
    await box.close()
    assert (more.status_code, more.json()["error"]["code"]) == (429, "too_many_streams")
    assert approver.status_code == 200
