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

    async def cancel_itself() -> Any:
        """Raise a cancellation of its own."""
        raise asyncio.CancelledError

    async def cancel_stream() -> AsyncIterator[Any]:
        """Raise one after a chunk."""
        yield says("a", stream=True)
        raise asyncio.CancelledError

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
    for name in ("cancel_itself", "cancel_stream"):
        yield f"register {name}", functools.partial(toolkit.register_tool_function, known[name])
        yield f"call {name}", functools.partial(run, toolkit, name)
    yield "a cancelled call", lambda: asyncio.run(interrupted(toolkit, response, block))
    yield from groups(make, known)
    yield from presets(make, known, response)
    yield from models(make, known)
    yield from names(make, known)
    yield from changes(make, known)
    yield from layers(make, known, response, block)
    yield from tasks(make, known)


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


def names(make: Any, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Other names, names that are taken, and schemas that are given."""
    toolkit = make()
    later, weather = known["later"], known["weather"]
    register = toolkit.register_tool_function
    yield "register under a name", lambda: register(later, func_name="work")
    yield "its own name", lambda: toolkit.tools["work"].original_name
    yield "call it by that name", lambda: run(toolkit, "work", {"n": 1})
    yield "skip a taken name", lambda: register(weather, func_name="work", namesake_strategy="skip")
    yield "call after skipping", lambda: run(toolkit, "work", {"n": 1})
    yield (
        "override a taken name",
        lambda: register(known["fail"], func_name="work", namesake_strategy="override"),
    )
    yield "call after overriding", lambda: run(toolkit, "work")
    yield "rename", lambda: register(later, func_name="work", namesake_strategy="rename")
    yield "names after renaming", lambda: [name[:5] for name in toolkit.tools]
    yield "its own name after renaming", lambda: list(toolkit.tools.values())[1].original_name
    yield "an unknown strategy", lambda: register(later, func_name="work", namesake_strategy="x")
    given = {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city", "days"],
            },
        },
    }
    yield (
        "register with a given schema and a preset",
        lambda: register(
            weather, preset_kwargs={"days": 1}, json_schema=given, func_description="Given."
        ),
    )
    yield "the given schema", lambda: toolkit.get_json_schemas()[-1]
    yield "its presets", lambda: toolkit.tools["weather"].preset_kwargs
    yield (
        "register a partial by place",
        lambda: register(functools.partial(weather, "Oslo", unit="f"), func_name="oslo"),
    )
    yield "what it binds", lambda: toolkit.tools["oslo"].preset_kwargs
    yield "clear", lambda: toolkit.clear()
    yield "after clearing", lambda: (toolkit.tools, toolkit.groups, toolkit.get_json_schemas())
    yield "remove what is not there", lambda: toolkit.remove_tool_function("weather")
    yield (
        "remove what must be there",
        lambda: toolkit.remove_tool_function("weather", allow_not_exist=False),
    )


def changes(make: Any, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is set on groups and functions afterwards."""
    toolkit = make()
    yield "make another group", lambda: toolkit.create_tool_group("files", "Files.")
    yield (
        "register in it",
        lambda: toolkit.register_tool_function(known["later"], group_name="files"),
    )
    yield "set a group active", lambda: setattr(toolkit.groups["files"], "active", True)
    yield "call in it", lambda: run(toolkit, "later", {"n": 1})
    registered = functools.partial(toolkit.tools.get, "later")
    yield (
        "set postprocessing",
        lambda: setattr(registered(), "postprocess_func", lambda call, chunk: None),
    )
    yield "set a model", lambda: setattr(registered(), "extended_model", Report)
    yield (
        "what it takes with the model",
        lambda: toolkit.get_json_schemas()[0]["function"]["parameters"],
    )
    yield "take that model away", lambda: setattr(registered(), "extended_model", None)
    yield "set presets", lambda: setattr(registered(), "preset_kwargs", {"n": 5})
    yield "call with the presets", lambda: run(toolkit, "later")
    yield "set the group", lambda: setattr(registered(), "group", "basic")
    yield "schemas after that", lambda: len(toolkit.get_json_schemas())


def layers(
    make: Any, known: dict[str, Any], response: Any, block: Any
) -> Iterator[tuple[str, Any]]:
    """Middleware."""
    toolkit = make()

    def around(mark: str) -> Any:
        async def middleware(kwargs: Any, next_handler: Any) -> AsyncIterator[Any]:
            async for chunk in await next_handler(**kwargs):
                text = f"{mark}({chunk.content[0]['text']})"
                yield response(content=[block(type="text", text=text)])

        return middleware

    async def skip(kwargs: Any, next_handler: Any) -> AsyncIterator[Any]:
        yield response(content=[block(type="text", text=kwargs["tool_call"]["name"])])

    yield "register a generator", lambda: toolkit.register_tool_function(known["count"])
    for mark in ("a", "b"):
        yield (
            f"register middleware {mark}",
            lambda mark=mark: toolkit.register_middleware(around(mark)),
        )
    yield "call through middleware", lambda: run(toolkit, "count", {"n": 2})
    yield "register middleware that skips", lambda: toolkit.register_middleware(skip)
    yield "call what is skipped", lambda: run(toolkit, "count", {"n": 2})


def tasks(make: Any, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Functions in the background."""
    toolkit = make()
    for name in ("later", "count", "fail", "break_later"):
        yield (
            f"register {name} in the background",
            lambda name=name: toolkit.register_tool_function(known[name], async_execution=True),
        )

    async def finished(name: str, arguments: Any, *methods: str) -> list[Any]:
        call = {"type": "tool_use", "id": "1", "name": name, "input": arguments}
        (told,) = [chunk async for chunk in await toolkit.call_tool_function(call)]
        task_id = told.content[0]["text"].partition("Task ID: ")[2].partition(".")[0]
        answers = [await getattr(toolkit, method)(task_id) for method in methods]
        texts = [[item["text"] for item in answer.content] for answer in answers]
        return [[text.replace(task_id, "<id>") for text in each] for each in texts]

    def ends(name: str, arguments: Any, *methods: str) -> Any:
        return lambda: asyncio.run(finished(name, arguments, *methods))

    yield "wait for a task", ends("later", {"n": 1}, "wait_task")
    yield "wait twice", ends("later", {"n": 1}, "wait_task", "wait_task", "view_task")
    yield "look at a task that runs", ends("later", {"n": 1}, "view_task")
    yield "wait for a generator", ends("count", {"n": 2}, "wait_task")
    yield "wait for a failure", ends("fail", {}, "wait_task")
    yield "wait for a generator that breaks", ends("break_later", {}, "wait_task")
    yield "stop a task", ends("later", {"n": 1}, "cancel_task")
    yield "stop one that has ended", ends("later", {"n": 1}, "wait_task", "cancel_task")
    yield "schemas beside it", lambda: [s["function"]["name"] for s in toolkit.get_json_schemas()]


if __name__ == "__main__":
    main(steps, load, sys.argv)
