"""One program for SAGE's MCPRegistry, on the original and on the dialect.

python sage_program.py original    # where isage-agentic is installed
python sage_program.py wieldy
"""

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Iterator
from typing import Any

from report import Side, main


def load(side: str) -> Side:
    """The names of one side."""
    if side == "wieldy":
        from wieldy.dialects.sage import MCPRegistry

        return Side(MCPRegistry)
    # The package loads far more than the registry needs, so the module is loaded by itself.
    package = importlib.util.find_spec("sage_agentic")
    assert package is not None
    (folder,) = package.submodule_search_locations or ()
    place = f"{folder}/agents/action/mcp_registry.py"
    spec = importlib.util.spec_from_file_location("mcp_registry", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Side(module.MCPRegistry)


class Echo:
    name = "echo"
    description = "Give back what came."
    input_schema = {"type": "object", "properties": {"x": {"type": "number"}}}  # noqa: RUF012

    def call(self, arguments: Any) -> Any:
        return {"echo": arguments}


class Made:
    """A tool object around a function of the arguments."""

    def __init__(self, name: Any, call: Any, **facts: Any) -> None:
        self.name = name
        self.call = call
        vars(self).update(facts)


class NoName:
    def call(self, arguments: Any) -> Any:
        return arguments


class NoCall:
    name = "no_call"


def fail(arguments: Any) -> Any:
    raise ZeroDivisionError("no")


def count(arguments: Any) -> Iterator[int]:
    yield from range(arguments["to"])


async def count_later(arguments: Any) -> Any:
    for n in range(arguments["to"]):
        yield n


async def answer(arguments: Any) -> int:
    return 42


def said(step: Callable[[], Any]) -> Callable[[], str]:
    """What a step raises, with the words that programs look for."""

    def try_it() -> str:
        try:
            return repr(step())
        except Exception as error:
            words = str(error.args[0]) if error.args else ""
            known = [each for each in WORDS if each in words]
            return f"{type(error).__name__}: {known}"

    return try_it


WORDS = (
    "Tool must have `name` and `call(arguments)`",
    "Tool not found: nope",
    "Unsupported op",
    "Missing or invalid 'name'",
    "'arguments' must be a dict",
    "expects None/'describe' or a dict",
)
SENT = {
    "a dict": {"x": 1},
    "an empty dict": {},
    "a number": 123,
    "text": "text",
    "JSON text": '{"x": 1}',
    "nothing": None,
    "a list": [1, 2],
    "numbers for keys": {1: "a"},
    "keys of both kinds": {1: "a", "b": 2},
}
DATA = {
    "nothing": None,
    "the word": "describe",
    "an empty dict": {},
    "op describe": {"op": "describe"},
    "op describe and more": {"op": "describe", "foo": 1},
    "op describe with a name": {"op": "describe", "name": "echo"},
    "other keys alone": {"foo": 1},
    "a call": {"name": "echo", "arguments": {"x": 1}},
    "op call": {"op": "call", "name": "echo", "arguments": {"x": 1}},
    "op None": {"op": None, "name": "echo", "arguments": {}},
    "no arguments": {"name": "echo"},
    "another op": {"op": "delete", "name": "echo"},
    "another op alone": {"op": "delete"},
    "op call without a name": {"op": "call"},
    "an empty name": {"name": ""},
    "a number for a name": {"name": 5},
    "an unknown name": {"name": "nope", "arguments": {}},
    "wrong arguments": {"name": "echo", "arguments": 123},
    "no arguments at all": {"name": "echo", "arguments": None},
    "a list": [],
    "a number": 7,
    "another word": "echo",
}


def steps(side: Side) -> Iterator[tuple[str, Any]]:
    """What is done, and what comes of it."""
    (make,) = side.names
    registry = make()
    yield "describe an empty registry", registry.describe
    yield "register a tool", lambda: registry.register(Echo())
    yield "register without a name", said(lambda: registry.register(NoName()))
    yield "register without a call", said(lambda: registry.register(NoCall()))
    yield "register what can't be called", said(lambda: make().register(Made("bad", 3)))
    yield "register under a number", said(lambda: make().register(Made(3, fail)))
    for name, call in (("fail", fail), ("count", count), ("later", count_later)):
        yield f"register {name}", lambda n=name, c=call: registry.register(Made(n, c))
    yield "the same name again", lambda: registry.register(Made("fail", fail, description="2"))
    yield "describe", registry.describe
    for name, value in SENT.items():
        yield f"call with {name}", lambda v=value: registry.call("echo", v)
    for name, value in DATA.items():
        yield f"execute {name}", said(lambda v=value: registry.execute(v))
    yield "call an unknown name", said(lambda: registry.call("nope", {}))
    yield "call a failing tool", said(lambda: registry.call("fail", {}))
    yield "the kind of a generator", lambda: type(registry.call("count", {"to": 3})).__name__
    yield "what a generator gives", lambda: list(registry.call("count", {"to": 3}))
    yield "a generator fails when it runs", lambda: type(registry.call("count", {})).__name__
    yield "an async generator", lambda: asyncio.run(_listed(registry.call("later", {"to": 3})))
    yield "register a coroutine", lambda: registry.register(Made("answer", answer))
    yield "call a coroutine", lambda: _plain(registry.call("answer", {}))


async def _listed(stream: Any) -> list[Any]:
    return [item async for item in stream]


def _plain(value: Any) -> Any:
    if asyncio.iscoroutine(value):
        value.close()
        return "a coroutine"
    return value


if __name__ == "__main__":
    main(steps, load, sys.argv)
