"""The contract of document 001: MCP clients and their functions."""

import asyncio
import functools
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
import pytest

from tests.dialects.agentscope_calls import (
    answer,
    call,
    parameters,
    says,
    text_of,
)
from tests.dialects.conftest import make_stall
from tests.mcp.conftest import SHOP, raw
from tests.mcp.waiting import alive
from tests.mcp.web import Seen, served
from wieldy import Outcome, ServerUnavailable, Status, Toolbox
from wieldy.dialects.agentscope import (
    HttpStatefulClient,
    HttpStatelessClient,
    MCPClientBase,
    StdIOStatefulClient,
    Toolkit,
    ToolResponse,
    ToolUseBlock,
)

# 001.9


def shop(name: str = "shop", **env: str) -> StdIOStatefulClient:
    return StdIOStatefulClient(name, sys.executable, args=[SHOP], env=env)


def hand_written(mode: str) -> StdIOStatefulClient:
    command, *args = raw(mode)
    return StdIOStatefulClient("raw", command, args)


@asynccontextmanager
async def connected(client: StdIOStatefulClient) -> AsyncIterator[StdIOStatefulClient]:
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


async def test_001_9_a_clients_functions_are_listed_and_called() -> None:
    async with connected(shop()) as client:
        listed = await client.list_tools()
        add = await client.get_callable_function("add")
        failing = await client.get_callable_function("fail")
        as_sent = await client.get_callable_function("add", wrap_tool_result=False)

        assert all(isinstance(tool, mcp_types.Tool) for tool in listed)
        assert [tool.name for tool in listed][:3] == ["add", "price", "greet"]
        assert (add.name, add.mcp_name, add.description) == ("add", "shop", "Add two numbers.")
        assert add.json_schema["function"]["parameters"]["required"] == ["a"]
        assert text_of(await add(a=40)) == "42"
        assert text_of(await failing(why="no luck")) == "Error: Error executing tool fail"
        result = await as_sent(a=1)
        assert isinstance(result, mcp_types.CallToolResult)
        assert result.structured_content == {"result": 3}
        with pytest.raises(ValueError, match=r"no function 'sell', only: add, price"):
            await client.get_callable_function("sell")


async def test_001_9_a_server_becomes_functions_of_the_toolkit(toolkit: Toolkit) -> None:
    async with connected(shop()) as client:
        toolkit.create_tool_group("shopping", "Buying things.", active=True)
        await toolkit.register_mcp_client(
            client,
            group_name="shopping",
            enable_funcs=["add", "price", "fail"],
            preset_kwargs_mapping={"add": {"b": 10}},
        )

        assert [each["function"]["name"] for each in toolkit.get_json_schemas()] == [
            "add",
            "price",
            "fail",
        ]
        assert list(parameters(toolkit, 0)["properties"]) == ["a"]
        assert await answer(toolkit, "add", a=1, b=99) == "11"
        assert json.loads(await answer(toolkit, "price", item="tea")) == {
            "item": "tea",
            "cents": 300,
        }
        assert await answer(toolkit, "fail", why="?") == "Error: Error executing tool fail"
        assert (await answer(toolkit, "add", a="x")).startswith("Error: Invalid arguments")
        registered = toolkit.tools["add"]
        assert (registered.source, registered.mcp_name) == ("mcp_server", "shop")
        toolkit.update_tool_groups("shopping", False)
        assert (await answer(toolkit, "add", a=1)).startswith("FunctionInactiveError: ")


async def test_001_9_blocks_of_every_kind_are_one_response(toolkit: Toolkit) -> None:
    async with connected(hand_written("kinds")) as client:
        await toolkit.register_mcp_client(client)

        (response,) = await call(toolkit, "echo")

    assert response.is_last
    assert response.metadata == {"cost": 3}
    assert response.content[:3] == [
        {"type": "text", "text": "t"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "aW1n"},
        },
        {
            "type": "audio",
            "source": {"type": "base64", "media_type": "audio/wav", "data": "c25k"},
        },
    ]
    link, inside, binary = (str(item.get("text")) for item in response.content[3:])
    assert "file:///a" in link
    assert inside == "inside"
    assert "file:///c" in binary


async def test_001_9_full_schemas_with_definitions(toolkit: Toolkit) -> None:
    async with connected(hand_written("schemas")) as client:
        await toolkit.register_mcp_client(client, enable_funcs=["loop", "tree"])

        assert parameters(toolkit, 0)["$defs"]["a"] == {"$ref": "#/$defs/b"}
        assert parameters(toolkit, 1)["properties"]["child"] == {"$ref": "#"}
        assert parameters(toolkit, 1)["additionalProperties"] is False


