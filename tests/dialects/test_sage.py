"""The contract of document 002, point by point."""

import asyncio
import inspect
import queue
import re
import shlex
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

import wieldy.dialects.sage as sage
from tests.mcp.conftest import SHOP, raw
from tests.mcp.waiting import alive
from wieldy import Outcome, Toolbox
from wieldy.dialects.sage import MCPRegistry, RemoteMCPAdapter

SOON = 120


class EchoTool:
    """The document's own tool."""

    name = "echo"
    description = "echo back"
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }

    def call(self, args: dict[str, Any]) -> dict[str, Any]:
        return {"output": args["text"]}


class BadTool:
    """What can't be registered."""


class Made:
    """A tool object around a function of the arguments."""

    def __init__(self, name: str, call: Callable[[dict[str, Any]], Any], **facts: Any) -> None:
        self.name = name
        self.call = call
        vars(self).update(facts)


def test_exports_are_exactly_those_of_the_contract() -> None:
    assert sorted(sage.__all__) == ["MCPRegistry", "RemoteMCPAdapter"]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (
            MCPRegistry.__init__,
            "validate allow deny timeout retries record max_concurrency max_queue toolbox",
        ),
        (MCPRegistry.register, "tool_obj validate timeout retries"),
        (MCPRegistry.describe, ""),
        (MCPRegistry.call, "name arguments"),
        (MCPRegistry.acall, "name arguments"),
        (MCPRegistry.execute, "data"),
        (RemoteMCPAdapter.__init__, "name description input_schema server_cmd url"),
    ],
)
def test_parameters_have_the_names_of_the_contract(
    function: Callable[..., Any], names: str
) -> None:
    assert list(inspect.signature(function).parameters)[1:] == names.split()


# The document's own tests.


def test_register_and_describe() -> None:
    reg = MCPRegistry()
    reg.register(EchoTool())
    desc = reg.describe()
    assert "echo" in desc
    assert "input_schema" in desc["echo"]


def test_call_success() -> None:
    reg = MCPRegistry()
    reg.register(EchoTool())
    assert reg.call("echo", {"text": "hi"}) == {"output": "hi"}


def test_call_missing_tool() -> None:
    reg = MCPRegistry()
    with pytest.raises(KeyError):
        reg.call("nope", {})


def test_register_invalid() -> None:
    reg = MCPRegistry()
    with pytest.raises(TypeError):
        reg.register(BadTool())


def test_the_calculator_of_the_document() -> None:
    class Calculator:
        name = "calculator"
        description = "Evaluate a simple arithmetic expression"
        input_schema: ClassVar[dict[str, Any]] = {
            "type": "object",
            "properties": {"expr": {"type": "string"}},
            "required": ["expr"],
        }

        def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"output": str(eval(arguments["expr"], {"__builtins__": {}}))}

    reg = MCPRegistry()
    reg.register(Calculator())
    assert reg.describe() == {
        "calculator": {
            "description": "Evaluate a simple arithmetic expression",
            "input_schema": Calculator.input_schema,
        }
    }
    assert reg.call("calculator", {"expr": "21*2+5"}) == {"output": "47"}


# 002.1


@pytest.mark.parametrize(
    "bad",
    [object(), Made("", len), Made(3, len), Made("x", None), "echo", None],  # type: ignore[arg-type]
)
def test_002_1_an_object_without_name_or_call_is_a_type_error(bad: Any) -> None:
    with pytest.raises(TypeError, match="Tool must have `name` and `call"):
        MCPRegistry().register(bad)


def test_002_1_the_same_name_replaces() -> None:
    reg = MCPRegistry()
    reg.register(Made("t", lambda arguments: 1))
    reg.register(Made("t", lambda arguments: 2, description="second"))
    assert reg.call("t", {}) == 2
    assert reg.describe() == {"t": {"description": "second", "input_schema": {}}}


def test_002_1_descriptions_keep_the_order_and_fill_what_is_absent() -> None:
    reg = MCPRegistry()
    for name in ("b", "a", "c"):
        reg.register(Made(name, len))
    empty = {"description": "", "input_schema": {}}
    assert list(reg.describe().items()) == [("b", empty), ("a", empty), ("c", empty)]


@pytest.mark.parametrize("value", [None, 0, "", {"output": 1}, object(), [1], b"x", int])
def test_002_1_gives_what_the_tool_returns(value: Any) -> None:
    reg = MCPRegistry()
    reg.register(Made("t", lambda arguments: value))
    assert reg.call("t", {}) is value


