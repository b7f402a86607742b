"""Servers behind a URL."""

import asyncio
import warnings
from pathlib import Path
from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import Context as ServerContext
from mcp.server.mcpserver import MCPServer
from pydantic import Field

from tests.mcp.waiting import until
from tests.mcp.web import Seen, served, served_elsewhere
from wieldy import (
    Context,
    Limits,
    Notice,
    Outcome,
    Progress,
    RemoteFailure,
    Secret,
    ServerUnavailable,
    ServiceError,
    Status,
    Toolbox,
)
from wieldy.mcp import OAuth, Patience
from wieldy.mcp.client.http_transports import reach_of
from wieldy.mcp.client.server_source import Address

KEY = "correct-horse-battery"


def make_shop(runs: list[str] | None = None) -> MCPServer:
    shop = MCPServer("web shop")

    @shop.tool()
    async def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        if runs is not None:
            runs.append("add")
        return a + b

    @shop.tool()
    async def count(to: int, ctx: ServerContext) -> int:
        """Count, and say how far it is."""
        for number in range(to):
            await ctx.report_progress(number + 1, to)
        return to

    @shop.tool()
    async def wait() -> str:
        """Wait for long."""
        if runs is not None:
            runs.append("waiting")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            if runs is not None:
                runs.append("cancelled")
            raise
        return "waited"

    return shop


def only_old(scope: Any, headers: dict[str, str]) -> int | None:
    """Turn away whoever asks for the newest version, as a server of an older one does."""
    return 400 if headers.get("mcp-protocol-version", "").startswith("2026") else None


async def test_streamable_http(box: Toolbox) -> None:
    with served(make_shop().streamable_http_app()) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")

        items = [item async for item in box.stream("count", {"to": 2})]

        assert box.mcp["web shop"].protocol_version == "2026-07-28"
        assert (await box.call("add", {"a": 1})).value == {"result": 3}
        assert box.call_sync("add", {"a": 2}).value == {"result": 4}
        assert [item.done for item in items if isinstance(item, Progress)] == [1, 2]
        await box.close()


async def test_streamable_http_of_an_older_version(box: Toolbox) -> None:
    with served(Seen(make_shop().streamable_http_app(), only_old)) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")

        assert box.mcp["web shop"].protocol_version == "2025-11-25"
        assert (await box.call("add", {"a": 1})).value == {"result": 3}
        await box.close()


@pytest.mark.parametrize("old", [True, False])
async def test_messages_about_calls_at_the_same_time_reach_each_its_own_reader(
    box: Toolbox, old: bool
) -> None:
    shop, both = MCPServer("web shop"), asyncio.Barrier(2)

    @shop.tool()
    async def search(word: str, ctx: ServerContext) -> str:
        """Say what is looked for."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await ctx.log("info", f"looking for {word}")
        async with asyncio.timeout(120):
            await both.wait()
        return word

    async def read(word: str) -> list[str | None]:
        items = [item async for item in box.stream("search", {"word": word})]
        return [item.message for item in items if isinstance(item, Notice)]

    with served(Seen(shop.streamable_http_app(), only_old if old else None)) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")

        told = await asyncio.gather(read("tea"), read("salt"))

        assert list(told) == [["looking for tea"], ["looking for salt"]]
        await box.close()


async def test_a_secret_in_a_long_message_is_covered_also_where_the_message_is_cut(
    box: Toolbox,
) -> None:
    shop = MCPServer("shop")

    @shop.tool()
    async def login(ctx: ServerContext) -> str:
        """Say the key, late in a long message."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await ctx.log("info", "x" * 3990 + KEY)
        return "done"

    with served(shop.streamable_http_app()) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", headers={"X-Api-Key": KEY})
        items = [item async for item in box.stream("login", {})]
        await box.close()

    [told] = [item.message for item in items if isinstance(item, Notice)]
    assert told is not None
    assert told.startswith("xxx")
    assert KEY[:8] not in told


