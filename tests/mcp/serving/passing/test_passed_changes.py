"""Changes behind a gateway: who hears of which."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError

from tests.mcp.clients import text_of
from tests.mcp.conftest import raw
from wieldy import Toolbox
from wieldy.mcp import server


def make_upstream() -> MCPServer:
    """A server whose tool changes everything and says so."""
    upstream = MCPServer("up")

    @upstream.resource("memo://good")
    def good() -> str:
        return "good"

    @upstream.tool()
    async def change(context: Context) -> str:
        upstream.resource("memo://new", name="new")(lambda: "new")
        upstream.prompt(name="new")(lambda: "new")
        await context.notify_resources_changed()
        await context.notify_prompts_changed()
        await context.notify_resource_updated("memo://good")
        return "changed"

    return upstream


class Heard:
    """What a client of the older protocol is told."""

    def __init__(self) -> None:
        self.kinds: list[tuple[str, str | None]] = []
        self._told = asyncio.Condition()

    async def __call__(self, message: Any) -> None:
        """Keep a notification of a change."""
        kind = type(message).__name__.removesuffix("Notification")
        if kind in ("ResourceListChanged", "PromptListChanged", "ResourceUpdated"):
            async with self._told:
                self.kinds.append((kind, getattr(message.params, "uri", None)))
                self._told.notify_all()

    async def wait(self, kind: str, uri: str | None = None) -> None:
        """Wait until something was told."""
        async with self._told:
            await self._told.wait_for(lambda: (kind, uri) in self.kinds)


async def test_clients_of_the_newer_protocol_hear_what_they_asked_for() -> None:
    async with Toolbox() as gateway:
        await gateway.add_mcp(make_upstream(), name="up")
        async with Client(server(gateway)) as client:
            before = [each.name for each in (await client.list_resources()).resources]
            assert (await client.list_prompts()).prompts == []
            async with client.listen(
                resources_list_changed=True,
                prompts_list_changed=True,
                resource_subscriptions=["memo://good", "memo://nowhere", "wieldy:no/memo://x"],
            ) as events:
                stream = aiter(events)
                seen: set[Any] = set()
                while len(seen) < 3:
                    # Streams behind open in their own time, so the change is made again.
                    await client.call_tool("change", {})
                    seen.add(await anext(stream))
            after = [each.name for each in (await client.list_resources()).resources]
            prompts = [each.name for each in (await client.list_prompts()).prompts]

    assert seen == {ResourcesListChanged(), PromptsListChanged(), ResourceUpdated("memo://good")}
    assert (before, after, prompts) == (["good"], ["good", "new"], ["new"])


async def test_clients_of_the_older_protocol_hear_of_lists_and_of_what_they_follow() -> None:
    heard, other = Heard(), Heard()
    async with Toolbox() as gateway:
        await gateway.add_mcp(raw("follow"), name="up")
        made = server(gateway)
        async with (
            Client(made, mode="legacy", message_handler=heard) as client,
            Client(made, mode="legacy", message_handler=other) as second,
        ):
            assert [each.name for each in (await client.list_resources()).resources] == ["good"]
            await client.session.send_request(subscribing("memo://good"), types.EmptyResult)
            with pytest.raises(MCPError, match="no such resource"):
                await client.session.send_request(subscribing("wieldy:x/y"), types.EmptyResult)
            followed = text_of(await client.call_tool("echo", {}))
            await heard.wait("ResourceUpdated", "memo://good")
            await heard.wait("ResourceListChanged")
            await other.wait("ResourceListChanged")
            listed = [each.name for each in (await second.list_resources()).resources]
            params = types.UnsubscribeRequestParams(uri="memo://good")
            await client.session.send_request(
                types.UnsubscribeRequest(params=params), types.EmptyResult
            )
            left = text_of(await client.call_tool("echo", {}))

    assert (followed, left, listed) == ('["memo://good"]', "[]", ["grown"])
    assert not [kind for kind, _ in other.kinds if kind == "ResourceUpdated"]
    assert {uri for kind, uri in heard.kinds if kind == "ResourceUpdated"} == {"memo://good"}


async def test_a_client_that_can_t_see_a_server_hears_nothing_of_it() -> None:
    heard, blind = Heard(), Heard()
    async with Toolbox() as gateway:
        await gateway.add_mcp(raw("follow"), name="up")
        gateway.add(lambda: "mine", name="mine")
        partly = server(gateway, view=gateway.view(names=["mine"]))
        async with (
            Client(server(gateway), mode="legacy", message_handler=heard) as client,
            Client(partly, mode="legacy", message_handler=blind) as other,
        ):
            with pytest.raises(MCPError, match="no such resource"):
                await other.session.send_request(subscribing("memo://good"), types.EmptyResult)
            await client.call_tool("echo", {})
            await heard.wait("ResourceListChanged")
            await other.call_tool("mine", {})

    assert blind.kinds == []


async def test_a_new_session_of_a_server_is_listed_anew_and_followed_on(tmp_path: Path) -> None:
    heard = Heard()
    async with Toolbox() as gateway:
        starts = tmp_path / "starts"
        await gateway.add_mcp(raw("follow"), name="up", env={"RAW_STARTS": str(starts)})
        async with Client(server(gateway), mode="legacy", message_handler=heard) as client:
            await client.session.send_request(subscribing("memo://good"), types.EmptyResult)
            await client.call_tool("echo", {})
            await heard.wait("ResourceUpdated", "memo://good")
            grown = [each.name for each in (await client.list_resources()).resources]
            os.kill(int(starts.read_text().split()[-1]), signal.SIGKILL)
            while len(starts.read_text().split()) < 2:
                # The first call may be the one that finds the server gone.
                await gateway.mcp["up"].list_tools()
            anew = [each.name for each in (await client.list_resources()).resources]
            heard.kinds.clear()
            while text_of(await client.call_tool("echo", {})) != '["memo://good"]':
                continue  # the new session is told what is followed in its own time
            await heard.wait("ResourceUpdated", "memo://good")

    assert (grown, anew) == (["grown"], ["good"])


def subscribing(uri: str) -> types.SubscribeRequest:
    return types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
