"""What passes beside a call through a gateway: `_meta`, log messages and questions."""

import asyncio
import json
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer

from tests.mcp.clients import MODES, Mode, Person, connected, text_of
from tests.mcp.conftest import raw
from tests.mcp.served import served
from tests.mcp.servers.asking import make_asking
from wieldy import Toolbox
from wieldy.mcp import pass_to_client, server

OURS = {"wieldy/untrusted": False, "io.modelcontextprotocol/x": 1, "fastmcp": {"wrap_result": True}}
FOREIGN = {"example.org/cost": 3}


def make_upstream(name: str, meta: dict[str, Any] | None = None) -> MCPServer:
    """A server with an app: a tool whose interface is a resource."""
    upstream = MCPServer(name)
    ui = {"resourceUri": "ui://shared/app", "visibility": ["model"]}

    @upstream.resource("ui://shared/app", mime_type="text/html;profile=mcp-app")
    def app() -> str:
        return f"<p>{name}</p>"

    @upstream.tool(name=f"{name}_show", meta={"ui": ui, **(meta or {})})
    def show(context: Context) -> types.CallToolResult:
        sent = dict(context.request_context.meta or {})
        link = types.ResourceLink(uri="ui://shared/app", name="app", type="resource_link")
        return types.CallToolResult(
            content=[types.TextContent(text=json.dumps(sorted(sent))), link],
            _meta={**FOREIGN, **OURS},
        )

    @upstream.tool(name=f"{name}_log")
    async def log(context: Context) -> str:
        for level in ("debug", "info", "warning"):
            await context.log(level, f"{name} {level}", logger_name="behind")
        return "logged"

    return upstream


@pytest.mark.parametrize("mode", MODES)
async def test_meta_passes_both_ways_and_what_is_ours_stays_ours(mode: Mode) -> None:
    async with Toolbox() as gateway:
        await gateway.add_mcp(make_upstream("a", {**FOREIGN, **OURS}), name="a", prefix="x_")
        async with Client(server(gateway), mode=mode) as client:
            [shown, _] = (await client.list_tools()).tools
            meta: Any = {"example.org/trace": "t", "wieldy/secret": 1, "traceparent": "p"}
            result = await client.call_tool("x_a_show", {}, meta=meta)
            html = await client.read_resource("ui://shared/app")

    ui = {"resourceUri": "ui://shared/app", "visibility": ["model"]}
    assert shown.meta == {"ui": ui, **FOREIGN}
    sent = set(json.loads(text_of(result)))
    assert {"example.org/trace", "traceparent"} <= sent and "wieldy/secret" not in sent
    assert result.meta is not None
    ours = {key: value for key, value in result.meta.items() if key.startswith("wieldy/")}
    assert ours == {"wieldy/untrusted": True}
    assert result.meta["example.org/cost"] == 3 and "fastmcp" not in result.meta
    assert html.contents[0].mime_type == "text/html;profile=mcp-app"


async def test_the_links_of_an_app_lead_to_its_own_server_where_two_have_the_same() -> None:
    async with Toolbox() as gateway:
        await gateway.add_mcp(make_upstream("a"), name="a")
        await gateway.add_mcp(make_upstream("b"), name="b")
        async with Client(server(gateway)) as client:
            shown = {each.name: each.meta for each in (await client.list_tools()).tools}
            [_, link] = (await client.call_tool("b_show", {})).content
            assert isinstance(link, types.ResourceLink)
            html = (await client.read_resource(link.uri)).contents[0]

    assert link.uri == "wieldy:b/ui://shared/app"
    assert shown["a_show"] is not None and shown["b_show"] is not None
    assert shown["a_show"]["ui"]["resourceUri"] == "wieldy:a/ui://shared/app"
    assert shown["b_show"]["ui"]["resourceUri"] == link.uri
    assert isinstance(html, types.TextResourceContents) and html.text == "<p>b</p>"