def test_002_1_an_exception_is_raised_as_it_is() -> None:
    raised = ZeroDivisionError("oh")

    def fail(arguments: dict[str, Any]) -> None:
        raise raised

    async def fail_later(arguments: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        raise raised

    reg = MCPRegistry()
    reg.register(Made("now", fail))
    reg.register(Made("later", fail_later))
    for name in ("now", "later"):
        with pytest.raises(ZeroDivisionError) as caught:
            reg.call(name, {})
        assert caught.value is raised


def test_002_1_a_key_error_of_the_tool_is_not_a_missing_tool() -> None:
    reg = MCPRegistry()
    reg.register(EchoTool())
    with pytest.raises(KeyError) as caught:
        reg.call("echo", {})
    assert caught.value.args == ("text",)


def test_002_1_a_blocking_tool_runs_on_the_callers_own_thread() -> None:
    reg = MCPRegistry()
    reg.register(Made("where", lambda arguments: threading.get_ident()))
    assert reg.call("where", {}) == threading.get_ident()


async def test_002_1_a_call_inside_a_running_loop_works() -> None:
    async def answer(arguments: dict[str, Any]) -> int:
        await asyncio.sleep(0)
        return 42

    reg = MCPRegistry()
    reg.register(Made("async", answer))
    assert reg.call("async", {}) == 42
    assert await reg.acall("async", {}) == 42


@pytest.mark.parametrize(
    "sent",
    [
        123,
        "text",
        '{"a": 1}',
        b"bytes",
        None,
        [1, 2],
        {1: "a"},
        {1: "a", "b": 2},
        {("x", 1): 2, None: 3},
        {"$aside": 1},
        {"$aside": {"whole": 1}},
        {"$aside": {"pairs": [["a", 1]]}, 2: 3},
    ],
)
async def test_002_2_call_passes_anything_on(sent: Any) -> None:
    reg = MCPRegistry()
    reg.register(Made("same", lambda arguments: [arguments]))
    assert reg.call("same", sent) == [sent]
    assert await reg.acall("same", sent) == [sent]
    assert reg.call("same") == [{}]


@pytest.mark.parametrize("sent", [123, "text", '{"text": "hi"}', None, [1], {1: "a", "text": "x"}])
def test_002_2_what_is_validated_must_be_a_dict(sent: Any) -> None:
    ran: list[Any] = []
    reg = MCPRegistry(record=True)
    reg.register(Made("strict", ran.append, input_schema={"type": "object"}), validate=True)
    with pytest.raises(ValueError, match="Invalid arguments for strict: arguments: expected"):
        reg.call("strict", sent)
    assert ran == []
    assert [record["ok"] for record in reg.records] == [False]


@pytest.mark.parametrize(
    "sent",
    [
        {"path": "/etc/passwd", 1: 2},
        {"path": "/etc/passwd", "$aside": {"pairs": []}},
        {"path": "/etc/passwd", "$aside": {"whole": 1}},
    ],
)
def test_002_2_what_has_no_name_hides_nothing_from_a_rule(sent: Any) -> None:
    box, ran = Toolbox(), list[Any]()
    box.rules.deny("open", where={"path": "/etc/*"})
    reg = MCPRegistry(toolbox=box)
    reg.register(Made("open", ran.append))
    with pytest.raises(PermissionError):
        reg.call("open", sent)
    assert ran == []


@pytest.mark.parametrize(
    "sent",
    [
        {"$aside": {"whole": {"path": "/etc/passwd"}}},
        {"$aside": {"pairs": [["path", "/etc/passwd"]]}},
        {"$aside": {"pairs": "path"}},
        {"$aside": {"pairs": [["path"]]}},
    ],
)
def test_002_2_a_caller_of_the_toolbox_cannot_pass_a_name_beside_the_rules(sent: Any) -> None:
    box, ran = Toolbox(), list[Any]()
    box.rules.deny("open", where={"path": "/etc/*"})
    MCPRegistry(toolbox=box).register(Made("open", ran.append))
    box.call_sync("open", sent)
    assert ran == [sent]


async def test_002_2_what_waits_for_approval_is_passed_on_as_it_was_sent() -> None:
    box = Toolbox()
    box.rules.ask("same")
    reg = MCPRegistry(toolbox=box)
    reg.register(Made("same", lambda arguments: [arguments]))
    for sent in (123, {1: 2, "a": 3}):
        with pytest.raises(PermissionError):
            await reg.acall("same", sent)
        (parked,) = await box.pending()
        assert (await box.approve(parked.id)).value == [sent]


# Generators


def counting(arguments: Any) -> Iterator[int]:
    yield from range(3)


async def counting_later(arguments: Any) -> AsyncIterator[int]:
    for n in range(3):
        yield n


async def test_002_1_generators_are_given_as_they_are() -> None:
    async def made_later(arguments: Any) -> Iterator[int]:
        await asyncio.sleep(0)
        return counting(arguments)

    heard: list[Outcome] = []
    reg = MCPRegistry(toolbox=Toolbox(observers=[heard.append]))
    reg.register(Made("gen", counting))
    reg.register(Made("async", counting_later))
    reg.register(Made("later", made_later))
    reg.register(Made("made", lambda arguments: counting(arguments)))
    for name in ("gen", "later", "made"):
        for given in (reg.call(name, {}), await reg.acall(name, {})):
            assert inspect.isgenerator(given)
            assert list(given) == [0, 1, 2]
    for given in (reg.call("async", {}), await reg.acall("async", {})):
        assert [n async for n in given] == [0, 1, 2]
    assert all(outcome.ok for outcome in heard)


async def test_002_1_the_toolbox_runs_a_generator_to_its_end() -> None:
    box = Toolbox()
    reg = MCPRegistry(toolbox=box)
    reg.register(Made("gen", counting))

    async def nested(arguments: Any) -> list[Any]:
        inside = await box.call("gen", {})
        return [inside.value, list(await reg.acall("gen", {}))]

    reg.register(Made("nested", nested))
    assert (await box.call("gen", {})).value == [0, 1, 2]
    assert await reg.acall("nested", {}) == [[0, 1, 2], [0, 1, 2]]


# 002.2


@pytest.mark.parametrize(
    "data",
    [None, "describe", {}, {"op": "describe"}, {"foo": 1}, {"op": "describe", "name": "echo"}],
)
def test_002_2_execute_describes(data: Any) -> None:
    reg = MCPRegistry()
    reg.register(EchoTool())
    assert reg.execute(data) == reg.describe()


@pytest.mark.parametrize(
    "data",
    [
        {"name": "echo", "arguments": {"text": "hi"}},
        {"op": "call", "name": "echo", "arguments": {"text": "hi"}},
        {"op": None, "name": "echo", "arguments": {"text": "hi"}, "why": "?"},
    ],
)
def test_002_2_execute_calls(data: Any) -> None:
    reg = MCPRegistry()
    reg.register(EchoTool())
    assert reg.execute(data) == {"output": "hi"}


def test_002_2_arguments_may_be_left_out() -> None:
    reg = MCPRegistry()
    reg.register(Made("t", lambda arguments: arguments))
    assert reg.execute({"name": "t"}) == {}


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ({"op": "remove", "name": "echo"}, ValueError, "Unsupported op: 'remove'"),
        ({"op": ["call"], "name": "echo"}, ValueError, "Unsupported op"),
        ({"op": "call"}, ValueError, "Missing or invalid 'name'"),
        ({"op": None}, ValueError, "Missing or invalid 'name'"),
        ({"name": ""}, ValueError, "Missing or invalid 'name'"),
        ({"name": 3}, ValueError, "Missing or invalid 'name'"),
        ({"name": "echo", "arguments": [1]}, TypeError, "'arguments' must be a dict"),
        ({"name": "echo", "arguments": "text"}, TypeError, "'arguments' must be a dict"),
        ({"name": "echo", "arguments": None}, TypeError, "'arguments' must be a dict"),
        ([1], TypeError, "expects None/'describe' or a dict"),
        ([], TypeError, "expects None/'describe' or a dict"),
        (7, TypeError, "expects None/'describe' or a dict"),
        ("echo", TypeError, "expects None/'describe' or a dict"),
        ({"name": "nope"}, KeyError, "Tool not found: nope"),
    ],
)
def test_002_2_bad_data(data: Any, error: type[Exception], said: str) -> None:
    reg = MCPRegistry()
    reg.register(EchoTool())
    with pytest.raises(error, match=re.escape(said)):
        reg.execute(data)