async def test_a_server_that_reports_progress_without_end_is_heard_so_far(box: Toolbox) -> None:
    shop = MCPServer("shop")

    @shop.tool()
    async def hurry(ctx: ServerContext) -> str:
        """Report every step."""
        for number in range(2100):
            await ctx.report_progress(number)
        return "done"

    await box.add_mcp(shop)
    items = [item async for item in box.stream("hurry", live=True)]

    assert len([item for item in items if isinstance(item, Progress)]) == 2000
    assert isinstance(items[-1], Outcome) and items[-1].text == "done"


async def test_a_server_that_says_very_much_about_a_call_is_heard_so_far(box: Toolbox) -> None:
    shop = MCPServer("shop")

    @shop.tool()
    async def chatter(ctx: ServerContext) -> str:
        """Say very much."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(1100):
                await ctx.log("info", "x" * 5000)
        return "done"

    await box.add_mcp(shop)
    items = [item async for item in box.stream("chatter", live=True)]
    told = [item.message for item in items if isinstance(item, Notice)]

    assert len(told) == 1000
    assert told[0] == f"{'x' * 4000}… (5,000 characters in all)"
    assert isinstance(items[-1], Outcome) and items[-1].text == "done"


@pytest.mark.parametrize("entry", [{"type": "sse"}, {}])
async def test_sse_asked_for_or_found_out(box: Toolbox, entry: dict[str, str]) -> None:
    with served(make_shop().sse_app()) as port:
        await box.add_mcp({"mcpServers": {"old": {"url": f"http://127.0.0.1:{port}/sse", **entry}}})

        assert (await box.call("add", {"a": 1})).value == {"result": 3}
        items = [item async for item in box.stream("count", {"to": 2})]
        assert [item.done for item in items if isinstance(item, Progress)] == [1, 2]
        await box.close()


@pytest.mark.parametrize("old", [True, False])
async def test_a_cancelled_call_is_cancelled_at_the_server(box: Toolbox, old: bool) -> None:
    runs: list[str] = []
    with served(Seen(make_shop(runs).streamable_http_app(), only_old if old else None)) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", limits=Limits(timeout=1))

        outcome = await box.call("wait")

        assert outcome.status is Status.TIMEOUT
        await until(lambda: runs == ["waiting", "cancelled"])
        await box.close()


async def test_headers_and_tokens_are_sent_and_each_call_may_have_its_own(box: Toolbox) -> None:
    seen = Seen(make_shop().streamable_http_app())

    async def headers(context: Context | None) -> dict[str, object]:
        user = "nobody" if context is None else context.deps["user"]
        return {"X-User": user, "X-Call": "" if context is None else context.tool}

    with served(seen) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", headers=headers, auth=Secret("the-token"))
        calls = [box.call("add", {"a": 1}, deps={"user": f"user{n}"}) for n in range(5)]
        assert all(outcome.ok for outcome in await asyncio.gather(*calls))
        await box.close()

    assert {request["authorization"] for request in seen.requests} == {"Bearer the-token"}
    users = [r["x-user"] for r in seen.requests if r.get("x-call") == "add"]
    assert sorted(users) == [f"user{n}" for n in range(5)]
    assert {r["x-user"] for r in seen.requests if not r["x-call"]} == {"nobody"}


async def test_fixed_headers_are_on_every_request(box: Toolbox) -> None:
    seen = Seen(make_shop().sse_app())
    with served(seen) as port:
        await box.add_mcp(
            {"url": f"http://127.0.0.1:{port}/sse", "type": "sse", "headers": {"X-A": "1"}},
            headers={"X-B": Secret("2")},
        )
        await box.call("add", {"a": 1})
        await box.close()

    assert {(r["x-a"], r["x-b"]) for r in seen.requests} == {("1", "2")}


async def test_arguments_that_the_server_wants_as_headers_are_sent_as_such(box: Toolbox) -> None:
    shop = MCPServer("regions")

    @shop.tool()
    def find(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        """Find something in a region."""
        return region

    seen = Seen(shop.streamable_http_app())
    with served(seen) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")
        assert (await box.call("find", {"region": "eu"})).ok
        await box.close()

    assert [r["mcp-param-region"] for r in seen.requests if r.get("mcp-name") == "find"] == ["eu"]


async def test_a_refused_token_is_an_error_with_its_status(box: Toolbox) -> None:
    refuse = Seen(make_shop().streamable_http_app(), lambda scope, headers: 401)
    with served(refuse) as port, pytest.raises(ServerUnavailable, match="401"):
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")


async def test_an_address_where_nobody_is_is_an_error(box: Toolbox) -> None:
    with served(make_shop().streamable_http_app()) as port:
        pass

    with pytest.raises(ServerUnavailable, match=r"[Cc]onnect"):
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")


@pytest.mark.parametrize("old", [True, False])
async def test_a_server_that_was_restarted_is_found_again(box: Toolbox, old: bool) -> None:
    runs: list[str] = []
    refuse = only_old if old else None
    with served(Seen(make_shop(runs).streamable_http_app(), refuse)) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp", patience=Patience(connect=10))
    gone = await box.call("add", {"a": 1})
    with served(Seen(make_shop(runs).streamable_http_app(), refuse), port):
        await until(lambda: box.call_sync("add", {"a": 1}).ok)
        outcomes = await box.call_many([("add", {"a": n}) for n in range(10)])
        await box.close()

    assert gone.status is Status.ERROR
    assert all(outcome.ok for outcome in outcomes)
    assert len(runs) == 11


async def test_a_session_that_the_server_forgot_is_made_anew_and_the_call_runs_once(
    box: Toolbox,
) -> None:
    runs: list[str] = []
    with served(Seen(make_shop(runs).streamable_http_app(), only_old)) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")
        assert (await box.call("add", {"a": 1})).ok
    with served(Seen(make_shop(runs).streamable_http_app(), only_old), port):
        outcomes = await box.call_many([("add", {"a": n}) for n in range(10)])
        await box.close()

    assert [outcome.status for outcome in outcomes] == [Status.OK] * 10
    assert len(runs) == 11


@pytest.mark.parametrize("transport", ["sse", "http"])
async def test_a_killed_server_ends_its_calls_and_is_found_again(
    box: Toolbox, trace: Path, transport: str
) -> None:
    path = "sse" if transport == "sse" else "mcp"
    with served_elsewhere(transport, trace) as (port, process):
        entry = {"url": f"http://127.0.0.1:{port}/{path}", "type": transport}
        await box.add_mcp(entry, limits=Limits(timeout=120))
        waiting = asyncio.create_task(box.call("wait", {"seconds": 30}))
        await until(lambda: "waiting" in trace.read_text())
        process.kill()
        outcome = await waiting
    after = await box.call("add", {"a": 1})

    assert outcome.status is Status.UNKNOWN
    assert after.status is Status.ERROR
    with served_elsewhere(transport, trace, port):
        await until(lambda: box.call_sync("add", {"a": 1}).ok)
        await box.close()


async def test_an_error_of_the_server_keeps_its_code(box: Toolbox) -> None:
    with served(make_shop().streamable_http_app()) as port:
        await box.add_mcp(f"http://127.0.0.1:{port}/mcp")
        with pytest.raises(RemoteFailure) as caught:
            await box.mcp["web shop"].read_resource("nothing://here")
        await box.close()

    assert caught.value.code is not None


async def test_server_from_afar_does_not_say_that_one_signs_in_on_this_machine() -> None:
    reach = reach_of(Address("https://mcp.invalid/mcp"))

    for host in ("127.0.0.1", "2130706433", "169.254.169.254", "localhost"):
        with pytest.raises(ServiceError, match="is on this machine or its network"):
            await reach.find(host, 443)


@pytest.mark.parametrize(
    "address",
    [
        Address("http://127.0.0.1:8000/mcp"),
        Address("https://mcp.invalid/mcp", auth=OAuth(issuer="http://localhost:9000")),
    ],
)
async def test_server_on_this_machine_or_with_an_issuer_there_signs_in_there(
    address: Address,
) -> None:
    assert "127.0.0.1" in await reach_of(address).find("localhost", 9000)
