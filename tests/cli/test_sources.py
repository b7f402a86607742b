"""Where tools come from: by the form of a source, and by what is in it."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.mcp.conftest import raw
from wieldy import Status, Toolbox
from wieldy.cli.document_kind import kind_of_address, kind_of_file
from wieldy.cli.module import SourceError
from wieldy.cli.sources import Own, load_sources

OTHER = '''
from wieldy import Toolbox

box = Toolbox()
box.groups.create("spare", "Spare ones.", active=True)
box.rules.deny("add", where={"a": 13}, reason="an unlucky number")
box.rules.ask("only_here")


@box.tool
def add(a: int) -> str:
    """Add in another way."""
    return f"other {a}"


@box.tool(group="spare")
def only_here(path: str) -> str:
    """Do it."""
    return f"did {path}"


view = box.view(names=["only_here"])
'''


@pytest.fixture
def other(folder: Path) -> str:
    (folder / "other.py").write_text(OTHER)
    return "other.py"


def test_several_sources_are_one_box(command: Command, other: str) -> None:
    listed = json.loads(command("list", "tools.py", other, "--json").stdout)
    origins = {tool["name"]: tool["source"] for tool in listed}
    assert (origins["add"], origins["add_2"], origins["only_here"]) == ("tools.py", other, other)
    done = command("call", "add_2", "tools.py", other, "--arg", "a=1")
    assert (done.exit_code, done.stdout) == (0, "other 1\n")
    assert "other.py: add is renamed to add_2" in done.stderr
    assert "these tools run in the first toolbox" in done.stderr


def test_the_tools_of_another_box_keep_its_rules_and_bring_no_others(
    command: Command, other: str
) -> None:
    refused = command("call", "add_2", "tools.py", other, "--arg", "a=13")
    assert refused.exit_code == 1
    assert "an unlucky number" in refused.stderr
    assert command("call", "add", "tools.py", other, "--arg", "a=13").stdout == "15.0\n"
    asked = command("call", "only_here", "tools.py", other, "--arg", "path=x")
    assert asked.exit_code == 3


def test_an_adopted_rule_holds_for_whom_and_when_it_held_before(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "narrow.py").write_text(
        "from wieldy import Toolbox\n"
        "box = Toolbox()\n"
        "@box.tool(permission='confirm')\n"
        "def show() -> None: ...\n"
        "box.rules.allow('show', caller='ann', agent='clerk', session='s', untrusted=True)\n"
    )
    found = asyncio.run(load_sources(["tools.py", "narrow.py"], Own()))
    asyncio.run(found.toolbox.close())
    [rule] = [rule for rule in found.toolbox.rules if rule.pattern == "show"]
    assert (rule.verdict.value, rule.caller, rule.agent) == ("allow", "ann", "clerk")
    assert (rule.session, rule.criteria.untrusted) == ("s", True)


def test_a_lone_view_is_all_there_is(command: Command, other: str) -> None:
    listed = json.loads(command("list", "other.py:view", "--json").stdout)
    assert [tool["name"] for tool in listed] == ["only_here"]
    hidden = command("call", "add", "other:view", "--arg", "a=1")
    assert hidden.exit_code == 2
    needed = command("call", "only_here", "other:view", "--arg", "path=x", "--yes")
    assert needed.exit_code == 2
    assert "this source is a view" in needed.stderr


def test_a_source_in_a_folder_that_nobody_may_enter_is_not_said_to_be_missing(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    for name in ("tools.py", "mcp.json"):
        (closed / name).write_text("{}")
    closed.chmod(0)
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    # The command in a process of its own, which has no more rights than it is given here.
    program = [sys.executable, "-c", "from wieldy.cli import main; main()"]
    asked = [*(bound if os.geteuid() == 0 else ()), *program, "list"]

    said = {
        name: subprocess.run(
            [*asked, f"closed/{name}"], cwd=folder, stderr=subprocess.PIPE, text=True, timeout=240
        ).stderr
        for name in ("tools.py", "mcp.json")
    }

    closed.chmod(0o755)
    assert "closed/tools.py can't be loaded: PermissionError" in said["tools.py"]
    assert "closed/mcp.json can't be read" in said["mcp.json"]
    assert "Traceback" not in "".join(said.values())


def test_a_source_that_fails_is_named_and_the_others_still_work(
    command: Command, folder: Path
) -> None:
    (folder / "broken.py").write_text("raise RuntimeError('not today')")
    done = command("list", "tools.py", "broken.py", "nowhere.json")
    assert done.exit_code == 4
    assert "wipe" in done.stdout
    assert "broken.py can't be loaded: RuntimeError: not today" in done.stderr
    assert "broken.py, line 1)" in done.stderr
    assert "There is no file nowhere.json." in done.stderr
    failing = command("call", "fail", "tools.py", "broken.py", "--arg", "why=x")
    assert failing.exit_code == 1
    assert command("list", "broken.py").exit_code == 2
    assert command("list", "broken.py", "nowhere.json").exit_code == 2


def test_a_server_that_fails_is_named_and_the_others_still_work(
    command: Command, folder: Path
) -> None:
    listed = {"good": raw("counts"), "bad": raw("die")}
    named = {name: {"command": words[0], "args": words[1:]} for name, words in listed.items()}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": named}))

    done, told = command("list", "mcp.json"), command("list", "mcp.json", "--json")

    assert (done.exit_code, told.exit_code) == (4, 4)
    assert "miscount" in done.stdout
    assert "no licence found" in done.stderr
    *tools, failed = json.loads(told.stdout)
    assert [tool["name"] for tool in tools] == ["count", "miscount"]
    assert (failed["source"], failed["server"]) == ("mcp.json", "bad")
    assert "no licence found" in failed["error"]


def test_a_server_that_a_toolbox_could_not_reach_is_named(command: Command, folder: Path) -> None:
    (folder / "own.py").write_text(f"""