@pytest.mark.parametrize("name", [3, None, ("echo",)])
def test_002_2_a_name_that_is_no_text_is_not_found(name: Any) -> None:
    reg = MCPRegistry(deny=["x*"])
    reg.register(EchoTool())
    with pytest.raises(KeyError):
        reg.call(name, {})


# 002.3

ADD = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SHOP_COMMAND = [sys.executable, SHOP]


@pytest.fixture
def remote() -> Iterator[Callable[..., RemoteMCPAdapter]]:
    """Makes adapters, and closes them."""
    made: list[RemoteMCPAdapter] = []

    def make(name: str, **place: Any) -> RemoteMCPAdapter:
        made.append(RemoteMCPAdapter(name, "far away", ADD, **place))
        return made[-1]

    yield make
    for adapter in made:
        adapter.close()


@pytest.mark.parametrize(
    "command", [SHOP_COMMAND, tuple(SHOP_COMMAND), shlex.join(SHOP_COMMAND)], ids=type
)
def test_002_3_a_tool_of_a_server_process(remote: Any, command: Any) -> None:
    reg = MCPRegistry()
    reg.register(remote("add", server_cmd=command))

    assert reg.describe() == {"add": {"description": "far away", "input_schema": ADD}}
    assert reg.call("add", {"a": 40}) == {"result": 42}
    assert reg.execute({"name": "add", "arguments": {"a": 1, "b": 1}}) == {"result": 2}


