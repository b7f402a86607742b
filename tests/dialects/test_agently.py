"""The contract of document 000, point by point."""

import asyncio
import datetime
import functools
import inspect
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import mcp_types
import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field

import wieldy.dialects.agently as agently
from tests.dialects.conftest import make_stall
from tests.mcp.conftest import SHOP, raw
from tests.mcp.web import Seen
from wieldy import InvalidSource, Outcome, Status, Toolbox
from wieldy.dialects.agently import AgentlyToolManager, DataFormatter, FunctionShifter


@pytest.fixture
def tools() -> AgentlyToolManager:
    return AgentlyToolManager()


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def add_later(a: int, b: int = 2) -> int:
    """Add two numbers, later."""
    await asyncio.sleep(0)
    return a + b


def fail(**kwargs: Any) -> None:
    raise ZeroDivisionError("oh no")


def test_exports_are_exactly_those_of_the_contract() -> None:
    assert agently.__all__ == [
        "Agently",
        "AgentlyMain",
        "AgentlyToolManager",
        "DataFormatter",
        "FunctionShifter",
    ]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (AgentlyToolManager.__init__, "self toolbox"),
        (AgentlyToolManager.register, "self name desc kwargs func returns tags"),
        (AgentlyToolManager.tag, "self tool_names tags"),
        (AgentlyToolManager.tool_func, "self func"),
        (AgentlyToolManager.get_tool_info, "self tags"),
        (AgentlyToolManager.get_tool_list, "self tags"),
        (AgentlyToolManager.get_tool_func, "self name shift"),
        (AgentlyToolManager.call_tool, "self name kwargs"),
        (AgentlyToolManager.async_call_tool, "self name kwargs"),
        (AgentlyToolManager.use_mcp, "self transport tags"),
        (AgentlyToolManager.async_use_mcp, "self transport tags"),
        (DataFormatter.sanitize, "value remain_type"),
        (DataFormatter.from_schema_to_kwargs_format, "schema"),
        (FunctionShifter.syncify, "func"),
        (FunctionShifter.asyncify, "func"),
    ],
)
def test_parameters_have_the_names_of_the_contract(
    function: Callable[..., Any], names: str
) -> None:
    assert list(inspect.signature(function).parameters) == names.split()


# 000.1


def test_000_1_register_by_position_and_by_keyword(tools: AgentlyToolManager) -> None:
    tools.register("a", "first", {"a": (int, "one")}, add, int, ["x", "y"])
    tools.register(name="b", desc=None, kwargs=None, func=add_later, tags="x")
    assert tools.tool_info == {
        "a": {"name": "a", "desc": "first", "kwargs": {"a": (int, "one")}, "returns": int},
        "b": {"name": "b", "desc": "", "kwargs": {}},
    }
    assert tools.tool_funcs == {"a": add, "b": add_later}
    assert tools.tag_mappings == {"x": {"a", "b"}, "y": {"a"}}


def test_000_1_the_same_name_overwrites(tools: AgentlyToolManager) -> None:
    tools.register("a", "first", {"a": (int, "")}, add, returns=int, tags="old")
    tools.register("b", "other", None, add)
    tools.register("a", "second", None, add_later)
    assert tools.get_tool_list() == [
        {"name": "a", "desc": "second", "kwargs": {}},
        {"name": "b", "desc": "other", "kwargs": {}},
    ]
    assert tools.tool_funcs["a"] is add_later


def test_000_1_tags_accumulate_when_a_name_is_registered_again(tools: AgentlyToolManager) -> None:
    tools.register("a", "first", None, add, tags="old")
    tools.tag("a", "more")
    tools.register("a", "second", None, add_later, tags=["new", "old"])
    tools.register("a", "third", None, add)
    assert tools.tag_mappings == {"old": {"a"}, "more": {"a"}, "new": {"a"}}
    assert [info["desc"] for info in tools.get_tool_list("old")] == ["third"]

    tools.tool_func(add)
    tools.tag("add", "math")
    tools.tool_func(add)
    assert list(tools.get_tool_info("math")) == ["add"]