from wieldy import Toolbox
from wieldy.core.sync import blocking_border

box = Toolbox()
listed = {{"good": {raw("counts")!r}, "bad": {raw("die")!r}}}
named = {{name: {{"command": words[0], "args": words[1:]}} for name, words in listed.items()}}
blocking_border().wait(lambda home: box.add_mcp({{"mcpServers": named}}))
""")

    done = command("list", "own.py", "--json")

    assert done.exit_code == 4
    assert [each.get("server") for each in json.loads(done.stdout)] == ["good", "good", "bad"]


def test_a_tool_that_can_t_be_offered_is_named(command: Command, folder: Path) -> None:
    program, *words = raw("broken")
    named = {"good": {"command": program, "args": words}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": named}))

    done, told = command("list", "mcp.json"), command("list", "mcp.json", "--json")

    assert (done.exit_code, told.exit_code) == (0, 0)
    assert "mcp.json: good: said: it breaks the protocol: description" in done.stderr
    tools = [each for each in json.loads(told.stdout) if "error" not in each]
    refused = {each["tool"] for each in json.loads(told.stdout) if "error" in each}
    assert (tools[0]["name"], tools[-1]["name"]) == ("echo", "last")
    assert {"said", "remote", "tool 9"} <= refused


def test_programs_are_told_as_json_that_nothing_could_be_read(command: Command) -> None:
    done = command("list", "nowhere.json", "--json")

    assert done.exit_code == 2
    assert [each["source"] for each in json.loads(done.stdout)] == ["nowhere.json"]


def test_what_a_source_prints_is_no_part_of_the_output(command: Command, folder: Path) -> None:
    text = (folder / "tools.py").read_text()
    (folder / "tools.py").write_text(text + "\nprint('loaded')\n")
    done = command("list", "--json")
    assert json.loads(done.stdout)
    assert "loaded" in done.stderr


def test_a_source_that_ends_the_process_does_not(command: Command, folder: Path) -> None:
    (folder / "leaves.py").write_text("import sys; sys.exit(0)")
    done = command("list", "leaves.py")
    assert done.exit_code == 2
    assert "leaves.py can't be loaded: SystemExit" in done.stderr


def test_a_store_is_named_only_where_the_command_makes_the_box(command: Command) -> None:
    done = command("call", "add", "tools.py", "--arg", "a=1", "--store", "sqlite:///x.db")
    assert done.exit_code == 2
    assert "has a store of its own" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.json", '{"mcpServers": {"x": {"command": "y"}}}', "mcp"),
        ("mcp.json", '{"servers": {"x": {"url": "http://y"}}, "inputs": []}', "mcp"),
        ("b.json", '\ufeff{"openapi": "3.1.0", "servers": [{"url": "/"}], "paths": {}}', "openapi"),
        ("c.yaml", "# pets\nopenapi: 3.0.3\npaths: {}\n", "openapi"),
        ("d.yml", "info:\n  title: x\n'swagger': '2.0'\n", "openapi"),
    ],
)
def test_a_document_is_known_by_what_is_in_it(
    tmp_path: Path, name: str, text: str, kind: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert kind_of_file(tmp_path / name) == kind


@pytest.mark.parametrize(
    "text", ["{}", "[]", "", "{", '{"servers": []}', "x: openapi: 3", '"openapi"', "[" * 100_000]
)
def test_another_document_is_refused_with_what_it_should_be(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(SourceError, match="neither an mcpServers file"):
        kind_of_file(tmp_path / "x.json")


class Site(BaseHTTPRequestHandler):
    """Answers as servers of both kinds do."""

    def do_GET(self) -> None:
        openapi = json.dumps({"info": {}, "openapi": "3.1.0"})
        pages = {
            "/openapi.json": (200, "application/json", openapi),
            "/openapi.yaml": (200, "text/yaml", "openapi: 3.1.0\n"),
            "/mcp": (405, "application/json", '{"openapi": "no"}'),
            "/stream": (200, "text/event-stream", ""),
            "/pets/3": (200, "application/json", '{"name": "Rex"}'),
            "/page": (200, "text/html", "<p>openapi</p>"),
        }
        status, kind, text = pages[self.path]
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/openapi.json", "openapi"),
        ("/openapi.yaml", "openapi"),
        ("/mcp", "mcp"),
        ("/stream", "mcp"),
        ("/page", "mcp"),
    ],
)
def test_an_address_is_known_by_its_answer(site: str, path: str, kind: str) -> None:
    assert asyncio.run(kind_of_address(site + path)) == kind


def test_an_address_that_does_not_answer_is_named(command: Command) -> None:
    done = command("list", "http://127.0.0.1:9/mcp")
    assert done.exit_code == 2
    assert "http://127.0.0.1:9/mcp can't be reached" in done.stderr


def test_an_openapi_document_is_a_source(command: Command, folder: Path, site: str) -> None:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "pets", "version": "1"},
        "servers": [{"url": site}],
        "paths": {
            "/pets/{id}": {
                "get": {
                    "operationId": "get_pet",
                    "parameters": [
                        {
                            "name": "id",
                            "in": "path",
                            "required": True,
                            "schema": {"type": "integer"},
                        }
                    ],
                    "responses": {"200": {"description": "a pet"}},
                }
            }
        },
    }
    (folder / "pets.json").write_text(json.dumps(document))
    done = command("call", "get_pet", "pets.json", "--arg", "id=3", "--json")
    assert done.exit_code == 0
    assert "Rex" in done.stdout
    both = json.loads(command("list", "pets.json", "tools.py", "--json").stdout)
    assert {tool["name"]: tool["source"] for tool in both}["get_pet"] == "pets.json"


CODING = '''
from wieldy import Toolbox
from wieldy.tools.code_mode import add_code_mode

box = Toolbox()


@box.tool(permission="confirm")
def pay(bill: str) -> str:
    """Pay a bill."""
    return f"paid {bill}"


add_code_mode(box.view(names=["pay"]))
'''


async def test_a_program_of_a_file_without_a_store_waits_in_the_store_of_the_gateway(
    folder: Path,
) -> None:
    (folder / "coding.py").write_text(CODING)
    async with Toolbox(store=f"sqlite:///{folder / 'gateway.db'}") as box:
        # A name that is taken, so that the program's function has another one here.
        box.add(lambda bill: "nothing", "pay")
        found = await load_sources(["coding.py"], Own(), base=box)
        assert found.failed == []

        waiting = await box.call("run_code", {"code": "await pay_2(bill='water')"})

        assert waiting.status is Status.PENDING
        (parked,) = await box.pending(below=waiting.call.id)
        assert parked.call.arguments == {"bill": "water"}
        await box.approve(parked.id, by="ann")
        assert (await box.outcome(waiting.call.id)).value == "paid water"
        ended = {entry.call.tool: entry.status for entry in await box.ledger.list()}
        assert ended == {"run_code": Status.OK, "pay_2": Status.OK}
