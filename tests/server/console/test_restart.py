"""A person's session and stream go on when the server is started again."""

from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from tests.mcp.served import served
from tests.server.api.api_client import make_box
from tests.server.api.test_events import Stream
from wieldy import Toolbox
from wieldy.server import run


async def test_a_session_goes_on_after_a_restart_and_its_stream_misses_nothing(
    tmp_path: Path,
) -> None:
    async with Toolbox(store=f"sqlite:///{tmp_path}/calls.db") as box:
        await box.store.tokens.make("ann", ["approve"])
        key = await box.store.sign_ins.make_link("ann")

    with served(make_box(tmp_path), run, stored_tokens=True) as url:
        page = url.removesuffix("/mcp")
        async with httpx2.AsyncClient(base_url=page, timeout=60) as client:
            entered = await client.post("/sign-in", json={"key": key}, headers={"Origin": page})
            async with client.stream("GET", "/api/events") as answer:
                place = (await Stream(answer.aiter_lines()).next()).id
    session = entered.headers["set-cookie"].partition(";")[0].partition("=")[2]

    async with make_box(tmp_path) as box:
        # Another process goes on meanwhile.
        made = (await box.call("add", {"a": 1, "b": 1})).call.id
        waits = (await box.call("wipe", {"path": "x"})).call.id
        denied = (await box.call("wipe", {"path": "y"})).call.id
        await box.deny(denied, by="bob")

    with served(make_box(tmp_path), run, stored_tokens=True) as url:
        # A gateway that is started again has its port again, which is in the cookie's name.
        port = urlsplit(url).port
        headers = {"Cookie": f"wieldy_session_{port}={session}", "Last-Event-ID": place}
        address = url.replace("/mcp", "/api/events")
        async with (
            httpx2.AsyncClient(timeout=60) as client,
            client.stream("GET", address, headers=headers) as answer,
        ):
            stream = Stream(answer.aiter_lines())
            await stream.next()
            events = [await stream.next() for _ in range(3)]
    found = {(event.data["call_id"], event.data["state"]) for event in events}
    assert found == {(made, "ok"), (waits, "pending"), (denied, "denied")}
