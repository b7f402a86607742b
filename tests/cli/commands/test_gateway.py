"""A gateway from one file: begun, checked and served on the command line."""

import asyncio
import json
import sys
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal, wieldy
from tests.mcp.clients import connected, text_of
from tests.mcp.conftest import SERVERS, SHOP
from wieldy.cli.gateway import load_gateway
from wieldy.server.config.gateway_file import GatewayFile
from wieldy.server.config.mistakes import check_text


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder as `wieldy init` makes it, with a port of its own."""
    assert wieldy("init", cwd=tmp_path).returncode == 0
    file = tmp_path / "gateway.toml"
    file.write_text(file.read_text().replace("port = 8000", "port = 0"))
    return tmp_path


def test_what_init_writes_has_no_mistakes(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "project"
    done = command("init", "--folder", str(folder), "--json")
    written = json.loads(done.stdout)["written"]
    assert sorted(written) == ["gateway.schema.json", "gateway.toml", "tools.py"]
    checked = command("check", str(folder / "gateway.toml"), "--json")
    assert (checked.exit_code, json.loads(checked.stdout)) == (
        0,
        {"mistakes": [], "tools": 2, "failed": [], "lock_changes": []},
    )


def test_init_overwrites_nothing(command: Command, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("mine")
    done = command("init", "agent", "--folder", str(tmp_path))
    assert (tmp_path / "tools.py").read_text() == "mine"
    assert "kept, because it is there already" in done.stdout
    assert "Agent(" in (tmp_path / "agent.py").read_text()


def test_an_agent_as_init_writes_it_is_served_by_the_gateway_beside_it(place: Path) -> None:
    wieldy("init", "agent", cwd=place)
    file, agent = place / "gateway.toml", place / "agent.py"
    file.write_text(file.read_text() + '[[sources]]\npath = "agent.py"\n')
    listed = json.loads(wieldy("list", "gateway.toml", "--json", cwd=place).stdout)
    assert "helper" in [tool["name"] for tool in listed]
    agent.write_text(agent.read_text().replace("sqlite:///", "sqlite:///other"))
    said = wieldy("check", "gateway.toml", cwd=place)
    assert (said.returncode, "those of the gateway" in said.stderr) == (4, True)


def test_check_tells_each_mistake_with_its_line_and_starts_nothing(
    command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('stor = "x"\n[[sources]]\npath = "boom.py"\n')
    (tmp_path / "boom.py").write_text("raise SystemExit('it was started')")

    done = command("check", str(file))
    assert (done.exit_code, f"{file}:1: stor: " in done.stderr) == (2, True)
    (mistake,) = json.loads(command("check", str(file), "--json").stdout)["mistakes"]
    assert (mistake["line"], mistake["key"]) == (1, "stor")

    file.write_text('[[sources]]\npath = "boom.py"\n')
    assert command("check", str(file), "--offline").exit_code == 0
    assert command("check", str(file)).exit_code == 4


@pytest.mark.parametrize("options", [[], ["--offline"]])
def test_check_tells_the_line_of_an_isolation_that_a_source_can_not_have(
    command: Command, tmp_path: Path, options: list[str]
) -> None:
    file, servers = tmp_path / "gateway.toml", tmp_path / "SERVERS.JSON"
    says = "open('started', 'w').close()"
    entry = {"command": sys.executable, "args": ["-c", says], "cwd": str(tmp_path)}
    servers.write_text(json.dumps({"mcpServers": {"one": entry}}))
    file.write_text('[[sources]]\npath = "SERVERS.JSON"\nisolation = "process"\n')

    done = command("check", str(file), *options)
    said = f"{file}:3: sources[0].isolation: is for Python and OpenAPI sources."
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "started").exists()


def test_an_isolation_is_no_mistake_where_functions_run_here_or_nobody_can_know(
    command: Command, tmp_path: Path
) -> None:
    document = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {}}
    (tmp_path / "api.json").write_text(json.dumps(document))
    paths = ["api.json", "missing.json", "tools.py", "https://tools.example/mcp"]
    text = "".join(f'[[sources]]\npath = "{each}"\nisolation = "thread"\n' for each in paths)
    file = tmp_path / "gateway.toml"
    file.write_text(text)

    assert command("check", str(file), "--offline").exit_code == 0


def test_check_tells_the_lines_that_differ_from_the_lock(command: Command, tmp_path: Path) -> None:
    file, tools = tmp_path / "gateway.toml", tmp_path / "tools.py"
    file.write_text('lock = "tools.lock"\n[[sources]]\npath = "tools.py"\n')
    tools.write_text(
        "from wieldy import Toolbox\nbox = Toolbox()\n"
        'box.add(lambda: "hi", name="greet", description="Greet.")\n'
    )
    assert command("lock", str(tools), "--lock", str(tmp_path / "tools.lock")).exit_code == 0
    assert command("check", str(file)).exit_code == 0

    tools.write_text(tools.read_text().replace("Greet.", "Greet all."))
    done = command("check", str(file))
    assert done.exit_code == 1
    assert '-    "Greet."' in done.stderr
    assert '+    "Greet all."' in done.stderr
    (change,) = json.loads(command("check", str(file), "--json").stdout)["lock_changes"]
    assert (change["tool"], change["state"]) == ("greet", "changed")
    assert '+    "Greet all."' in change["diff"]


def test_the_lock_of_a_gateway_is_made_from_its_file(command: Command, place: Path) -> None:
    file, outside = (
        place / "gateway.toml",
        {"/ping": {"get": {"operationId": "ping", "responses": {}}}},
    )
    paths = {"openapi": "3.1.0", "info": {"title": "api", "version": "1"}, "paths": outside}
    servers = {"servers": [{"url": "http://127.0.0.1:9"}]}
    (place / "api.json").write_text(json.dumps(paths | servers))
    text = 'lock = "held.lock"\n' + file.read_text() + '[[sources]]\npath = "api.json"\n'
    file.write_text(text)
    assert "ping" not in command("list", str(file)).stdout

    locked = command("lock", str(file))

    assert (locked.exit_code, "ping" in locked.stdout) == (0, True)
    assert (place / "held.lock").exists()
    assert [command(each, str(file)).exit_code for each in ("verify", "diff", "check")] == [0] * 3
    assert "ping" in command("list", str(file)).stdout


def test_a_gateway_s_file_is_a_source_for_all_commands(command: Command, place: Path) -> None:
    file, tools = str(place / "gateway.toml"), str(place / "tools.py")
    made = command("token", "make", "ann", "--source", file)
    listed = command("token", "list", "--store", f"sqlite:///{place / 'wieldy.db'}")
    assert (made.exit_code, "ann" in listed.stdout) == (0, True)
    (place / "gateway.toml").write_text(
        (place / "gateway.toml").read_text().replace("send_*", "add")
    )
    waits = command("call", "add", file, "--arg", "a=1", "--arg", "b=2")
    assert (waits.exit_code, "it leaves the house" in waits.stderr) == (3, True), "its rules hold"
    assert "add" in command("pending", "--source", file).stdout
    assert "named alone" in command("list", file, tools).stderr
    other = command("call", "add", file, "--store", "sqlite:///x.db")
    assert "which store and lock it has" in other.stderr
    for options in (
        ["--port", "1"],
        ["--stdio"],
        ["--token", "a=b"],
        ["--store", "sqlite:///x.db"],
    ):
        refused = command("serve", file, *options)
        assert (refused.exit_code, "Write these options there" in refused.stderr) == (2, True)


async def sign_in(link: str) -> tuple[str, list[str]]:
    """Who a browser is after it has followed a link, and the tools that it is shown."""
    address, _, key = link.partition("#")
    origin = address.partition("/sign-in")[0]
    async with httpx2.AsyncClient(base_url=origin, headers={"Origin": origin}) as browser:
        assert (await browser.post("/sign-in", json={"key": key})).status_code == 200
        tools = (await browser.get("/api/tools")).json()["tools"]
        name = (await browser.get("/api/me")).json()["name"]
    return name, [tool["name"] for tool in tools]


async def test_a_gateway_serves_its_tools_to_whom_it_knows(place: Path) -> None:
    file = place / "gateway.toml"
    file.write_text(file.read_text().replace("tokens = false", "tokens = true"))
    with file.open("a") as more:
        more.write('[callers.bob]\nview = "readers"\n')
    store = f"sqlite:///{place / 'wieldy.db'}"
    tokens = {
        name: wieldy("token", "make", name, "--store", store, cwd=place).stdout.strip()
        for name in ("ann", "bob")
    }
    with closing(Terminal("serve", "gateway.toml", cwd=place)) as terminal:
        shown = terminal.wait_for("Press Ctrl-C to stop.")
        url = next(word.rstrip(":") for word in shown.split() if word.startswith("http://"))
        async with connected(url, tokens["ann"]) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["add", "send_mail"]
            assert text_of(await client.call_tool("add", {"a": 1, "b": 2})) == "3.0"
            waits = await client.call_tool("send_mail", {"to": "x", "subject": "y"})
            assert "waits for approval" in text_of(waits)
        async with connected(url, tokens["bob"]) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
        link = wieldy("token", "link", "bob", "--store", store, "--url", url, cwd=place).stdout
        assert await sign_in(link.strip()) == ("bob", ["add"])
    waiting = json.loads(wieldy("pending", "--store", store, "--json", cwd=place).stdout)
    assert [(each["tool"], each["caller"]) for each in waiting] == [("send_mail", "ann")]


async def test_what_init_writes_is_served_as_it_is(place: Path) -> None:
    with closing(Terminal("serve", "gateway.toml", cwd=place)) as terminal:
        shown = terminal.wait_for("Press Ctrl-C to stop.")
        url = next(word.rstrip(":") for word in shown.split() if word.startswith("http://"))
        async with connected(url) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["add", "send_mail"]


def test_callers_without_tokens_are_a_mistake(command: Command, place: Path) -> None:
    file = place / "gateway.toml"
    with file.open("a") as more:
        more.write('[callers.bob]\nview = "readers"\n')
    done = command("serve", str(file))
    assert (done.exit_code, "tokens = true below [access]" in done.stderr) == (2, True)


async def test_the_servers_of_a_gateway_have_their_prefix(tmp_path: Path) -> None:
    entry = f'command = "{sys.executable}"\nargs = {json.dumps([SHOP])}\nallow = ["add"]\n'
    text = f'[servers.one]\nprefix = "one_"\n{entry}[servers.two]\n{entry}'
    read = check_text(text)
    assert isinstance(read, GatewayFile)
    found = await load_gateway(read, tmp_path)
    async with found.toolbox as box:
        assert box.names == ["one_add", "add"]


def test_an_open_address_needs_tokens(command: Command, place: Path) -> None:
    file = place / "gateway.toml"
    file.write_text(file.read_text().replace("127.0.0.1", "0.0.0.0"))
    done = command("serve", str(file))
    assert (done.exit_code, "tokens = true below [access]" in done.stderr) == (2, True)


def test_files_that_a_gateway_needs_to_listen_are_looked_at_first(
    command: Command, place: Path
) -> None:
    file = place / "gateway.toml"
    text = file.read_text() + '[metrics]\ntoken_file = "no.token"\n'
    file.write_text(text.replace("port = 0", 'tls = { certificate = "c.pem", key = "k.pem" }'))
    checked, served = command("check", str(file)), command("serve", str(file))
    assert (checked.exit_code, served.exit_code) == (4, 2)
    assert all(word in checked.stderr for word in ("listen.tls", "token_file"))
    assert "listen.tls: its certificate or its key can't be used" in served.stderr


async def test_everybody_reaches_a_server_as_themselves(place: Path) -> None:
    light = json.dumps([str(SERVERS / "light.py"), "whoami"])
    text = (
        'store = "sqlite:///wieldy.db"\n[listen]\nport = 0\n[access]\ntokens = true\n'
        f'[servers.own]\ncommand = "{sys.executable}"\nargs = {light}\n'
        'env = { OWNER = "${caller.name}/${caller.values.key}" }\n'
        '[callers.ann]\nvalues = { key = "of-ann" }\n[callers.bob]\nvalues = { key = "of-bob" }\n'
        '[limits.callers.bob]\nrate = "1/h"\n'
    )
    await asyncio.to_thread((place / "gateway.toml").write_text, text)
    store = f"sqlite:///{place / 'wieldy.db'}"
    tokens = {
        name: wieldy("token", "make", name, "--store", store, cwd=place).stdout.strip()
        for name in ("ann", "bob", "eve")
    }
    with closing(Terminal("serve", "gateway.toml", cwd=place)) as terminal:
        shown = terminal.wait_for("Press Ctrl-C to stop.")
        url = next(word.rstrip(":") for word in shown.split() if word.startswith("http://"))
        for name in ("ann", "bob"):
            async with connected(url, tokens[name]) as client:
                said = text_of(await client.call_tool("whoami", {})).split()
                assert said[0] == f"{name}/of-{name}"
                again = text_of(await client.call_tool("whoami", {}))
                assert ("limits.callers.bob" in again) is (name == "bob")
        async with connected(url, tokens["eve"]) as client:
            assert (await client.list_tools()).tools == []


def test_a_tool_that_the_lock_holds_back_is_no_missing_one(command: Command, place: Path) -> None:
    file, tools = place / "gateway.toml", place / "tools.py"
    file.write_text('lock = "held.lock"\non_change = "block"\n' + file.read_text())
    assert command("lock", str(file)).exit_code == 0
    text = tools.read_text()
    start = text.index('"""', text.index("def add"))
    tools.write_text(text[: start + 3] + "Changed. " + text[start + 3 :])
    for words in (["describe", "add"], ["call", "add"], ["explain", "add"]):
        said = command(*words, str(file)).stderr
        assert "locked in" in said and "There is no tool" not in said, said


