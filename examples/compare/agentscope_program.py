"""One program for AgentScope's toolkit, on the original and on the dialect.

python agentscope_program.py original    # where agentscope 1 is installed
python agentscope_program.py wieldy
"""

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from pydantic import BaseModel, Field
from report import Side, main


def load(side: str) -> Side:
    """The names of one side."""
    if side == "wieldy":
        from wieldy.dialects.agentscope import TextBlock, Toolkit, ToolResponse

        return Side(Toolkit, ToolResponse, TextBlock)
    from agentscope.message import TextBlock
    from agentscope.tool import Toolkit, ToolResponse

    return Side(Toolkit, ToolResponse, TextBlock)


class Report(BaseModel):
    """A report."""

    title: str = Field(description="its title")
    score: int = 0


class Place(BaseModel):
    name: str


def run(toolkit: Any, name: str, arguments: Any = None) -> list[Any]:
    """Call a tool and collect what comes, whole or not."""

    async def read() -> list[Any]:
        got: list[Any] = []
        block = {"type": "tool_use", "id": "1", "name": name, "input": arguments or {}}
        try:
            async for chunk in await toolkit.call_tool_function(block):
                got.append(shown(chunk))
        except Exception as error:
            got.append(f"raises {type(error).__name__}: {error}")
        return got

    return asyncio.run(read())


def shown(chunk: Any) -> Any:
    """A chunk without its id."""
    text = "".join(str(item.get("text", item)) for item in chunk.content)
    return (text, chunk.metadata, chunk.stream, chunk.is_last, chunk.is_interrupted)


def functions(response: Any, block: Any) -> dict[str, Any]:
    """The tools of the program."""

    def says(text: str, **facts: Any) -> Any:
        return response(content=[block(type="text", text=text)], **facts)

    def weather(city: str, days: int = 3, unit: Literal["c", "f"] = "c") -> Any:
        """Tell the weather.

        It is a forecast.

        Args:
            city (str): where
            days (int): how many days
        """
        return says(f"{city} {days} {unit}")

    async def later(n: int) -> Any:
        """Answer later.

        Args:
            n (int): a number
        """
        await asyncio.sleep(0)
        return says(f"got {n}", metadata={"n": n})

    def count(n: int) -> Iterator[Any]:
        """Count."""
        for i in range(n):
            yield says("".join(map(str, range(i + 1))), stream=True, is_last=i == n - 1)

    async def count_later(n: int) -> AsyncIterator[Any]:
        """Count later."""
        for chunk in count(n):
            yield chunk

    async def break_later() -> AsyncIterator[Any]:
        """Break."""
        yield says("a")
        raise RuntimeError("broken")

    def fail() -> Any:
        """Fail."""
        raise ValueError("no luck")

    def plain() -> Any:
        """Give a dict."""
        return {"a": 1}

    def place(where: Place) -> Any:
        """Take a model."""
        return says(type(where).__name__)

    def finish(response: str, **kwargs: Any) -> Any:
        """End."""
        return says(response)

    return dict(locals())


async def interrupted(toolkit: Any, response: Any, block: Any) -> Any:
    """Cancel a call while it runs."""
    began = asyncio.Event()

    async def hang() -> Any:
        """Hang."""
        began.set()
        await asyncio.Event().wait()

    toolkit.register_tool_function(hang)
    got: list[Any] = []

    async def read() -> str:
        call = {"type": "tool_use", "id": "1", "name": "hang", "input": {}}
        async for chunk in await toolkit.call_tool_function(call):
            got.append((chunk.is_interrupted, chunk.is_last))
        return "went on"

    task = asyncio.create_task(read())
    await began.wait()
    task.cancel()
    return await task, got


def steps(side: Side) -> Iterator[tuple[str, Any]]:
    """What is done, and what comes of it."""
    make, response, block = side.names
    known = functions(response, block)
    toolkit = make()
    for name in ("weather", "later", "count", "count_later", "break_later", "fail", "plain"):
        yield f"register {name}", functools.partial(toolkit.register_tool_function, known[name])
    yield "the schema of weather", lambda: toolkit.get_json_schemas()[0]["function"]["parameters"]
    yield "its description", lambda: toolkit.get_json_schemas()[0]["function"]["description"]
    yield "register a name twice", lambda: toolkit.register_tool_function(known["fail"])
    yield (
        "register in an unknown group",
        lambda: toolkit.register_tool_function(known["finish"], group_name="nope"),
    )
    yield (
        "register with a malformed schema",
        lambda: toolkit.register_tool_function(known["finish"], json_schema={"type": "object"}),
    )
    yield "call a function", lambda: run(toolkit, "weather", {"city": "Oslo"})
    yield "call a coroutine", lambda: run(toolkit, "later", {"n": 1})
    yield "call a generator", lambda: run(toolkit, "count", {"n": 3})
    yield "call an async generator", lambda: run(toolkit, "count_later", {"n": 2})
    yield "a generator that breaks", lambda: run(toolkit, "break_later")
    yield "a function that fails", lambda: run(toolkit, "fail")
    yield "a missing function", lambda: run(toolkit, "nope")[0][0].partition(":")[0]
    yield "a missing argument", lambda: run(toolkit, "weather")[0][0].partition(":")[0]
    yield "a wrong argument", lambda: run(toolkit, "later", {"n": "many"})[0][0]
    yield "a missing argument of a generator", lambda: run(toolkit, "count")[0][0][:6]
    yield "a plain return value", lambda: run(toolkit, "plain")
    yield (
        "register a function that takes a model",
        lambda: toolkit.register_tool_function(known["place"]),
    )
    yield "a declared model", lambda: run(toolkit, "place", {"where": {"name": "Oslo"}})
    yield "a cancelled call", lambda: asyncio.run(interrupted(toolkit, response, block))
    yield from groups(make, known)
    yield from presets(make, known, response)
    yield from models(make, known)