def test_000_1_a_falsy_return_type_is_still_given(tools: AgentlyToolManager) -> None:
    tools.register("a", "", None, add, returns="")
    assert tools.tool_info["a"]["returns"] == ""


# 000.2


def test_000_2_tag_adds_tags(tools: AgentlyToolManager) -> None:
    for name in ("a", "b"):
        tools.register(name, "", None, add, tags="old")
    tools.tag(["a", "b"], "new")
    tools.tag("a", ["x", "new"])
    assert tools.tag_mappings == {"old": {"a", "b"}, "new": {"a", "b"}, "x": {"a"}}


def test_000_2_an_unknown_tool_is_named_and_nothing_is_tagged(tools: AgentlyToolManager) -> None:
    tools.register("a", "", None, add)
    with pytest.raises(RuntimeError, match="nope"):
        tools.tag(["a", "nope"], "x")
    assert tools.tag_mappings == {}


# 000.3


class Search:
    """Search a place."""

    def __call__(self, query: str) -> str:
        return f"found {query}"

    def find(self, query: Annotated[str, "what"], limit: int = 5) -> list[str]:
        """Find things."""
        return [query] * limit

    async def find_later(self, query: str) -> str:
        return query


def test_000_3_the_decorator_describes_and_gives_the_function_back(
    tools: AgentlyToolManager,
) -> None:
    class Unit(BaseModel):
        name: str

    @tools.tool_func
    def weather(  # type: ignore[no-untyped-def]
        city: Annotated[str, "the city", Field(min_length=1), "in English"],
        day: Annotated[int, "day"] = 0,
        unit=None,
        where: Unit | None = None,
    ) -> Annotated[str, "text"]:
        """Tell the weather.

        In words.
        """
        return f"{city} {day}"

    assert weather("Oslo") == "Oslo 0"
    info = tools.tool_info["weather"]
    assert info["desc"] == "Tell the weather.\n\nIn words."
    assert info["kwargs"] == {
        "city": (str, "the city;in English"),
        "day": (int, "day;Default: 0"),
        "unit": (inspect.Parameter.empty, "Default: None"),
        "where": (Unit | None, "Default: None"),
    }
    assert "returns" in info


@pytest.mark.parametrize(
    ("make", "name", "desc", "kwargs", "returns"),
    [
        (lambda: add, "add", "Add two numbers.", {"a": (int, ""), "b": (int, "Default: 2")}, int),
        (lambda: add_later, "add_later", "Add two numbers, later.", ..., int),
        (lambda: fail, "fail", "fail", {"kwargs": (Any, "")}, type(None)),
        (
            lambda: Search().find,
            "find",
            "Find things.",
            {"query": (str, "what"), "limit": (int, "Default: 5")},
            list[str],
        ),
        (lambda: Search().find_later, "find_later", "find_later", {"query": (str, "")}, str),
        (lambda: functools.partial(add, b=3), "add", "Add two numbers.", {"a": (int, "")}, int),
        (
            lambda: functools.partial(add, 1),
            "add",
            "Add two numbers.",
            {"b": (int, "Default: 2")},
            int,
        ),
        (Search, "Search", "Search a place.", {"query": (str, "")}, str),
    ],
)
def test_000_3_what_can_be_decorated(
    tools: AgentlyToolManager,
    make: Callable[[], Any],
    name: str,
    desc: str,
    kwargs: Any,
    returns: Any,
) -> None:
    function = make()
    assert tools.tool_func(function) is function
    info = tools.tool_info[name]
    assert info["desc"] == desc
    assert kwargs is ... or info["kwargs"] == kwargs
    assert info["returns"] == returns


