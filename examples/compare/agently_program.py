"""One program for Agently's ToolManager, on the original and on the dialect.

python agently_program.py original    # where agently is installed
python agently_program.py wieldy
"""

import asyncio
import datetime
import functools
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from report import Side, main


def load(side: str) -> Side:
    """The names of one side."""
    if side == "wieldy":
        from wieldy.dialects.agently import AgentlyToolManager, DataFormatter, FunctionShifter

        return Side(AgentlyToolManager, DataFormatter, FunctionShifter)
    from agently.builtins.plugins.ToolManager.AgentlyToolManager import (
        AgentlyToolManager as Original,
    )
    from agently.utils import DataFormatter, FunctionShifter, Settings

    return Side(lambda: Original(Settings()), DataFormatter, FunctionShifter)


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Place(BaseModel):
    name: str = Field(description="its name")
    at: list[int]


class Search:
    """Search a place."""

    def __call__(self, query: str) -> str:
        return f"found {query}"

    def find(self, query: Annotated[str, "what"], limit: int = 2) -> list[str]:
        """Find things."""
        return [query] * limit


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


async def add_later(a: int, b: int = 2) -> int:
    """Add two numbers, later."""
    await asyncio.sleep(0)
    return a + b


def fail(text: Annotated[str, "what", "to say"] = "no") -> None:
    raise ValueError(text)


def bounded(text: Annotated[str, "what", Field(min_length=1)]) -> str:
    return text


def times(a: int, b: int = 2) -> int:
    return a * b


def described(value: int | None = None, unit="m") -> Literal["a", "b"]:  # type: ignore[no-untyped-def]
    return "a"


def steps(side: Side) -> Iterator[tuple[str, Any]]:
    """What is done, and what comes of it."""
    make, formatter, shifter = side.names
    tools = make()
    yield (
        "register a function",
        lambda: tools.register(
            name="add",
            desc="Add.",
            kwargs={"a": (int, "first")},
            func=add,
            returns=int,
            tags="math",
        ),
    )
    yield "register by position", lambda: tools.register("p", "", {}, add)
    yield (
        "register with nothing but a function",
        lambda: tools.register(name="bare", desc=None, kwargs=None, func=add),
    )
    yield "what is known of it", lambda: tools.tool_info["add"]
    yield "what is known of the bare one", lambda: tools.tool_info["bare"]
    yield "tag it", lambda: tools.tag(["add"], ["basic", "math"])
    yield "tag a missing tool", lambda: tools.tag("nope", "x")
    yield "tools by tag", lambda: sorted(tools.get_tool_info("math"))
    yield "tools by several tags", lambda: sorted(tools.get_tool_info(["math", "none"]))
    yield "tools by an unknown tag", lambda: tools.get_tool_list("none")
    yield (
        "register the name again with other tags",
        lambda: tools.register(name="add", desc="", kwargs={}, func=add, tags=["again"]),
    )
    yield "tools by the tag of before", lambda: sorted(tools.get_tool_info("basic"))
    yield "tools by the tag of now", lambda: sorted(tools.get_tool_info("again"))
    yield "what the tags are", lambda: sorted(tools.tag_mappings)
    for function in (add_later, fail, described, bounded, Search().find):
        yield f"decorate {function.__name__}", functools.partial(tools.tool_func, function)
        yield f"what {function.__name__} takes", lambda f=function: tools.tool_info[f.__name__]
    yield "decorate a partial", lambda: tools.tool_func(functools.partial(times, b=5))
    yield "decorate an object", lambda: tools.tool_func(Search())
    yield "call", lambda: tools.call_tool("add", {"a": 1})
    yield "call a coroutine", lambda: tools.call_tool("add_later", {"a": 1, "b": 1})
    yield "call a method", lambda: tools.call_tool("find", {"query": "x"})
    yield "call a missing tool", lambda: tools.call_tool("nope", {})
    yield "call a failing tool", lambda: tools.call_tool("fail", {"text": "sorry"})
    yield "call without an argument", lambda: tools.call_tool("add", {})
    yield "call with one too many", lambda: tools.call_tool("add", {"a": 1, "z": 2})
    yield "call with a wrong type", lambda: tools.call_tool("add", {"a": "x"})
    yield "call with no kwargs at all", lambda: tools.call_tool("fail", None)
    yield "call from a coroutine", lambda: asyncio.run(tools.async_call_tool("add", {"a": 4}))
    yield "the function itself", lambda: tools.get_tool_func("add") is add
    yield "a missing function", lambda: tools.get_tool_func("nope")
    yield "a blocking form", lambda: tools.get_tool_func("add_later", shift="sync")(1)
    yield "an async form", lambda: asyncio.run(tools.get_tool_func("add", shift="async")(1))
    yield "syncify a method", lambda: shifter.syncify(Search().find)("x")
    yield "syncify a partial", lambda: shifter.syncify(functools.partial(add_later, 1))()
    yield from formats(formatter)


def formats(formatter: Any) -> Iterator[tuple[str, Any]]:
    """Values and schemas in short form."""
    values = {
        "a date": datetime.date(2026, 1, 2),
        "int": int,
        "list[int]": list[int],
        "dict[str, int]": dict[str, int],
        "int | None": int | None,
        "a literal": Literal["a", "b"],
        "an enum": Colour,
        "a model": Place,
        "a dict of types": {"a": int, 1: [str]},
        "a list of types": [int, "x"],
    }
    for name, value in values.items():
        yield f"sanitize {name}", lambda value=value: formatter.sanitize(value)
        yield (
            f"sanitize {name}, types kept",
            lambda value=value: formatter.sanitize(value, remain_type=True),
        )
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "title": "A", "minimum": 1},
            "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "additionalProperties": {"type": "number"},
    }
    for name, given in {
        "a schema": schema,
        "the same schema again": schema,
        "nothing": None,
        "an empty object": {"type": "object"},
        "anything": {"type": "object", "additionalProperties": True},
        "no type": {"properties": {}},
        "a list": {"type": "array"},
    }.items():
        yield f"kwargs of {name}", lambda g=given: formatter.from_schema_to_kwargs_format(g)


if __name__ == "__main__":
    main(steps, load, sys.argv)
