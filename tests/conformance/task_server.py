"""The server for the scenarios of the suite about tasks: `task_server.py --port N`."""

import argparse
import asyncio
import tempfile
from pathlib import Path

from wieldy import CallUnknown, Context, InputNeeded, Toolbox
from wieldy.mcp import Tasks, serve

CONFIRM = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean"}},
    "required": ["confirm"],
}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TASKS = Tasks(
    after=0.3,
    required=["failing_job", "test_tool_with_task"],
    ask_first=["test_tool_with_task"],
)


async def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"


async def slow_compute(seconds: float, label: str = "") -> str:
    """Take some time."""
    await asyncio.sleep(seconds)
    return f"{label} took {seconds:g} s"


async def failing_job() -> str:
    """Fail after a while."""
    await asyncio.sleep(1)
    raise RuntimeError("the job failed")


async def protocol_error_job() -> str:
    """End in a way that nobody knows."""
    await asyncio.sleep(1)
    raise CallUnknown("protocol_error_job", "the machine was lost")


async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask before deleting."""
    if ctx.answers is None:
        raise InputNeeded.form(f"Delete {filename}?", CONFIRM)
    return f"deleted {filename}"


async def multi_input(ctx: Context) -> str:
    """Ask two questions at once."""
    if ctx.answers is None:
        asked = [InputNeeded.form(f"What is your {each} name?", NAME) for each in ("first", "last")]
        first, last = (each.requests["answer"] for each in asked)
        raise InputNeeded({"first": first, "last": last})
    return " ".join(ctx.answers[each]["content"]["name"] for each in ("first", "last"))


async def test_tool_with_task(ctx: Context) -> str:
    """Ask first, and then take some time."""
    if ctx.answers is None:
        raise InputNeeded.form("What is your name?", NAME, name="user_name")
    await asyncio.sleep(1)
    return f"Hello, {ctx.answers['user_name']['content']['name']}!"


def make_box(folder: str) -> Toolbox:
    """The tools that the scenarios call."""
    box = Toolbox(store=f"sqlite:///{Path(folder, 'tasks.db')}")
    for tool in (greet, slow_compute, failing_job, protocol_error_job, confirm_delete):
        box.add(tool)
    box.add(multi_input)
    box.add(test_tool_with_task)
    return box


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(serve(make_box(folder), port=port, tasks=TASKS, name="wieldy-tasks"))


if __name__ == "__main__":
    main()