def test_000_3_a_decorated_function_of_any_kind_is_called(tools: AgentlyToolManager) -> None:
    for function in (add_later, Search().find, functools.partial(add, b=40), Search()):
        tools.tool_func(function)
    assert tools.call_tool("add_later", {"a": 1}) == 3
    assert tools.call_tool("find", {"query": "x", "limit": 2}) == ["x", "x"]
    assert tools.call_tool("add", {"a": 2}) == 42
    assert tools.call_tool("Search", {"query": "tea"}) == "found tea"


def test_000_3_no_return_annotation_no_returns(tools: AgentlyToolManager) -> None:
    def plain(a):  # type: ignore[no-untyped-def]
        return a

    tools.tool_func(plain)
    assert tools.tool_info["plain"] == {
        "name": "plain",
        "desc": "plain",
        "kwargs": {"a": (inspect.Parameter.empty, "")},
    }


# 000.4


def test_000_4_tools_are_found_by_tag(tools: AgentlyToolManager) -> None:
    for name, tags in (("c", ["x"]), ("a", ["x", "y"]), ("b", "y"), ("d", None)):
        tools.register(name, "", None, add, tags=tags)
    assert list(tools.get_tool_info()) == ["c", "a", "b", "d"]
    assert list(tools.get_tool_info("y")) == ["a", "b"]
    assert list(tools.get_tool_info(["y", "x"])) == ["c", "a", "b"]
    assert [info["name"] for info in tools.get_tool_list(["x", "nope"])] == ["c", "a"]
    assert tools.get_tool_info("nope") == {}
    assert tools.get_tool_list([]) == []


# 000.5


async def test_000_5_functions_are_shifted(tools: AgentlyToolManager) -> None:
    def where() -> int:
        """Tell the thread."""
        return threading.get_ident()

    for function in (add_later, where):
        tools.tool_func(function)
    assert tools.get_tool_func("nope") is None
    assert tools.get_tool_func("nope", shift="sync") is None
    assert tools.get_tool_func("where") is where
    blocking = tools.get_tool_func("add_later", "sync")
    assert blocking is not None
    assert blocking(1) == 3, "inside a running loop"
    assert await asyncio.to_thread(blocking, 1, b=4) == 5, "and without one"
    later = tools.get_tool_func("where", shift="async")
    assert later is not None
    assert await later() != threading.get_ident(), "it does not block the loop"
    assert tools.get_tool_func("add_later", shift="async") is add_later


def test_000_5_the_shifter_by_itself() -> None:
    assert FunctionShifter.syncify(add) is add
    assert FunctionShifter.syncify(add_later)(1) == 3
    assert FunctionShifter.syncify(add_later).__name__ == "add_later"
    assert asyncio.run(FunctionShifter.asyncify(add)(1, 5)) == 6
    assert FunctionShifter.asyncify(add_later) is add_later
    assert FunctionShifter.syncify(functools.partial(add_later, b=5))(1) == 6
    with pytest.raises(TypeError):
        FunctionShifter.asyncify(3)  # type: ignore[call-overload]


async def test_000_5_a_bare_function_goes_past_permission_and_a_servers_does_not(
    closing: AgentlyToolManager,
) -> None:
    closing.register("add", None, None, add)
    await closing.async_use_mcp(tagged("one", None))
    closing.toolbox.rules.deny("*")
    assert "denied" in await closing.async_call_tool("add", {"a": 1})

    bare, remote = closing.get_tool_func("add"), closing.get_tool_func("look")

    assert bare is closing.tool_funcs["add"] is add
    assert bare(1) == 3
    assert remote is not None
    assert "denied" in await remote(at="it")


# 000.6