@pytest.mark.parametrize("policy", ["block", "quarantine", "warn"])
def test_a_gateway_is_locked_whatever_becomes_of_changed_tools(
    command: Command, place: Path, policy: str
) -> None:
    file = place / "gateway.toml"
    file.write_text(f'lock = "held.lock"\non_change = "{policy}"\n{file.read_text()}')
    assert command("lock", str(file)).exit_code == 0
    assert command("verify", str(file)).exit_code == 0
    file.write_text(file.read_text().replace('lock = "held.lock"\n', ""))
    checked = command("check", str(file), "--offline")
    assert (checked.exit_code, ":1: on_change: needs a lock" in checked.stderr) == (2, True)


def test_the_last_words_of_a_server_are_said_once(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    says = "import sys; print('my last words', file=sys.stderr); sys.exit(3)"
    entry = {"command": sys.executable, "args": ["-c", says]}
    file.write_text(json.dumps({"mcpServers": {"dead": entry}}))
    said = command("list", str(file)).stderr
    assert said.count("my last words") == 1, said


def test_the_store_of_a_source_may_be_named_beside_it(command: Command, tmp_path: Path) -> None:
    mail, store = tmp_path / "mail.py", f"sqlite:///{tmp_path}/mail.db"
    mail.write_text(
        f"from wieldy import Toolbox\nbox = Toolbox(store={store!r})\n"
        'box.add(lambda to: f"sent {to}", name="send", permission="confirm", '
        'input_schema={"properties": {"to": {"type": "string"}}})\n'
    )
    waits = command("call", "send", str(mail), "--arg", "to=x", "--store", store)
    assert waits.exit_code == 3
    [parked] = json.loads(command("pending", "--store", store, "--json").stdout)
    make = command("token", "make", "ann", "--store", store, "--role", "approve")
    options = ["--store", store, "--token", make.stdout.strip()]
    done = command("approve", parked["call_id"], str(mail), *options)
    assert (done.exit_code, "sent x" in done.stdout) == (0, True), done.stderr
    other = command("approve", parked["call_id"], str(mail), "--store", "sqlite:///other.db")
    assert (other.exit_code, "--store can" in other.stderr) == (2, True), other.stderr


TOOLS = '''"""Tools."""
from wieldy import Toolbox

box = Toolbox()


@box.tool
def pay(amount: int) -> str:
    """Pay."""
    return "paid"
'''
RULE = '[[sources]]\npath = "tools.py"\n[[rules]]\nverdict = "deny"\ntools = "pay"\n'


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ('{ amount = { regex = "1.*" } }', "a condition on an argument is"),
        ("{ amount = { gt = 100 } }", "a condition on an argument is"),
        ('{ amount = ">100" }', "'amount' of pay is integer"),
        ("{ amout = 100 }", "pay has no argument 'amout', but 'amount'"),
    ],
)
def test_a_condition_that_would_never_match_is_a_mistake_with_its_line(
    command: Command, tmp_path: Path, where: str, said: str
) -> None:
    file = tmp_path / "gateway.toml"
    (tmp_path / "tools.py").write_text(TOOLS)
    file.write_text(f"{RULE}where = {where}\n")

    done = command("check", str(file))
    (mistake,) = json.loads(command("check", str(file), "--json").stdout)["mistakes"]

    assert done.exit_code == 2
    assert f"{file}:{mistake['line']}: rules[0]" in done.stderr
    assert mistake["line"] in (3, 6)
    assert said in mistake["message"]


