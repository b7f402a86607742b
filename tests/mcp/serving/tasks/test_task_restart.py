"""What becomes of tasks when the process that serves them is killed."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from tests.forking.launch_files import launch_file
from tests.mcp.serving.tasks.task_client import TaskClient, task_client_at
from wieldy import Toolbox

PROGRAM = launch_file(Path(__file__).parent / "yard_program.py")


@asynccontextmanager
async def served(store: Path, way: str) -> AsyncIterator[TaskClient]:
    """A client of the program, which is killed at the end."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, str(store), way, stderr=subprocess.PIPE
    )
    assert started.stderr is not None
    try:
        async with asyncio.timeout(120):
            url = (await started.stderr.readline()).decode().strip()
        async with task_client_at(url) as client:
            yield client
            started.kill()
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def wait_for_starts(store: Path, names: set[str]) -> None:
    """Wait until a call of each tool is running."""
    async with (
        asyncio.timeout(120),
        Toolbox(store=f"sqlite:///{store}") as box,
        aclosing(box.ledger.follow(state="started", last=20)) as started,  # type: ignore[type-var]
    ):
        async for entry in started:
            names.discard(entry.call.tool)
            if not names:
                return


async def test_tasks_survive_the_process_that_served_them(tmp_path: Path) -> None:
    store = tmp_path / "yard.db"
    async with served(store, "hang") as client:
        ids = {name: await client.start(name) for name in ("build", "look")}
        ids["desk"] = await client.start("desk", query="Dig.")
        ids["wipe"] = await client.start("wipe", path="a")
        await wait_for_starts(store, {"build", "look", "desk", "dig"})
        before = {name: (await client.get(each))["status"] for name, each in ids.items()}

    async with served(store, "go") as client:
        waiting = await client.get(ids["wipe"])
        await client.answer(ids["wipe"], approve=True)
        after = {name: await client.end_of(each) for name, each in ids.items()}

    assert before == {
        **dict.fromkeys(("build", "look", "desk"), "working"),
        "wipe": "input_required",
    }
    assert waiting["status"] == "input_required"
    assert (after["build"]["status"], after["build"]["error"]["code"]) == ("failed", -32603)
    assert "process that ran it is gone" in after["build"]["error"]["message"]
    texts = {name: after[name]["result"]["content"][0]["text"] for name in ("look", "desk", "wipe")}
    assert texts == {"look": "done", "desk": "The hole is dug.", "wipe": "wiped a"}