async def test_001_9_the_raw_result_and_postprocessing(toolkit: Toolkit) -> None:
    seen: list[Outcome] = []
    toolkit = Toolkit(toolbox=Toolbox(observers=[seen.append]))

    def louder(tool_call: ToolUseBlock, response: ToolResponse) -> ToolResponse:
        return says(text_of(response) + "!")

    async with connected(shop()) as client:
        await toolkit.register_mcp_client(
            client, enable_funcs=["add", "fail"], wrap_tool_result=False
        )
        await toolkit.register_mcp_client(client, enable_funcs=["greet"], postprocess_func=louder)
        (good,) = await call(toolkit, "add", a=1)
        (bad,) = await call(toolkit, "fail", why="no luck")

        assert isinstance(good, mcp_types.CallToolResult)
        assert good.structured_content == {"result": 3}
        assert isinstance(bad, mcp_types.CallToolResult)
        assert bad.is_error
        assert [outcome.status for outcome in seen] == [Status.OK, Status.ERROR]
        assert await answer(toolkit, "greet", context="you") == "hello you!"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"enable_funcs": ["add"], "disable_funcs": ["add"]}, ValueError, "both"),
        ({"enable_funcs": ["sell"]}, ValueError, "only: add, price"),
        ({"disable_funcs": ["sell"]}, ValueError, "only: add, price"),
        ({"preset_kwargs_mapping": {"sell": {}}}, ValueError, "only: add, price"),
        ({"enable_funcs": "add"}, TypeError, "enable_funcs"),
        ({"disable_funcs": [1]}, TypeError, "disable_funcs"),
        ({"preset_kwargs_mapping": ["add"]}, TypeError, "preset_kwargs_mapping"),
        ({"group_name": "nowhere"}, ValueError, "nowhere"),
    ],
)
async def test_001_9_what_registering_a_client_refuses(
    toolkit: Toolkit, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    async with connected(shop()) as client:
        with pytest.raises(error, match=said):
            await toolkit.register_mcp_client(client, **given)

    assert toolkit.tools == {}


async def test_001_9_a_taken_name_changes_nothing_and_no_client_is_no_client(
    toolkit: Toolkit,
) -> None:
    def price() -> ToolResponse:
        return says("mine")

    toolkit.register_tool_function(price)
    async with connected(shop()) as client:
        with pytest.raises(ValueError, match="'price' is already"):
            await toolkit.register_mcp_client(client)
        with pytest.raises(TypeError, match="client"):
            await toolkit.register_mcp_client("shop")  # type: ignore[arg-type]
        await toolkit.register_mcp_client(client, disable_funcs=["price"])

        assert await answer(toolkit, "price") == "mine"
        assert "add" in toolkit.tools


@pytest.mark.parametrize("method", ["remove_mcp_servers", "remove_mcp_clients"])
async def test_001_9_a_servers_functions_are_removed(toolkit: Toolkit, method: str) -> None:
    def mine() -> ToolResponse:
        return says("mine")

    toolkit.register_tool_function(mine)
    async with connected(shop()) as one, connected(hand_written("plain")) as other:
        await toolkit.register_mcp_client(one)
        await toolkit.register_mcp_client(other)
        await getattr(toolkit, method)(["shop", "unheard of"])

        assert list(toolkit.tools) == ["mine", "echo", "ask", "more"]
        assert one.is_connected
        with pytest.raises(TypeError):
            await getattr(toolkit, method)(7)


async def test_001_9_a_client_is_used_between_connect_and_close(toolkit: Toolkit) -> None:
    client = shop()
    with pytest.raises(RuntimeError, match=r"'shop' is not connected: connect\(\) first"):
        await client.list_tools()
    with pytest.raises(RuntimeError, match="not connected"):
        await toolkit.register_mcp_client(client)
    await client.connect()
    with pytest.raises(RuntimeError, match="connected already"):
        await client.connect()
    add = await client.get_callable_function("add")
    await toolkit.register_mcp_client(client)
    await client.close()
    await client.close()

    assert not client.is_connected
    with pytest.raises(RuntimeError, match="not connected"):
        await client.get_callable_function("add")
    with pytest.raises(RuntimeError, match="not connected"):
        await add(a=1)
    assert (await answer(toolkit, "add", a=1)).startswith("Error: the MCP client 'shop' is not")
    await client.connect()
    assert text_of(await add(a=1)) == await answer(toolkit, "add", a=1) == "3"
    await client.close()


async def test_001_9_clients_close_from_any_task_in_any_order() -> None:
    clients = [shop(f"shop {number}") for number in range(3)]
    for client in clients:
        await asyncio.create_task(client.connect())
    numbers = [await client.get_callable_function("pid") for client in clients]
    pids = [int(text_of(await number())) for number in numbers]

    await clients[1].close()
    assert text_of(await numbers[2]()) == str(pids[2])
    await asyncio.gather(clients[0].close(), clients[2].close())

    assert len(set(pids)) == 3
    assert not any(alive(pid) for pid in pids)


async def test_001_9_a_server_that_can_not_be_started_is_told(toolkit: Toolkit) -> None:
    client = hand_written("die")
    with pytest.raises(ServerUnavailable, match="no licence found"):
        await client.connect()

    assert not client.is_connected


@pytest.mark.parametrize("kind", [HttpStatefulClient, HttpStatelessClient])
async def test_001_9_servers_behind_a_url(
    toolkit: Toolkit, kind: Any, transport: str, url: str, visits: Seen
) -> None:
    client = kind("stall", transport, url, headers={"X-Key": "k1"})
    await client.connect()
    await toolkit.register_mcp_client(client)
    add = await client.get_callable_function("add")

    assert [tool.name for tool in await client.list_tools()] == ["add", "fail"]
    assert await answer(toolkit, "add", a=40) == text_of(await add(a=40)) == "42"
    assert (await answer(toolkit, "fail", why="no luck")).startswith("Error: ")
    assert {request.get("x-key") for request in visits.requests} == {"k1"}
    await client.close()


@pytest.mark.parametrize("kind", [HttpStatefulClient, HttpStatelessClient])
def test_001_9_an_unknown_transport_is_a_value_error(kind: Any) -> None:
    with pytest.raises(ValueError, match="streamable_http, sse"):
        kind("stall", "carrier pigeon", "http://127.0.0.1:9")


async def test_001_9_a_stateless_client_needs_no_connect_and_leaves_nothing_open(
    toolkit: Toolkit,
) -> None:
    before = threading.active_count()
    visits = Seen(make_stall().streamable_http_app())
    with served(visits) as port:
        client = HttpStatelessClient("stall", "streamable_http", f"http://127.0.0.1:{port}/mcp")
        await toolkit.register_mcp_client(client)
        assert await answer(toolkit, "add", a=1) == "3"
        seen = len(visits.requests)
        assert await answer(toolkit, "add", a=1) == "3"
        assert len(visits.requests) - seen > 1
    assert threading.active_count() <= before + 1


async def test_001_9_an_mcp_function_is_registered_like_any_other(toolkit: Toolkit) -> None:
    given = {
        "type": "function",
        "function": {
            "name": "plus",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
    }
    async with connected(shop()) as client:
        add = await client.get_callable_function("add")
        toolkit.register_tool_function(functools.partial(add, b=5), func_description="Add five.")
        toolkit.register_tool_function(add, json_schema=given, preset_kwargs={"b": 7})

        first, second = toolkit.get_json_schemas()
        assert first["function"]["description"] == "Add five."
        assert list(first["function"]["parameters"]["properties"]) == ["a"]
        assert second == given
        assert await answer(toolkit, "add", a=1) == "6"
        assert await answer(toolkit, "plus", a=1) == "8"


async def test_what_a_server_says_is_from_outside_in_a_toolkit_too() -> None:
    async with connected(shop()) as client:
        toolkit = Toolkit()
        await toolkit.register_mcp_client(client, enable_funcs=["add"])
        await answer(toolkit, "add", a=1, b=2)

        assert await toolkit.toolbox.untrusted.holds()


class OwnClient:
    """A client of a program of its own, which has never heard of ours."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.called: list[dict[str, Any]] = []

    async def list_tools(self) -> list[Any]:
        schema = {
            "type": "object",
            "properties": {"item": {"type": "string"}, "currency": {"type": "string"}},
            "required": ["item"],
        }
        listed = {"price": "What it costs.", "drop": None}
        return [
            mcp_types.Tool(name=name, description=said, input_schema=schema)
            for name, said in listed.items()
        ]

    async def get_callable_function(
        self, name: str, wrap_tool_result: bool = True, execution_timeout: float | None = None
    ) -> Any:
        async def call(**arguments: Any) -> ToolResponse:
            self.called.append(arguments)
            return says(f"{name} of {arguments['item']}")

        return call


class DerivedClient(OwnClient, MCPClientBase):
    """The same, derived from the base of all clients."""


@pytest.mark.parametrize("kind", [OwnClient, DerivedClient])
async def test_001_9_a_client_of_the_programs_own_is_registered_like_any_other(
    toolkit: Toolkit, kind: type[OwnClient]
) -> None:
    client = kind("own")
    with pytest.raises(ValueError, match="'nothing', only: price, drop"):
        await toolkit.register_mcp_client(client, enable_funcs=["nothing"])
    await toolkit.register_mcp_client(
        client, enable_funcs=["price"], preset_kwargs_mapping={"price": {"currency": "euro"}}
    )

    [schema] = toolkit.get_json_schemas()
    assert schema["function"]["description"] == "What it costs."
    assert list(schema["function"]["parameters"]["properties"]) == ["item"]
    assert await answer(toolkit, "price", item="tea") == "price of tea"
    assert client.called == [{"item": "tea", "currency": "euro"}]
    assert toolkit.tools["price"].mcp_name == "own"
    assert (await answer(toolkit, "price")).startswith("Error: ")
    await toolkit.remove_mcp_clients(["own"])
    assert toolkit.tools == {}