@pytest.mark.filterwarnings("ignore:The logging capability")
@pytest.mark.parametrize("mode", MODES)
async def test_log_messages_reach_the_client_whose_call_it_is_from_its_level_on(
    mode: Mode,
) -> None:
    heard: list[tuple[str, Any, str | None]] = []
    others: list[Any] = []

    async def hear(params: types.LoggingMessageNotificationParams) -> None:
        heard.append((params.level, params.data, params.logger))

    async def overhear(params: types.LoggingMessageNotificationParams) -> None:
        others.append(params)

    async with Toolbox() as gateway:
        await gateway.add_mcp(make_upstream("a"), name="a")
        made = server(gateway)
        async with (
            Client(made, mode=mode, logging_callback=hear) as client,
            Client(made, mode=mode, logging_callback=overhear),
        ):
            if mode == "legacy":
                request = types.SetLevelRequest(params=types.SetLevelRequestParams(level="info"))
                await client.session.send_request(request, types.EmptyResult)
                meta: Any = None
            else:
                meta = {types.LOG_LEVEL_META_KEY: "info"}
            await client.call_tool("a_log", {}, meta=meta)

    assert heard == [("info", "a info", "behind"), ("warning", "a warning", "behind")]
    assert others == []


async def test_an_older_server_asks_the_client_whose_call_it_is_with_its_name() -> None:
    ann, bob = Person(size="L"), Person(size="S")
    async with Toolbox() as gateway:
        await gateway.add_mcp(raw("plain"), name="shop")
        tokens = {"ann": "ann-token-0123456789", "bob": "bob-token-0123456789"}
        with served(gateway, tokens=tokens) as url:
            async with (
                connected(url, tokens["ann"], "legacy", elicitation_callback=ann) as client,
                connected(url, tokens["bob"], "legacy", elicitation_callback=bob),
            ):
                answer = json.loads(text_of(await client.call_tool("ask", {})))

    assert answer == {"action": "accept", "content": {"size": "L"}}
    assert (ann.asked, bob.asked) == (["shop asks:\nWhich size?"], [])


async def test_a_question_that_could_be_about_two_calls_is_asked_of_nobody() -> None:
    ann = Person(size="L")
    async with Toolbox() as gateway:
        await gateway.add_mcp(raw("crowd"), name="shop")
        async with Client(server(gateway), mode="legacy", elicitation_callback=ann) as client:
            answers = await asyncio.gather(*(client.call_tool("echo", {}) for _ in range(2)))

    assert [json.loads(text_of(each))["action"] for each in answers] == ["decline", "decline"]
    assert ann.asked == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_newer_server_asks_by_its_result_and_the_question_has_its_name(mode: Mode) -> None:
    ann = Person(size="L")
    async with Toolbox() as gateway:
        await gateway.add_mcp(make_asking(), name="asking")
        async with Client(server(gateway), mode=mode, elicitation_callback=ann) as client:
            answer = await client.call_tool("order", {"item": "tea"})

    assert text_of(answer).startswith("tea: accept, {'size': 'L'}")
    assert ann.asked == ["asking asks:\nWhich size?"]


@pytest.mark.filterwarnings("ignore:The sampling capability")
@pytest.mark.parametrize("able", [True, False])
async def test_an_older_server_samples_from_the_client_whose_call_it_is(able: bool) -> None:
    asked: list[str] = []

    async def sample(context: Any, params: Any) -> types.CreateMessageResult:
        asked.append(params.meta["wieldy/server"])
        content = types.TextContent(text="a thought")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async with Toolbox() as gateway:
        await gateway.add_mcp(raw("think"), name="thinker", on_sample=pass_to_client)
        options: Any = {"sampling_callback": sample} if able else {}
        async with Client(server(gateway), mode="legacy", **options) as client:
            answer = json.loads(text_of(await client.call_tool("echo", {})))
        # Nobody's client: the call is the program's own.
        alone = json.loads((await gateway.call("echo", {})).text)

    assert answer.get("content", {}).get("text") == ("a thought" if able else None)
    assert asked == (["thinker"] if able else [])
    assert alone["message"] == "it was declined"
