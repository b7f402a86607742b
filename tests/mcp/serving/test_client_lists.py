"""Each client sees a few tools and what it has loaded itself, and only it hears of that."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from mcp import Client
from mcp.server.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification

from tests.mcp.clients import MODES, Mode, connected, text_of
from tests.mcp.served import served
from wieldy import Toolbox
from wieldy.mcp import server
from wieldy.tools.tool_search import add_search_tools

SHOWN = ["search_tools", "load_tools"]
TOKENS = {"alice": "alice-secret-1", "bob": "bob-secret-2"}


def make_box() -> Toolbox:
    box = Toolbox()
    for number in range(30):
        box.add(lambda n=number: n, name=f"count_{number}", description=f"Count to {number}.")
    box.add(lambda to: f"to {to}", name="send_mail", description="Send an email.")
    add_search_tools(box)
    return box


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]


async def load(client: Client, *tools: str) -> dict[str, Any]:
    result = await client.call_tool("load_tools", {"names": list(tools)})
    value: dict[str, Any] = result.structured_content or {}
    return value


async def test_a_client_lists_a_few_tools_and_loads_the_one_it_found() -> None:
    made = server(make_box())
    async with Client(made, mode="legacy") as one, Client(made, mode="legacy") as other:
        assert await names(one) == SHOWN
        found = await one.call_tool("search_tools", {"query": "send a mail"})
        assert "send_mail" in str(found.structured_content)
        assert (await load(one, "send_mail"))["loaded"] == ["send_mail"]

        assert await names(one) == [*SHOWN, "send_mail"]
        assert await names(other) == SHOWN
        called = await other.call_tool("send_mail", {"to": "ann"})
        assert text_of(called) == "to ann"


async def test_only_the_client_that_loads_hears_of_it() -> None:
    box = make_box()
    with served(box, tokens=TOKENS) as url:
        async with AsyncExitStack() as stack:
            one, other = [
                await stack.enter_async_context(connected(url, token)) for token in TOKENS.values()
            ]
            mine, theirs = [
                aiter(await stack.enter_async_context(each.listen(tools_list_changed=True)))
                for each in (one, other)
            ]

            await load(one, "send_mail")
            assert isinstance(await anext(mine), ToolsListChanged)
            waiting = asyncio.ensure_future(anext(theirs))
            await names(other)
            assert not waiting.done()

            box.remove("count_1")
            assert isinstance(await waiting, ToolsListChanged)
            assert isinstance(await anext(mine), ToolsListChanged)


async def test_of_older_clients_only_the_one_that_loads_hears_of_it() -> None:
    box = make_box()
    made = server(box)
    heard: list[str] = []
    told = asyncio.Condition()

    def hear(who: str) -> Any:
        async def listen(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                async with told:
                    heard.append(who)
                    told.notify_all()

        return listen

    async def hears(count: int) -> None:
        async with told:
            await told.wait_for(lambda: len(heard) >= count)

    async with (
        Client(made, mode="legacy", message_handler=hear("one")) as one,
        Client(made, mode="legacy", message_handler=hear("other")) as other,
    ):
        await names(one), await names(other)
        await load(one, "send_mail")
        await hears(1)
        box.remove("count_1")
        await hears(3)
        await load(one, "send_mail")
        await load(other, "count_2")
        await hears(4)

    assert sorted(heard[1:3]) == ["one", "other"]
    assert (heard[0], heard[3:]) == ("one", ["other"])


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_a_token_has_a_list_of_its_own(mode: Mode) -> None:
    with served(make_box(), tokens=TOKENS) as url:
        async with (
            connected(url, TOKENS["alice"], mode=mode) as alice,
            connected(url, TOKENS["bob"], mode=mode) as bob,
        ):
            await load(alice, "send_mail")
            assert await names(alice) == [*SHOWN, "send_mail"]
            assert await names(bob) == SHOWN


async def test_over_http_older_clients_without_tokens_are_told_apart_by_session() -> None:
    with served(make_box()) as url:
        async with connected(url, mode="legacy") as one, connected(url, mode="legacy") as other:
            await load(one, "send_mail")
            assert await names(one) == [*SHOWN, "send_mail"]
            assert await names(other) == SHOWN


async def test_over_http_newer_clients_without_tokens_share_a_list() -> None:
    with served(make_box()) as url:
        async with connected(url) as one, connected(url) as other:
            await load(one, "send_mail")
            assert await names(one) == await names(other) == [*SHOWN, "send_mail"]


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_clients_without_tokens_are_told_apart_by_the_name_they_give(
    mode: Mode,
) -> None:
    ann, bob = ({"Wieldy-Session": name} for name in ("ann", "b" * 5_000))
    with served(make_box()) as url:
        async with (
            connected(url, mode=mode, headers=ann) as one,
            connected(url, mode=mode, headers=bob) as other,
            connected(url, mode=mode, headers=ann) as again,
        ):
            await load(one, "send_mail")
            assert await names(one) == await names(again) == [*SHOWN, "send_mail"]
            assert await names(other) == SHOWN


async def test_a_name_does_not_open_the_list_of_a_token() -> None:
    with served(make_box(), tokens=TOKENS) as url:
        named = {"Wieldy-Session": "alice"}
        async with (
            connected(url, TOKENS["alice"]) as alice,
            connected(url, TOKENS["bob"], headers=named) as bob,
        ):
            await load(alice, "send_mail")
            assert await names(bob) == SHOWN


async def test_only_the_client_of_a_name_hears_of_what_it_loads() -> None:
    box = make_box()
    with served(box) as url:
        async with AsyncExitStack() as stack:
            one, other = [
                await stack.enter_async_context(connected(url, headers={"Wieldy-Session": name}))
                for name in ("ann", "bob")
            ]
            mine, theirs = [
                aiter(await stack.enter_async_context(each.listen(tools_list_changed=True)))
                for each in (one, other)
            ]

            await load(one, "send_mail")
            assert isinstance(await anext(mine), ToolsListChanged)
            waiting = asyncio.ensure_future(anext(theirs))
            await names(other)
            assert not waiting.done()
            box.remove("count_1")
            assert isinstance(await waiting, ToolsListChanged)