async def test_000_6_errors_are_text(tools: AgentlyToolManager) -> None:
    for function in (add, add_later, fail):
        tools.tool_func(function)

    async def both(name: str, kwargs: Any) -> Any:
        blocking = await asyncio.to_thread(tools.call_tool, name, kwargs)
        assert await tools.async_call_tool(name, kwargs) == blocking
        return blocking

    assert await both("add", {"a": 1}) == 3
    assert await both("add_later", {"a": 1, "b": 1}) == 2
    assert await both("nope", {}) == "Can not find tool named 'nope'"
    assert await both("fail", {"x": 1}) == "Error: oh no"
    assert await both("add", {"a": 1, "b": "x"}) == (
        "Error: unsupported operand type(s) for +: 'int' and 'str'"
    )
    missing = await both("add", {})
    assert missing.startswith("Error: ")
    assert "'a'" in missing
    assert (await both("add", {"a": 1, "z": 1})).startswith("Error: ")
    assert (await both("add", 3)).startswith("Error: ")
    assert await both("fail", None) == "Error: oh no"


async def test_000_6_observers_hear_of_errors() -> None:
    heard: list[Outcome] = []
    tools = AgentlyToolManager(Toolbox(observers=[heard.append]))
    tools.tool_func(fail)
    await tools.async_call_tool("fail", {})
    await tools.async_call_tool("nope", {})
    assert [outcome.status for outcome in heard] == [Status.ERROR, Status.ERROR]


async def test_000_6_a_call_that_waits_or_may_not_run_says_so(tools: AgentlyToolManager) -> None:
    tools.tool_func(add)
    tools.toolbox.rules.ask("add")
    receipt = await tools.async_call_tool("add", {"a": 1})
    assert receipt.startswith("Error: ")
    (parked,) = await tools.toolbox.pending()
    assert parked.id in receipt
    tools.toolbox.rules.deny("add")
    assert "denied" in await tools.async_call_tool("add", {"a": 1})