async def test_002_3_a_tool_behind_a_url(url: str, remote: Any) -> None:
    reg = MCPRegistry()
    reg.register(remote("add", url=url))

    assert await reg.acall("add", {"a": 40}) == {"result": 42}
    assert reg.call("add", {"a": 1}) == {"result": 3}


def test_002_3_a_remote_error_is_a_runtime_error(remote: Any) -> None:
    failing = remote("fail", server_cmd=SHOP_COMMAND)
    reg = MCPRegistry()
    reg.register(failing)

    with pytest.raises(RuntimeError, match="fail: Error executing tool fail"):
        failing.call({"why": "?"})
    with pytest.raises(RuntimeError, match="fail: Error executing tool fail"):
        reg.call("fail", {"why": "?"})


@pytest.mark.parametrize(
    ("name", "place", "said"),
    [
        ("add", {"server_cmd": raw("die")}, "no licence found"),
        ("add", {"server_cmd": ["/nowhere/at-all"]}, "nowhere"),
        ("add", {"url": "http://127.0.0.1:9/mcp"}, "add: "),
        ("sell", {"server_cmd": SHOP_COMMAND}, "There is no tool named 'sell'"),
        ("add", {"server_cmd": raw("error")}, "There is no tool"),
        ("echo", {"server_cmd": raw("error")}, "the shelf is empty"),
        ("add", {"server_cmd": SHOP_COMMAND}, "add: "),
    ],
)
def test_002_3_whatever_goes_wrong_there_is_a_runtime_error(
    remote: Any, name: str, place: dict[str, Any], said: str
) -> None:
    with pytest.raises(RuntimeError, match=said):
        remote(name, **place).call({"a": "not a number"})


@pytest.mark.parametrize("place", [{}, {"server_cmd": ["x"], "url": "http://127.0.0.1:9"}])
def test_002_3_either_a_command_or_a_url(place: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either server_cmd"):
        RemoteMCPAdapter("add", "", {}, **place)


def test_002_3_the_connection_is_kept_shared_and_made_anew(remote: Any) -> None:
    number = remote("pid", server_cmd=SHOP_COMMAND)
    with ThreadPoolExecutor(4) as pool:
        (first,) = {answer["result"] for answer in pool.map(lambda _: number.call({}), range(8))}

    number.close()
    second = number.call({})["result"]

    assert first != second
    assert not alive(first)


# 002.4

PAGED = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "where": {"type": "object", "properties": {"lang": {"type": "string", "default": "en"}}},
    },
    "required": ["query", "limit"],
    "additionalProperties": False,
}


def test_002_4_validation_is_strict_and_fills_in_defaults() -> None:
    reg = MCPRegistry(validate=True)
    reg.register(Made("find", lambda arguments: arguments, input_schema=PAGED))
    assert reg.call("find", {"query": "x"}) == {"query": "x", "limit": 10}
    assert reg.call("find", {"query": "x", "limit": 2, "where": {}}) == {
        "query": "x",
        "limit": 2,
        "where": {"lang": "en"},
    }
    for wrong in ({}, {"query": 1}, {"query": "x", "limit": "3"}, {"query": "x", "other": 1}):
        with pytest.raises(ValueError, match="find"):
            reg.call("find", wrong)
    assert reg.describe()["find"]["input_schema"] == PAGED