def groups(make: Any, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Groups, notes and state."""
    toolkit = make()
    yield "make a group", lambda: toolkit.create_tool_group("files", "Files.", notes="Be careful.")
    yield "make it twice", lambda: toolkit.create_tool_group("files", "")
    yield "make the basic group", lambda: toolkit.create_tool_group("basic", "")
    yield (
        "register in a group",
        lambda: toolkit.register_tool_function(known["fail"], group_name="files"),
    )
    yield "schemas while it is off", lambda: toolkit.get_json_schemas()
    yield "call while it is off", lambda: run(toolkit, "fail")[0][0].partition(":")[0]
    yield "notes while it is off", lambda: toolkit.get_activated_notes()
    yield "switch it on", lambda: toolkit.update_tool_groups(["files"], True)
    yield "notes while it is on", lambda: toolkit.get_activated_notes()
    yield "state", lambda: toolkit.state_dict()
    yield "load a state", lambda: toolkit.load_state_dict({"active_groups": []})
    yield "state after that", lambda: toolkit.state_dict()
    yield "load a foreign state", lambda: toolkit.load_state_dict({"groups": []})
    yield (
        "register the meta tool",
        lambda: toolkit.register_tool_function(toolkit.reset_equipped_tools),
    )
    yield "what it takes", lambda: toolkit.get_json_schemas()[-1]["function"]["parameters"]
    yield "use it", lambda: (run(toolkit, "reset_equipped_tools", {"files": True}), None)[1]
    yield "state after it", lambda: toolkit.state_dict()
    yield "use it wrongly", lambda: (run(toolkit, "reset_equipped_tools", {"files": "x"}), None)[1]
    yield "state after that misuse", lambda: toolkit.state_dict()
    yield "remove the basic group", lambda: toolkit.remove_tool_groups("basic")
    yield "remove the group", lambda: toolkit.remove_tool_groups(["files"])
    yield "its tools are gone", lambda: sorted(toolkit.tools)


def presets(make: Any, known: dict[str, Any], response: Any) -> Iterator[tuple[str, Any]]:
    """Hidden arguments, partials and postprocessing."""
    toolkit = make()
    yield (
        "preset an argument",
        lambda: toolkit.register_tool_function(known["weather"], preset_kwargs={"days": 1}),
    )
    yield (
        "it is hidden",
        lambda: sorted(toolkit.get_json_schemas()[0]["function"]["parameters"]["properties"]),
    )
    yield "a call can't set it", lambda: run(toolkit, "weather", {"city": "Oslo", "days": 9})
    other = make()
    yield (
        "register a partial",
        lambda: other.register_tool_function(functools.partial(known["weather"], days=2)),
    )
    yield "call it", lambda: run(other, "weather", {"city": "Oslo"})
    third = make()
    yield (
        "postprocess",
        lambda: third.register_tool_function(
            known["count"], postprocess_func=lambda call, chunk: None
        ),
    )
    yield "call that", lambda: run(third, "count", {"n": 2})


def models(make: Any, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A finish function with a model."""
    toolkit = make()
    yield "register finish", lambda: toolkit.register_tool_function(known["finish"])
    yield "extend it", lambda: toolkit.set_extended_model("finish", Report)
    yield (
        "its fields",
        lambda: sorted(toolkit.get_json_schemas()[0]["function"]["parameters"]["properties"]),
    )
    yield "finish", lambda: run(toolkit, "finish", {"response": "done", "title": "T"})
    yield "finish wrongly", lambda: run(toolkit, "finish", {"response": "x"})[0][0][:6]
    yield "take the model away", lambda: toolkit.set_extended_model("finish", None)
    yield "finish without it", lambda: run(toolkit, "finish", {"response": "done"})


if __name__ == "__main__":
    main(steps, load, sys.argv)