def test_an_output_schema_that_can_not_be_used_is_told_by_check(
    command: Command, tmp_path: Path
) -> None:
    file, tools = tmp_path / "gateway.toml", tmp_path / "tools.py"
    tools.write_text(TOOLS.replace("@box.tool", '@box.tool(output_schema={"type": "nothing"})'))
    file.write_text('[[sources]]\npath = "tools.py"\n')

    for source in (file, tools):
        done = command("check", str(source))
        assert done.exit_code == 4
        assert "its output schema can't be used" in done.stderr


async def test_a_gateway_has_search_skills_and_functions_in_processes(place: Path) -> None:
    skill = place / "skills" / "greeting"
    skill.mkdir(parents=True)
    said = "---\nname: greeting\ndescription: How we greet.\n---\nSay hello.\n"
    (skill / "SKILL.md").write_text(said)
    (place / "where.py").write_text(
        "import os\nfrom wieldy import Toolbox\nbox = Toolbox()\n"
        "@box.tool\ndef where() -> int:\n    return os.getpid()\n"
    )
    file = place / "gateway.toml"
    more = '[[sources]]\npath = "where.py"\nisolation = "process"\n[skills]\nfolder = "skills"\n'
    file.write_text(file.read_text() + more + '[search]\nalways = ["add"]\n')
    with closing(Terminal("serve", "gateway.toml", cwd=place)) as terminal:
        shown = terminal.wait_for("Press Ctrl-C to stop.")
        url = next(word.rstrip(":") for word in shown.split() if word.startswith("http://"))
        async with connected(url) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert listed == {"search_tools", "load_tools", "add"}
            found = text_of(await client.call_tool("search_tools", {"query": "read a skill"}))
            assert "read_skill" in found
            read = text_of(await client.call_tool("read_skill", {"skill": "greeting"}))
            assert "Say hello." in read
            pid = int(text_of(await client.call_tool("where", {})))
            assert pid != terminal.process.pid
    file.write_text(file.read_text().replace("\n[search]\n", "\n[search]\nbudget = 1\n"))
    failed = wieldy("check", "gateway.toml", cwd=place)
    assert failed.returncode != 0
    assert "the budget is 1" in failed.stderr