@pytest.mark.parametrize(
    ("name", "kwargs", "said"),
    [
        ("add", [1], "Error: "),
        ("add", "text", "Error: "),
        ("add", 7, "Error: "),
        ("add", {1: 2}, "Error: "),
        ("add", None, "Error: "),
        ("add", {"a": 1, "c": 2}, "Error: "),
        ("add", {"a": object()}, "Error: "),
        ("", {}, "Can not find tool named ''"),
        (None, {}, "Can not find tool named 'None'"),
        (7, {}, "Can not find tool named '7'"),
        ("x" * 10_000, {}, "Can not find tool named 'xxx"),
        ("</tool>\x00", {}, "Can not find tool named '</tool>\x00'"),
    ],
)
async def test_000_6_whatever_is_sent_nothing_is_raised(
    tools: AgentlyToolManager, name: Any, kwargs: Any, said: str
) -> None:
    tools.tool_func(add)

    assert tools.call_tool(name, kwargs).startswith(said)
    assert (await tools.async_call_tool(name, kwargs)).startswith(said)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda tools: tools.register("", None, None, add), ValueError),
        (lambda tools: tools.register(None, None, None, add), ValueError),
        (lambda tools: tools.register("x", None, None, None), ValueError),
        (lambda tools: tools.register("x", None, [1], add), TypeError),
        (lambda tools: tools.register("x", None, None, add, tags=7), TypeError),
        (lambda tools: tools.tool_func(3), TypeError),
        (lambda tools: tools.tag(["x"], "a"), RuntimeError),
        (lambda tools: tools.get_tool_func("x", "other"), ValueError),
    ],
)
def test_what_can_not_be_registered_or_asked_for_changes_nothing(
    tools: AgentlyToolManager, wrong: Callable[[AgentlyToolManager], Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        wrong(tools)

    assert tools.tool_info == {}


# 000.7


def tagged(name: str, meta: Any) -> MCPServer:
    """A server whose one tool has notes on it."""
    server = MCPServer(name)

    @server.tool(meta=meta)
    def look(at: str) -> str:
        """Look."""
        return f"{name}: {at}"

    return server


@pytest.fixture
async def closing(tools: AgentlyToolManager) -> AsyncIterator[AgentlyToolManager]:
    async with tools.toolbox:
        yield tools


CONFIGURATION = {"mcpServers": {"shop": {"command": sys.executable, "args": [SHOP]}}}


@pytest.mark.parametrize("source", [SHOP, Path(SHOP), CONFIGURATION, make_stall()], ids=type)
async def test_000_7_a_servers_tools_are_registered(
    closing: AgentlyToolManager, source: Any
) -> None:
    await closing.async_use_mcp(source, tags="remote")

    assert closing.tool_info["add"] == {
        "name": "add",
        "desc": "Add two numbers.",
        "kwargs": {"a": ("integer", ""), "b": ("integer", "default: 2")},
        "returns": {"result": ("integer", "")},
    }
    assert closing.get_tool_info("remote") == closing.tool_info
    assert await closing.async_call_tool("add", {"a": 40}) == {"result": 42}
    function = closing.get_tool_func("add")
    assert function is not None
    assert await function(a=40) == {"result": 42}


async def test_000_7_a_url(url: str, closing: AgentlyToolManager) -> None:
    await closing.async_use_mcp(url)

    assert await closing.async_call_tool("add", {"a": 40}) == {"result": 42}


def test_000_7_from_blocking_code(tools: AgentlyToolManager) -> None:
    tools.use_mcp(SHOP, tags=["remote"])

    assert tools.call_tool("add", {"a": 40}) == {"result": 42}
    function = tools.get_tool_func("add", "sync")
    assert function is not None
    assert function(a=1) == {"result": 3}
    asyncio.run(tools.toolbox.close())


@pytest.mark.parametrize(
    ("meta", "own"),
    [
        ({"_fastmcp": {"tags": ["old"]}}, {"old"}),
        ({"fastmcp": {"tags": ["new", "newer"]}}, {"new", "newer"}),
        ({"_fastmcp": {"tags": ["a"]}, "fastmcp": {"tags": ["a", "b"]}}, {"a", "b"}),
        ({"fastmcp": {"tags": "text"}}, set()),
        ({"fastmcp": {"tags": [1, None, "x"]}}, {"x"}),
        ({"fastmcp": None, "other": {"tags": ["no"]}}, set()),
        (None, set()),
    ],
)
async def test_000_7_tools_have_their_servers_tags_and_those_given(
    closing: AgentlyToolManager, meta: Any, own: set[str]
) -> None:
    await closing.async_use_mcp(tagged("one", meta), tags=["given"])

    assert closing.tag_mappings == {tag: {"look"} for tag in {"given", *own}}


async def test_000_7_a_servers_word_is_no_tag_outside_this_dialect() -> None:
    async with Toolbox() as box:
        (tool,) = await box.add_mcp(tagged("one", {"fastmcp": {"tags": ["admin"]}}), tags="guest")

        assert tool.tags == ("guest",)
        assert box.view(tags={"admin"}).names == []


async def test_000_7_the_same_name_replaces_and_servers_without_tools_are_closed(
    closing: AgentlyToolManager, tmp_path: Path
) -> None:
    closing.register("look", None, None, add)
    await closing.async_use_mcp(tagged("one", None))
    assert await closing.async_call_tool("look", {"at": "it"}) == {"result": "one: it"}

    closing.tag("look", "seen")
    await closing.async_use_mcp(tagged("two", None))

    assert await closing.async_call_tool("look", {"at": "it"}) == {"result": "two: it"}
    assert closing.tag_mappings == {"seen": {"look"}}
    assert list(closing.tool_info) == ["look"]
    assert list(closing.toolbox.mcp) == ["two"]
    await closing.toolbox.remove_mcp("two")
    assert closing.tool_info == {}


async def test_000_7_tags_accumulate_when_a_server_is_used_again(
    closing: AgentlyToolManager,
) -> None:
    meta = {"fastmcp": {"tags": ["own"]}}
    await closing.async_use_mcp(tagged("one", meta), tags="first")
    await closing.async_use_mcp(tagged("one", meta), tags=["second"])
    await closing.async_use_mcp(tagged("other", None))

    assert closing.tag_mappings == {tag: {"look"} for tag in ("own", "first", "second")}
    closing.register("look", None, None, add, tags="third")
    assert sorted(closing.tag_mappings) == ["first", "own", "second", "third"]


async def test_000_7_a_tagged_tool_goes_with_its_server(closing: AgentlyToolManager) -> None:
    await closing.async_use_mcp(tagged("one", None))
    closing.tag("look", "mine")

    assert [tool.tags for tool in closing.toolbox.mcp["one"].tools] == [("mine",)]
    await closing.toolbox.remove_mcp("one")
    assert closing.get_tool_list() == []


@pytest.mark.parametrize("wrong", ["/nowhere/server.py", {"mcpServers": {}}, 7, "", None])
async def test_000_7_what_is_no_server_is_refused(closing: AgentlyToolManager, wrong: Any) -> None:
    with pytest.raises(InvalidSource):
        await closing.async_use_mcp(wrong)


class FastThing:
    """Shaped like what fastmcp 4 has: a client, its transports, and a server."""

    __module__ = "fastmcp.client.transports"

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)


class SSEThing(FastThing):
    """Its transport to an older server."""


class Configuration(BaseModel):
    """Its form of a configuration."""

    mcpServers: dict[str, Any]


STDIO = FastThing(command=sys.executable, args=[SHOP], env=None, cwd=Path(SHOP).parent)


@pytest.mark.parametrize(
    "given",
    [
        STDIO,
        FastThing(transport=STDIO),
        FastThing(config=Configuration(mcpServers=CONFIGURATION["mcpServers"])),
        FastThing(_mcp_server=make_stall()._lowlevel_server),
        FastThing(transport=FastThing(server=FastThing(_mcp_server=make_stall()))),
    ],
    ids=["transport", "client", "configuration", "server", "client of a server"],
)
async def test_000_7_what_fastmcp_has_is_understood(
    closing: AgentlyToolManager, given: FastThing
) -> None:
    await closing.async_use_mcp(given)

    assert await closing.async_call_tool("add", {"a": 40}) == {"result": 42}


async def test_000_7_fastmcps_transports_to_a_url(
    transport: str, url: str, visits: Seen, closing: AgentlyToolManager
) -> None:
    kind = SSEThing if transport == "sse" else FastThing
    await closing.async_use_mcp(kind(url=url, headers={"X-Key": "k1"}, auth=None))

    assert await closing.async_call_tool("add", {"a": 40}) == {"result": 42}
    assert {request.get("x-key") for request in visits.requests} == {"k1"}


async def test_000_7_an_unknown_thing_of_fastmcp_is_refused(closing: AgentlyToolManager) -> None:
    with pytest.raises(InvalidSource):
        await closing.async_use_mcp(FastThing())


# 000.8


def block_server(*content: Any, structured: Any = None, error: bool = False) -> Server[Any]:
    """A server whose one tool answers with just that."""

    async def list_tools(context: Any, params: Any) -> mcp_types.ListToolsResult:
        tool = mcp_types.Tool(name="give", input_schema={"type": "object"})
        return mcp_types.ListToolsResult(tools=[tool])

    async def call_tool(context: Any, params: Any) -> mcp_types.CallToolResult:
        facts = {} if structured is None else {"structured_content": structured}
        return mcp_types.CallToolResult(content=list(content), is_error=error, **facts)

    return Server("giver", on_list_tools=list_tools, on_call_tool=call_tool)


def text(said: str) -> mcp_types.TextContent:
    return mcp_types.TextContent(type="text", text=said)


IMAGE = {"type": "image", "data": "aW1n", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "c25k", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}}


