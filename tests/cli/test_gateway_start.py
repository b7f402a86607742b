"""A gateway that starts: it listens first, and its servers come in any order and at any time."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx2
import pytest

from tests.cli.terminal import Terminal
from tests.mcp.clients import connected, text_of
from tests.mcp.conftest import SERVERS
from tests.mcp.waiting import until
from wieldy.cli.live_gateway import LiveGateway

# It begins to answer when somebody has opened the other end of a named pipe.
SLOW = """
import sys

if len(sys.argv) > 2:
    open(sys.argv.pop()).close()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    light = (SERVERS / "light.py").read_text()
    (tmp_path / "server.py").write_text(SLOW + light)
    os.mkfifo(tmp_path / "gate")
    return tmp_path


def write_file(place: Path, *servers: tuple[str, str], head: str = "") -> Path:
    """A gateway of servers by name: a process with these arguments, or an address."""
    text = head
    for name, said in servers:
        text += f"[servers.{name}]\n"
        if said.startswith("http"):
            text += f'url = "{said}"\n'
        else:
            arguments = json.dumps(["server.py", *said.split()])
            text += f"command = {json.dumps(sys.executable)}\nargs = {arguments}\n"
    file = place / "gateway.toml"
    file.write_text(text)
    return file


async def test_servers_that_can_not_be_reached_are_listed_as_the_file_has_them(
    place: Path,
) -> None:
    wait = json.dumps(["-c", "import sys; open('gate').close(); sys.exit(3)"])
    file = place / "gateway.toml"
    file.write_text(
        f"[servers.one]\ncommand = {json.dumps(sys.executable)}\nargs = {wait}\n"
        '[servers.two]\ncommand = "/no/such/program"\n'
    )
    gateway = await LiveGateway.open(file, connect=False)
    box = gateway.found.toolbox
    watching = asyncio.create_task(gateway.watch())
    try:
        await until(lambda: list(box.mcp) == ["two"])
        await asyncio.to_thread((place / "gate").write_text, "")
        await until(lambda: len(box.mcp) == 2)
        assert list(box.mcp) == ["one", "two"]
    finally:
        watching.cancel()
        await asyncio.wait((watching,))
        await box.close()


class SilentServer:
    """It takes connections and never answers, until it is told to hang up."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._hold, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
            self.over.set()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.over.wait()
        writer.close()


async def test_a_server_that_never_answers_keeps_nobody_from_the_others(place: Path) -> None:
    silent = SilentServer()
    async with silent.listening() as address:
        servers = ("silent", address), ("mute", address), ("quick", "ping")
        write_file(place, *servers, head="[listen]\nport = 0\n")
        with closing(Terminal("serve", "gateway.toml", cwd=place)) as terminal:
            said = await asyncio.to_thread(terminal.wait_for, " while the servers")
            url = said.split()[-1]
            async with httpx2.AsyncClient(base_url=url.removesuffix("/mcp")) as http:
                assert (await http.get("/health/live")).status_code == 200
                starting = await http.get("/ready")
                assert (starting.status_code, starting.json()["starting"]) == (503, True)
                async with connected(url) as client:
                    async with asyncio.timeout(120):
                        while not (await client.list_tools()).tools:
                            pass
                    assert text_of(await client.call_tool("ping", {})) != ""
                assert (await http.get("/ready")).status_code == 503
                silent.over.set()
                async with asyncio.timeout(120):
                    while (await http.get("/ready")).status_code != 200:
                        pass
            shown = await asyncio.to_thread(terminal.wait_for, "Press Ctrl-C to stop.")
    assert "1 tools at" in shown
    assert shown.count("silent") >= 1


@pytest.mark.parametrize("slow_first", [True, False])
async def test_names_and_order_are_those_of_the_file_whichever_server_answers_first(
    place: Path, slow_first: bool
) -> None:
    slow, quick = ("one", "ping gate"), ("two", "ping")
    file = write_file(
        place, *((slow, quick) if slow_first else (("one", "ping"), ("two", "ping gate")))
    )
    gateway = await LiveGateway.open(file, connect=False)
    box = gateway.found.toolbox
    watching = asyncio.create_task(gateway.watch())
    try:
        await until(lambda: len(box.names) == 1)
        assert (box.names, gateway.started) == (["ping"], False)
        (place / "gate").write_text("")
        await until(lambda: len(box.names) == 2)
    finally:
        watching.cancel()
        await asyncio.wait((watching,))
        await box.close()
    sources = {tool.name: tool.source for tool in box.all_tools()}
    assert list(sources.items()) == [("ping", "mcp:one"), ("two__ping", "mcp:two")]
    assert list(box.mcp) == ["one", "two"]
    assert gateway.found.origins == {"ping": "servers.one", "two__ping": "servers.two"}