def test_002_4_validation_is_off_by_default_and_per_tool() -> None:
    reg = MCPRegistry()
    reg.register(Made("loose", lambda arguments: arguments, input_schema=PAGED))
    reg.register(Made("strict", lambda arguments: arguments, input_schema=PAGED), validate=True)
    assert reg.call("loose", {"query": 1, "z": None}) == {"query": 1, "z": None}
    with pytest.raises(ValueError, match="query"):
        reg.call("strict", {"query": 1})


def test_002_4_defaults_count_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"n": {"default": 1}}, "required": ["n"]}
    schema = {
        "type": "object",
        "$defs": {"inner": inner},
        "properties": {
            "one": {"$ref": "#/$defs/inner"},
            "many": {"type": "array", "items": inner},
        },
        "required": ["one"],
    }
    reg = MCPRegistry(validate=True)
    reg.register(Made("t", lambda arguments: arguments, input_schema=schema))
    sent = {"one": {}, "many": [{}, {"n": 2}]}
    assert reg.call("t", sent) == {"one": {"n": 1}, "many": [{"n": 1}, {"n": 2}]}
    assert sent == {"one": {}, "many": [{}, {"n": 2}]}


def test_002_4_a_default_belongs_to_one_call() -> None:
    schema = {"type": "object", "properties": {"items": {"type": "array", "default": []}}}
    reg = MCPRegistry(validate=True)
    reg.register(Made("add", lambda arguments: arguments["items"], input_schema=schema))
    reg.call("add", {}).append(1)
    assert reg.call("add", {}) == []


def test_002_4_denied_tools_are_refused_and_not_described() -> None:
    ran: list[Any] = []
    reg = MCPRegistry(allow=["read_*", "echo"], deny=["read_secret"])
    for name in ("read_file", "read_secret", "write_file"):
        reg.register(Made(name, ran.append))
    reg.register(EchoTool())
    assert list(reg.describe()) == ["read_file", "echo"]
    for name in ("read_secret", "write_file"):
        with pytest.raises(PermissionError):
            reg.call(name, {})
    assert ran == []
    reg.call("read_file", {})
    assert ran == [{}]