@pytest.mark.parametrize(
    ("server", "result"),
    [
        (block_server(text("no luck"), error=True), {"error": "no luck"}),
        (block_server(text("x"), structured={"a": 1}, error=True), {"error": "x"}),
        (block_server(text("shown"), structured={"n": 1}), {"n": 1}),
        (block_server(structured={"n": 1}), {"n": 1}),
        (block_server(text("shown"), structured={}), "shown"),
        (block_server(text('{"n": [1]}')), {"n": [1]}),
        (block_server(text("7"), text("8")), 7),
        (block_server(text("not JSON {")), "not JSON {"),
        (block_server(text("")), ""),
        (block_server(text("[" * 100_000)), None),
        (block_server(mcp_types.ImageContent.model_validate(IMAGE)), IMAGE),
        (block_server(mcp_types.AudioContent.model_validate(AUDIO), text("more")), AUDIO),
        (block_server(mcp_types.ResourceLink.model_validate(LINK)), LINK),
        (block_server(mcp_types.EmbeddedResource.model_validate(RESOURCE)), RESOURCE),
        (block_server(), None),
        (block_server(structured={}), None),
    ],
)
async def test_000_8_results_of_servers(
    closing: AgentlyToolManager, server: Any, result: Any
) -> None:
    await closing.async_use_mcp(server)

    assert await closing.async_call_tool("give", {}) == result


