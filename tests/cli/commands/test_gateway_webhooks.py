"""Webhooks of a gateway in a process of its own: killed, started again, and told another file."""

import asyncio
import json
import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import httpx2
import pytest

from tests.cli.commands.test_gateway_end import address
from tests.cli.terminal import make_token, wieldy
from tests.forking.launch_files import WIELDY
from tests.forking.launcher import CRASH
from tests.server.webhooks.receiver import SECRET, Receiver
from tests.server.webhooks.test_dispatch import stay_silent

FILE = """
store = "sqlite:///wieldy.db"
[listen]
port = 0
[[sources]]
path = "tools.py"
[[webhooks]]
name = "here"
url = "{url}/first"
secret = "${{HOOK_SECRET}}"
allow_private = true
"""
TOOLS = """
from wieldy import Toolbox

box = Toolbox()


@box.tool(permission="confirm")
def wipe(path: str) -> str:
    return f"wiped {path}"
"""


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as started:
        yield started


@pytest.fixture
def folder(tmp_path: Path, receiver: Receiver) -> Path:
    (tmp_path / "gateway.toml").write_text(FILE.format(url=receiver.url))
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The process of a gateway, and where its API is."""
    started = await asyncio.create_subprocess_exec(
        WIELDY,
        "serve",
        "gateway.toml",
        cwd=folder,
        env={**os.environ, "HOOK_SECRET": SECRET},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield started, (await address(started)).removesuffix("/mcp")
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def call_wipe(url: str) -> str:
    async with httpx2.AsyncClient(base_url=url, timeout=120) as client:
        made = await client.post("/api/calls", json={"tool": "wipe", "arguments": {"path": "a"}})
        call_id: str = made.json()["call_id"]
        return call_id


async def test_what_a_killed_gateway_has_not_delivered_is_delivered_by_the_next(
    folder: Path, receiver: Receiver
) -> None:
    receiver.answers = [stay_silent]
    async with gateway(folder) as (process, url):
        call_id = await call_wipe(url)
        (first,) = await receiver.wait_for(1)
        # The receiver has not answered, so that the message counts as not delivered.
        process.send_signal(CRASH)
        await process.wait()
    store = f"sqlite:///{folder}/wieldy.db"
    # No gateway runs while another process decides.
    token = await asyncio.to_thread(make_token, folder)
    words = ("deny", call_id, "--store", store, "--token", token)
    denied = await asyncio.to_thread(wieldy, *words, cwd=folder)
    assert denied.returncode == 0, denied.stderr
    with closing(sqlite3.connect(folder / "wieldy.db")) as file, file:
        # The minute passes for which the dead process has the message to itself.
        file.execute("UPDATE wieldy_webhook_deliveries SET due_at = 0")
    async with gateway(folder):
        received = await receiver.wait_for(3)
    told = {each.id: each.content for each in received[1:]}
    assert first.id in told, "the same id, so that the receiver can drop a repetition"
    assert {each["type"] for each in told.values()} == {"call.pending", "call.decided"}
    assert {each["data"]["call_id"] for each in told.values()} == {call_id}


async def test_another_file_takes_effect_and_a_bad_one_does_not(
    folder: Path, receiver: Receiver
) -> None:
    file = folder / "gateway.toml"
    async with AsyncExitStack() as stack:
        process, url = await stack.enter_async_context(gateway(folder))
        assert process.stderr is not None
        client = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=120))
        good = file.read_text()
        file.write_text(good.replace("HOOK_SECRET", "HOOK_SECRET_THAT_IS_NOT_SET"))
        while "is not used" not in (line := (await process.stderr.readline()).decode()):
            assert line
        file.write_text(good.replace("/first", "/second").replace('"here"', '"there"'))
        while "webhooks have changed" not in (line := (await process.stderr.readline()).decode()):
            assert line
        listed = (await client.get("/api/webhooks")).json()["webhooks"]
        await call_wipe(url)
        (message,) = await receiver.wait_for(1)
    assert [each["name"] for each in listed] == ["there"]
    assert (message.path, json.loads(message.body)["type"]) == ("/second", "call.pending")


def test_a_secret_that_is_not_set_is_said_before_anything_starts(folder: Path) -> None:
    done = wieldy("serve", "gateway.toml", cwd=folder)
    assert done.returncode != 0
    assert "HOOK_SECRET is not set" in done.stderr.replace("\n", " ")
    assert not (folder / "wieldy.db").exists()
    checked = wieldy("check", "gateway.toml", "--json", cwd=folder)
    (failed,) = json.loads(checked.stdout)["failed"]
    assert (checked.returncode, "HOOK_SECRET is not set" in failed["error"]) == (4, True)
    assert wieldy("check", "gateway.toml", "--offline", cwd=folder).returncode == 0