def test_002_4_a_timeout_is_a_timeout_error() -> None:
    never = threading.Event()

    async def hang(arguments: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    reg = MCPRegistry(timeout=0.02)
    reg.register(Made("hang", hang))
    reg.register(Made("block", lambda arguments: never.wait(SOON)), timeout=0.03)
    for name in ("hang", "block"):
        with pytest.raises(TimeoutError):
            reg.call(name, {})
    never.set()


def test_002_4_retries_are_attempts_after_the_first() -> None:
    tried: list[int] = []

    def fail(arguments: dict[str, Any]) -> None:
        tried.append(1)
        raise OSError("down")

    reg = MCPRegistry(retries=2)
    reg.register(Made("twice", fail))
    reg.register(Made("once", fail), retries=0)
    with pytest.raises(OSError, match="down"):
        reg.call("twice", {})
    assert len(tried) == 3
    with pytest.raises(OSError, match="down"):
        reg.call("once", {})
    assert len(tried) == 4


def test_002_4_records_say_how_each_call_went() -> None:
    def fail(arguments: dict[str, Any]) -> None:
        raise ValueError("bad")

    reg = MCPRegistry(record=True)
    reg.register(Made("ok", lambda arguments: {"output": 1, "meta": {"cost": 2}}))
    reg.register(Made("plain", lambda arguments: 1))
    reg.register(Made("bad", fail))
    reg.call("ok", {})
    reg.call("plain", {})
    with pytest.raises(ValueError, match="bad"):
        reg.call("bad", {})
    with pytest.raises(KeyError):
        reg.call("nope", {})
    kept = [{**record, "ms": record["ms"] >= 0} for record in reg.records]
    assert [(each["name"], each["ok"], each["meta"], each["ms"]) for each in kept] == [
        ("ok", True, {"cost": 2}, True),
        ("plain", True, None, True),
        ("bad", False, None, True),
        ("nope", False, None, True),
    ]
    assert [record["error"] is None for record in reg.records] == [True, True, False, False]
    assert "bad" in reg.records[2]["error"]
    assert MCPRegistry().records == []


async def test_002_4_denied_calls_are_in_the_records() -> None:
    box = Toolbox()
    box.rules.deny("ruled_out")
    reg = MCPRegistry(deny=["rm_*"], record=True, toolbox=box)
    for name in ("rm_all", "ruled_out"):
        reg.register(Made(name, len))
        with pytest.raises(PermissionError):
            reg.call(name, {})
        with pytest.raises(PermissionError):
            await reg.acall(name, {})
    assert [(each["name"], each["ok"]) for each in reg.records] == [
        ("rm_all", False),
        ("rm_all", False),
        ("ruled_out", False),
        ("ruled_out", False),
    ]
    assert all(record["error"] and record["ms"] >= 0 for record in reg.records)


async def test_002_4_blocking_and_awaiting_callers_stand_in_one_queue() -> None:
    go_on, began = threading.Event(), threading.Event()

    def hold(arguments: dict[str, Any]) -> str:
        began.set()
        assert go_on.wait(SOON)
        return "done"

    reg = MCPRegistry(max_concurrency=1, max_queue=0)
    reg.register(Made("hold", hold))
    first = asyncio.create_task(asyncio.to_thread(reg.call, "hold", {}))
    assert await asyncio.to_thread(began.wait, SOON)
    with pytest.raises(queue.Full):
        await reg.acall("hold", {})
    with pytest.raises(queue.Full):
        await asyncio.to_thread(reg.call, "hold", {})
    go_on.set()
    assert await first == "done"
    assert reg.call("hold", {}) == "done", "the turn came back"


async def test_002_4_a_blocking_call_that_would_wait_for_its_own_loop_is_refused() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def hold(arguments: dict[str, Any]) -> str:
        began.set()
        await go_on.wait()
        return "done"

    reg = MCPRegistry(max_concurrency=1)
    reg.register(Made("hold", hold))
    first = asyncio.create_task(reg.acall("hold", {}))
    await began.wait()
    with pytest.raises(RuntimeError, match="await"):
        reg.call("hold", {})
    go_on.set()
    assert await first == "done"


async def test_002_4_a_full_queue_turns_calls_away() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def hold(arguments: dict[str, Any]) -> str:
        began.set()
        await go_on.wait()
        return "done"

    reg = MCPRegistry(max_concurrency=1, max_queue=1)
    reg.register(Made("hold", hold))
    first: asyncio.Task[Any] = asyncio.create_task(reg.acall("hold", {}))
    await began.wait()
    second = asyncio.create_task(reg.acall("hold", {}))
    await asyncio.sleep(0)
    with pytest.raises(queue.Full):
        await reg.acall("hold", {})
    second.cancel()
    await asyncio.wait((second,))
    third = asyncio.create_task(reg.acall("hold", {}))
    await asyncio.sleep(0)
    go_on.set()
    assert [await first, await third] == ["done", "done"]
    assert await reg.acall("hold", {}) == "done", "every turn came back"


def test_002_4_calls_beyond_the_limit_wait_and_nested_ones_do_not() -> None:
    running = most = 0
    lock = threading.Lock()
    reg = MCPRegistry(max_concurrency=2)

    def work(arguments: dict[str, Any]) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        inner = reg.call("inner", {})
        with lock:
            running -= 1
        return inner

    reg.register(Made("work", work))
    reg.register(Made("inner", lambda arguments: 7))
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: reg.call("work", {}), range(40))) == [7] * 40
    assert most <= 2


@pytest.mark.parametrize("wrong", [{"max_concurrency": 0}, {"max_queue": 1}])
def test_002_4_limits_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="max_"):
        MCPRegistry(**wrong)


# One toolbox, several ways in.


def test_a_shared_toolbox_is_called_from_both_sides() -> None:
    heard: list[Outcome] = []
    box = Toolbox(observers=[heard.append])
    reg = MCPRegistry(toolbox=box)
    reg.register(EchoTool())

    @box.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    assert box.call_sync("echo", {"text": "hi"}).value == {"output": "hi"}
    assert reg.call("add", {"a": 1}) == 3
    assert reg.describe()["add"]["description"] == "Add two numbers."
    with pytest.raises(ValueError, match="a"):
        reg.call("add", {"a": "x"})
    assert [outcome.call.tool for outcome in heard] == ["echo", "add", "add"]


def test_a_tool_that_needs_approval_says_which_call_waits() -> None:
    box = Toolbox()
    reg = MCPRegistry(toolbox=box)
    reg.register(EchoTool())
    box.rules.ask("echo")
    with pytest.raises(PermissionError, match="call_"):
        reg.call("echo", {"text": "hi"})
    box.rules.deny("echo")
    with pytest.raises(PermissionError, match="denied"):
        reg.call("echo", {"text": "hi"})