async def test_000_8_what_goes_wrong_before_the_server_answers(
    closing: AgentlyToolManager,
) -> None:
    await closing.async_use_mcp(make_stall())

    refused = await closing.async_call_tool("add", {"a": "x"})
    assert list(refused) == ["error"]
    closing.toolbox.rules.deny("add")
    assert (await closing.async_call_tool("add", {"a": 1})).startswith("Error: ")
    await closing.toolbox.mcp["stall"].close()
    assert (await closing.async_call_tool("fail", {"why": "?"})).startswith("Error: ")


async def test_000_8_the_connection_is_kept(closing: AgentlyToolManager) -> None:
    await closing.async_use_mcp(SHOP)

    first = await closing.async_call_tool("pid", {})
    assert first == await closing.async_call_tool("pid", {})


# 000.9


@pytest.mark.parametrize(
    "empty", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}]
)
def test_000_9_no_arguments(empty: Any) -> None:
    assert DataFormatter.from_schema_to_kwargs_format(empty) is None


def test_000_9_arguments_in_short_form() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "title": "A", "minimum": 1, "description": "one"},
            "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "c": {"type": "string"},
        },
        "additionalProperties": {"type": "number", "title": "X", "description": "more"},
    }
    before = repr(schema)
    assert DataFormatter.from_schema_to_kwargs_format(schema) == {
        "a": ("integer", "minimum: 1;description: one"),
        "b": (Any, "anyOf: [{'type': 'string'}, {'type': 'null'}]"),
        "c": ("string", ""),
        "<*>": ("number", "description: more"),
    }
    assert repr(schema) == before


def test_000_9_additional_properties_and_bad_schemas() -> None:
    shift = DataFormatter.from_schema_to_kwargs_format
    assert shift({"type": "object", "additionalProperties": True}) == {"<*>": (Any, "")}
    assert shift({"type": "object", "additionalProperties": False}) is None
    with pytest.raises(KeyError):
        shift({"properties": {}})
    with pytest.raises(TypeError):
        shift({"type": "array"})


# 000.10


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Place(BaseModel):
    name: str = Field(description="its name")
    at: list[int]


