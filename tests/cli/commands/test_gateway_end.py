"""A gateway in a process of its own: its figures, and how it stops."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from mcp import MCPError

from tests.forking.launch_files import WIELDY
from tests.mcp.clients import connected, text_of
from tests.mcp.serving.test_running import PROGRAM, calling, drains, end, write_to
from wieldy import Toolbox

FILE = f"""
store = "sqlite:///wieldy.db"
[listen]
port = 0
[access]
tokens = true
[metrics]
token_file = "metrics.token"
[tasks]
required = ["stuck"]
[[sources]]
path = {json.dumps(str(PROGRAM))}
"""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process of a gateway."""
    (tmp_path / "gateway.toml").write_text(FILE)
    (tmp_path / "metrics.token").write_text("only-for-figures\n")
    started = await asyncio.create_subprocess_exec(
        WIELDY,
        "serve",
        "gateway.toml",
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    yield started
    if started.returncode is None:
        started.kill()
        await started.communicate()


async def address(started: asyncio.subprocess.Process) -> str:
    """Where the gateway says that it listens."""
    assert started.stderr is not None
    async with asyncio.timeout(120):
        while line := (await started.stderr.readline()).decode():
            if " tools at " in line or " tool at " in line:
                return line.split(" at ")[1].split(": ")[0].strip()
    raise AssertionError("it ended")


async def test_a_gateway_shows_its_figures_and_lets_running_calls_end(
    gateway: asyncio.subprocess.Process, tmp_path: Path
) -> None:
    pipe, since = str(tmp_path / "pipe"), time.time() - 60
    os.mkfifo(pipe)
    url = await address(gateway)
    async with Toolbox(store=f"sqlite:///{tmp_path}/wieldy.db") as box:
        token = await box.store.tokens.make("ann")
    async with (
        connected(url, token) as client,
        calling(client, "until", pipe=pipe) as call,
        httpx2.AsyncClient(base_url=url.removesuffix("/mcp")) as http,
    ):
        figures = {
            who: await http.get("/metrics", headers={"Authorization": f"Bearer {who}"})
            for who in ("only-for-figures", token)
        }
        ready = await http.get("/ready")
        with pytest.raises(MCPError, match="only for clients with tasks"):
            await client.call_tool("stuck", {})
        gateway.send_signal(signal.SIGTERM)
        await drains(url, token)
        refused = await http.get("/ready")
        with pytest.raises(MCPError, match="shutting down"):
            await client.call_tool("until", {"pipe": pipe})
        write_to(pipe)
        assert text_of(await call) == "it is there"
    code, _, said = await end(gateway)

    assert (code, b"Traceback" in said) == (0, False)
    assert (ready.status_code, refused.status_code) == (200, 503)
    assert [answer.status_code for answer in figures.values()] == [200, 403]
    assert "wieldy_calls_running 1.0" in figures["only-for-figures"].text
    async with Toolbox(store=f"sqlite:///{tmp_path}/wieldy.db") as box:
        sums = await box.store.rollups.read(since, time.time() + 60, 3600)
    assert [(each.tool, each.caller, each.status) for each in sums] == [("until", "ann", "ok")]
