"""How clients of a gateway get at its tools, as its file says, with and without a view."""

import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.mcp.clients import connected, text_of
from tests.mcp.conftest import SERVERS
from tests.mcp.served import served
from wieldy import Status
from wieldy.cli.gateway import load_gateway
from wieldy.cli.live_gateway import LiveGateway
from wieldy.cli.module import SourceError
from wieldy.server import run
from wieldy.server.config.mistakes import FileMistakes, read_gateway

SOURCE = """
import os
from wieldy import Toolbox

box = Toolbox()

@box.tool(read_only=True, tags="sums")
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@box.tool
def wipe() -> str:
    "Wipe everything."
    return "wiped"

@box.tool(read_only=True)
def where() -> int:
    "Tell the process."
    return os.getpid()
"""
SKILL = "---\nname: greeting\ndescription: How we greet.\n---\nSay hello.\n"
VIEWS = """
[views.plain]
[views.sums]
tags = ["sums"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(SOURCE)
    skill = tmp_path / "skills" / "greeting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    return tmp_path


def write_file(place: Path, more: str, source: str = "") -> Path:
    file = place / "gateway.toml"
    file.write_text(f'[[sources]]\npath = "tools.py"\n{source}\n{more}')
    return file


@asynccontextmanager
async def clients_of(file: Path) -> AsyncIterator[tuple[LiveGateway, str]]:
    """A gateway, served to callers whose names are those of their views, and one without."""
    gateway = await LiveGateway.open(file)
    tokens = {name: f"token-of-{name}-for-tests" for name in ("nobody", *gateway.views)}
    options = {"view": gateway.found.offer, "views": gateway.views, "tokens": tokens}
    with served(gateway.found.box, run, **options) as url:
        yield gateway, url


async def listed(url: str, name: str) -> set[str]:
    async with connected(url, f"token-of-{name}-for-tests") as client:
        return {tool.name for tool in (await client.list_tools()).tools}


async def called(url: str, name: str, tool: str, **arguments: object) -> str:
    async with connected(url, f"token-of-{name}-for-tests") as client:
        return text_of(await client.call_tool(tool, arguments))


async def test_everybody_searches_and_finds_what_is_in_their_view_unless_it_lists_all(
    place: Path,
) -> None:
    more = '[search]\nalways = ["wipe"]\n[views.all]\nsearch = false\n'
    async with clients_of(write_file(place, more + VIEWS)) as (_, url):
        assert await listed(url, "nobody") == {"search_tools", "load_tools", "wipe"}
        assert await listed(url, "plain") == {"search_tools", "load_tools", "wipe"}
        assert await listed(url, "all") == {"add", "wipe", "where"}
        # A view by tags has the search tools too, and they find nothing outside of it.
        assert await listed(url, "sums") == {"search_tools", "load_tools"}
        assert "add" in await called(url, "sums", "search_tools", query="add numbers")
        assert "wipe" not in await called(url, "sums", "search_tools", query="wipe everything")


async def test_one_view_alone_searches(place: Path) -> None:
    more = "[views.few]\nsearch = true\n"
    async with clients_of(write_file(place, more + VIEWS)) as (_, url):
        assert await listed(url, "few") == {"search_tools", "load_tools"}
        assert await listed(url, "nobody") == {"add", "wipe", "where"}
        assert await listed(url, "plain") == {"add", "wipe", "where"}


async def test_programs_call_what_is_in_the_view_and_nothing_else(place: Path) -> None:
    more = '[code_mode]\nalways = ["where"]\n[views.coder]\ntags = ["sums"]\ncode_mode = true\n'
    file = write_file(place, more + VIEWS)
    async with clients_of(file) as (gateway, url):
        assert await listed(url, "nobody") == {"run_code", "where"}
        assert await listed(url, "coder") == {"run_code_coder"}
        assert await listed(url, "plain") == {"add", "wipe", "where"}
        assert await called(url, "nobody", "run_code", code="await wipe()") == "wiped"
        own = {"name": "coder", "tool": "run_code_coder"}
        assert await called(url, **own, code="await add(a=1, b=2)") == "3"
        assert "wiped" not in await called(url, **own, code="await wipe()")

        # A view that a changed file lets be keeps its tool, and another loses it.
        file.write_text(file.read_text() + "[views.other]\n")
        assert await gateway.reload()
        assert gateway.found.toolbox.find_tool("run_code_coder") is not None
        file.write_text(file.read_text().replace("code_mode = true", ""))
        assert await gateway.reload()
        assert gateway.found.toolbox.find_tool("run_code_coder") is None
        assert await listed(url, "coder") == {"add"}


async def test_skills_are_in_the_views_that_say_so(place: Path) -> None:
    more = (
        '[skills]\nfolder = "skills"\n[views.reader]\ntags = ["sums"]\nskills = true\n'
        "[views.none]\nskills = false\n"
    )
    async with clients_of(write_file(place, more + VIEWS)) as (_, url):
        assert await listed(url, "nobody") == {"add", "wipe", "where", "read_skill"}
        assert await listed(url, "reader") == {"add", "read_skill"}
        assert await listed(url, "none") == {"add", "wipe", "where"}
        assert await listed(url, "sums") == {"add"}
        assert "Say hello." in await called(url, "reader", "read_skill", skill="greeting")


@pytest.mark.parametrize(
    ("more", "line", "said"),
    [
        ("[search]\n[code_mode]\n", 5, "Choose search or code mode"),
        ("[views.a]\nsearch = true\ncode_mode = true\n", 6, "Choose search or code mode"),
        ("[views.a]\nskills = true\n", 5, "needs [skills]"),
        ("[code_mode]\nseconds = 0\n", 5, "greater than 0"),
        ("[search]\nbudgt = 5\n", 5, "budget"),
        ('[views.a]\ncode_mode = "yes"\n', 5, "valid boolean"),
    ],
)
def test_what_does_not_fit_is_told_with_its_line(
    place: Path, more: str, line: int, said: str
) -> None:
    with pytest.raises(FileMistakes) as caught:
        read_gateway(write_file(place, more))
    assert [each.line for each in caught.value.mistakes] == [line]
    assert said in str(caught.value)


@pytest.fixture
def service() -> Iterator[int]:
    """An API over HTTP; the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"path": self.path}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