@pytest.mark.parametrize(
    ("value", "plain", "typed"),
    [
        (1, 1, 1),
        (None, None, None),
        ("a", "a", "a"),
        (1.5, 1.5, 1.5),
        (True, True, True),
        (datetime.date(2026, 1, 2), "2026-01-02", "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3), "2026-01-02T03:00:00", "2026-01-02T03:00:00"),
        (int, "int", int),
        (list[int], "list[int]", list[int]),
        (dict[str, int], "dict[str, int]", dict[str, int]),
        (tuple[int, str], "tuple[int, str]", tuple[int, str]),
        (int | None, "int | None", int | None),
        (Optional[int], "int | None", Optional[int]),  # noqa: UP045
        (Literal["a", "b"], "Literal[a, b]", Literal["a", "b"]),
        (list[int | None], "list[int | None]", list[int | None]),
        (Colour, "Literal[red, 2]", Colour),
        (Place, {"name": ("str", "its name"), "at": ("list[int]",)}, ...),
        ({"a": int, 1: [str]}, {"a": "int", "1": ["str"]}, {"a": int, "1": [str]}),
        ((int, "x"), ("int", "x"), (int, "x")),
        ({"x"}, {"x"}, {"x"}),
    ],
)
def test_000_10_values_as_data(value: Any, plain: Any, typed: Any) -> None:
    assert DataFormatter.sanitize(value) == plain
    if typed is not ...:
        assert DataFormatter.sanitize(value, remain_type=True) == typed


def test_000_10_a_model_keeps_its_types_where_asked() -> None:
    assert DataFormatter.sanitize(Place, remain_type=True) == {
        "name": (str, "its name"),
        "at": (list[int],),
    }


def test_000_10_anything_else_is_its_text() -> None:
    assert DataFormatter.sanitize(complex(1, 2)) == "(1+2j)"


# 000.11


def test_000_11_without_the_extra_the_first_use_says_what_to_install() -> None:
    program = textwrap.dedent(
        """
        import asyncio, sys
        sys.modules["mcp"] = None
        from wieldy.dialects.agently import AgentlyToolManager
        tools = AgentlyToolManager()
        tools.register("add", None, None, lambda: 3)
        assert tools.call_tool("add", {}) == 3
        for use in (tools.use_mcp, lambda source: asyncio.run(tools.async_use_mcp(source))):
            try:
                use("server.py")
            except ImportError as error:
                print(error)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )

    said = 'MCP needs an extra: pip install "wieldy[mcp]"'
    assert (done.stdout.splitlines(), done.stderr) == ([said, said], "")


# One toolbox, several ways in.


async def test_a_shared_toolbox_is_called_from_both_sides() -> None:
    box = Toolbox()
    tools = AgentlyToolManager(toolbox=box)
    tools.tool_func(add)
    box.add(add_later, tags={"math"}, group="basic")
    assert (await box.call("add", {"a": 1})).value == 3
    assert await tools.async_call_tool("add_later", {"a": 1}) == 3
    assert await tools.async_call_tool("add_later", {"a": "x"}) == (
        "Error: " + (await box.call("add_later", {"a": "x"})).text
    )
    assert tools.get_tool_info("math") == {
        "add_later": {
            "name": "add_later",
            "desc": "Add two numbers, later.",
            "kwargs": {"a": ("integer", ""), "b": ("integer", "default: 2")},
        }
    }
    parameters = box.schemas("openai")[0]["function"]["parameters"]
    assert parameters["properties"]["b"] == {"type": "integer", "description": "Default: 2"}
    assert parameters["required"] == ["a"]


async def test_structured_content_comes_as_the_server_sends_it(closing: AgentlyToolManager) -> None:
    await closing.async_use_mcp(raw("counts"))

    assert await closing.async_call_tool("count") == {"result": 3}
    told = await closing.async_call_tool("miscount")
    assert "does not fit its output schema" in told["error"]


def test_000_1_structures_that_are_copies_say_so_when_they_are_changed() -> None:
    manager = AgentlyToolManager()
    manager.register("add", "Add.", {"a": (int, "a number")}, add, tags="math")
    changes: list[Callable[[], Any]] = [
        lambda: manager.tool_funcs.update(other=add),
        lambda: manager.tool_info.pop("add"),
        lambda: manager.tool_info["add"].update(desc="x"),
        lambda: manager.tool_info["add"]["kwargs"].clear(),
        lambda: manager.tag_mappings["math"].add("other"),
        lambda: manager.tag_mappings.setdefault("new", set()),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="a copy that can't be changed in place"):
            change()
    manager.get_tool_info()["add"]["desc"] = "mine"
    assert manager.tool_info["add"]["desc"] == "Add."
    assert manager.tag_mappings == {"math": {"add"}}