async def test_functions_and_operations_run_in_processes_where_the_file_says_so(
    place: Path, service: int
) -> None:
    operation = {"operationId": "read_x", "responses": {"200": {"description": "It."}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "x", "version": "1"},
        "servers": [{"url": f"http://127.0.0.1:{service}"}],
        "paths": {"/x": {"get": operation}},
    }
    (place / "api.json").write_text(json.dumps(document))
    more = '[[sources]]\npath = "api.json"\nisolation = "process"\n'
    gateway = await LiveGateway.open(write_file(place, more, 'isolation = "process"'))
    async with gateway.found.toolbox as box:
        where, read = await box.call("where", {}), await box.call("read_x", {})
        assert where.status is Status.OK and where.value != os.getpid()
        assert (read.status, read.value) == (Status.OK, {"path": "/x"}), read.error
        assert read.metadata["isolation"] == "process"


async def test_a_source_whose_tools_are_in_another_process_already_has_no_isolation(
    place: Path,
) -> None:
    file = place / "gateway.toml"
    server = {"command": sys.executable, "args": [str(SERVERS / "light.py"), "ping"]}
    servers = {"mcpServers": {"one": server}}
    (place / "servers.json").write_text(json.dumps(servers))
    file.write_text('[[sources]]\npath = "servers.json"\nisolation = "process"\n')
    found = read_gateway(file)
    with pytest.raises(SourceError, match=r"servers\.json: isolation is for Python and OpenAPI"):
        await load_gateway(found, place)
