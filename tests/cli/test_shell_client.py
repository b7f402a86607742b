"""A client that is a program with a shell decides nothing, whatever it reads and tries.

It runs every command, calls every address and uses every id that it finds in an answer, and what
a reader of the documentation knows besides.
"""

import asyncio
import json
import os
import pwd
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult, InputResponses

from tests.cli.terminal import SECONDS, Terminal, make_token, wieldy
from tests.forking.launch_files import WIELDY
from tests.mcp.clients import MODES, Mode, Person, connected, text_of
from wieldy import Toolbox
from wieldy.core.choices import Role

MAIL = {"to": "ann@example.com", "subject": "Hello"}
ID = re.compile(r"\b(?:call|task)_[0-9a-f]{12}_?\w*")
RUN = re.compile(r"--resume ([0-9a-f]{32})")
COMMAND = re.compile(r"\bwieldy ([a-z][^`\n;,]*)")
ADDRESS = re.compile(r"https?://[^\s\"'`)]+")
YES = ElicitResult(action="accept", content={"approve": True})
ROLES: list[tuple[Role, ...]] = [("call",), ("call", "approve"), ("administer", "call"), ()]
AGENT = """
from wieldy import Call
from wieldy.agent import Agent
from wieldy.testing import ScriptedModel

import tools

model = ScriptedModel([Call("send_mail", {"to": "a", "subject": "b"}), "Sent."])
agent = Agent(model, name="desk", tool_strategy="native", store="sqlite:///wieldy.db")
agent.use_tools(list(tools.box))
"""


class ShellClient:
    """Whoever reads answers, and tries all that is in them in the folder of the gateway."""

    def __init__(self, folder: Path, page: str | None = None, token: str | None = None) -> None:
        self.folder = folder
        self.page = page
        self.token = token
        self.texts: list[str] = []

    def read(self, answer: Any) -> None:
        """Keep what was read."""
        self.texts.append(answer if isinstance(answer, str) else json.dumps(answer, default=str))

    def find(self, pattern: re.Pattern[str]) -> list[str]:
        """Everything of a kind that was read."""
        return sorted({each for text in self.texts for each in pattern.findall(text)})

    async def try_everything(self) -> None:
        """Try every command, address and id, until nothing new is read."""
        await self.try_api()
        self.try_commands()
        await self.try_api()

    def try_commands(self) -> None:
        """Run the commands that were read, and those that everybody knows, as a program does."""
        own = [] if self.token is None else ["--token", self.token]
        tries = [each.split() for each in self.find(COMMAND)]
        for call_id in self.find(ID):
            tries += [
                ["approve", call_id, "--source", "gateway.toml", *own],
                ["approve", call_id, "tools.py", *own],
                ["deny", call_id, "--store", "sqlite:///wieldy.db", *own],
                ["recover", "tools.py", "--call", call_id, *own],
                ["settle", call_id, "ok", "--source", "gateway.toml", *own],
            ]
        tries += [
            ["run", "agent.py", "--resume", run, "--approve", how]
            for run in self.find(RUN)
            for how in ("ask", "deny")
        ]
        tries += [["call", "send_mail", "tools.py", "--yes", "--arguments", json.dumps(MAIL)]]
        for words in tries:
            done = wieldy(*words, cwd=self.folder)
            self.read(done.stdout + done.stderr)

    async def try_api(self) -> None:
        """Send every request that decides or changes something, and follow every address."""
        if self.page is None:
            return
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        browser = {"sec-fetch-site": "same-origin", "origin": self.page}
        async with httpx2.AsyncClient(base_url=self.page, timeout=60) as http:
            for found in (f"{self.page}/api/pending", *self.find(ADDRESS)):
                if found.startswith(self.page):
                    self.read((await http.get(found, headers=headers)).text)
            bodies: list[tuple[str, str, dict[str, Any]]] = [
                ("POST", "/api/rules", {"verdict": "allow", "pattern": "send_mail"}),
                ("PUT", "/api/modes", {"mode": "bypass"}),
                ("POST", "/sign-in", {"key": "wieldy_link_x"}),
            ]
            for call_id in self.find(ID):
                path = f"/api/pending/{call_id}"
                bodies += [("POST", f"{path}/approve", {}), ("POST", f"{path}/deny", {})]
                bodies += [("POST", f"{path}/approve", {"arguments": {**MAIL, "to": "x"}})]
                bodies += [("POST", f"{path}/answer", {"answers": {"approve": True}})]
            for method, path, body in bodies:
                for more in ({}, browser):
                    answer = await http.request(method, path, json=body, headers=headers | more)
                    self.read(answer.text)


async def call_mail(shell: ShellClient, client: Client) -> None:
    """Call over MCP, and answer a question that nobody has asked."""
    shell.read((await client.list_tools()).model_dump_json())
    unasked: InputResponses = {"approve": YES}
    with told_errors(shell):
        shell.read((await client.call_tool("send_mail", MAIL)).model_dump_json())
    with told_errors(shell):
        given = await client.session.call_tool(
            "send_mail", MAIL, input_responses=unasked, allow_input_required=True
        )
        shell.read(given.model_dump_json())


@contextmanager
def told_errors(shell: ShellClient) -> Iterator[None]:
    """An error of the protocol is an answer like any other."""
    try:
        yield
    except MCPError as error:
        shell.read([error.error.message, error.error.data])


def decided(folder: Path, caller: str | None = None) -> list[tuple[str, str | None]]:
    """The states of a caller's calls that do not wait, and who has decided on them."""
    with closing(sqlite3.connect(folder / "wieldy.db")) as file:
        query = (
            "SELECT state, decided_by FROM wieldy_calls "
            "WHERE tool = 'send_mail' AND state != 'pending' AND caller IS ?"
        )
        return file.execute(query, (caller,)).fetchall()


def rules(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "wieldy.db")) as file:
        changes = "SELECT count(*) FROM wieldy_calls WHERE state = 'mode'"
        standing = "SELECT count(*) FROM wieldy_rules"
        return int(file.execute(changes).fetchone()[0] + file.execute(standing).fetchone()[0])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder as `wieldy init` makes it, with a port of its own."""
    assert wieldy("init", cwd=tmp_path).returncode == 0
    file = tmp_path / "gateway.toml"
    file.write_text(file.read_text().replace("port = 8000", "port = 0"))
    return tmp_path


def with_tokens(place: Path) -> None:
    file = place / "gateway.toml"
    file.write_text(file.read_text().replace("tokens = false", "tokens = true"))


@asynccontextmanager
async def gateway(place: Path) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        WIELDY, "serve", "gateway.toml", cwd=place, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(SECONDS):
            while "Press Ctrl-C to stop." not in said:
                line = (await process.stderr.readline()).decode()
                assert line, said
                said += line
        yield said.split(" tools at ")[1].split(": ")[0]
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_without_tokens_nothing_is_decided(place: Path, mode: Mode) -> None:
    async with gateway(place) as url:
        shell = ShellClient(place, url.removesuffix("/mcp"))
        async with connected(url, mode=mode) as client:
            await call_mail(shell, client)
        await asyncio.to_thread(shell.try_commands)
        await shell.try_everything()
    assert shell.find(ID)
    assert decided(place) == [] and rules(place) == 0


async def test_over_the_api_without_tokens_nothing_is_decided(place: Path) -> None:
    async with gateway(place) as url:
        page = url.removesuffix("/mcp")
        shell = ShellClient(place, page)
        async with httpx2.AsyncClient(base_url=page, timeout=60) as http:
            body = {"tool": "send_mail", "arguments": MAIL}
            made = await http.post("/api/calls", json=body)
            shell.read(made.text)
            path = f"/api/pending/{made.json()['call_id']}"
            refused = await http.post(f"{path}/approve", json={})
            wrong = await http.get("/api/me", headers={"Authorization": "Bearer x"})
            seen = (await http.get(path)).json()
        await shell.try_everything()
    assert made.json()["state"] == "pending"
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "sign_in_needed")
    assert wrong.status_code == 401
    assert seen["decidable"] is False
    assert decided(place) == [] and rules(place) == 0


@pytest.mark.parametrize(
    ("guarded", "roles"), [(False, each) for each in ROLES if each] + [(True, r) for r in ROLES]
)
async def test_no_role_decides_on_its_own_call(
    place: Path, guarded: bool, roles: tuple[Role, ...]
) -> None:
    token = await asyncio.to_thread(make_token, place, "bob", roles or ("call",))
    if guarded:
        with_tokens(place)
    if not roles:
        text = (place / "gateway.toml").read_text()
        (place / "gateway.toml").write_text(f"{text}\n[callers.bob]\nroles = []\n")
    async with gateway(place) as url:
        page = url.removesuffix("/mcp")
        shell = ShellClient(place, page, token)
        async with httpx2.AsyncClient(base_url=page, timeout=60) as http:
            bearer = {"Authorization": f"Bearer {token}"}
            body = {"tool": "send_mail", "arguments": MAIL}
            shell.read((await http.post("/api/calls", json=body, headers=bearer)).text)
        if roles:
            async with connected(url, token) as client:
                await call_mail(shell, client)
        await shell.try_everything()
    # Denying one's own call is withdrawing it. Whoever may approve does so for calls of nobody.
    assert set(decided(place, caller="bob")) <= {("denied", "bob")}
    assert "approve" in roles or "administer" in roles or decided(place, caller=None) == []
    assert "administer" in roles or rules(place) == 0


async def test_over_stdio_nothing_is_decided(place: Path) -> None:
    shell = ShellClient(place)
    command = StdioServerParameters(
        command=WIELDY, args=["serve", "tools.py", "--stdio"], cwd=str(place)
    )
    async with Client(stdio_client(command)) as client:
        await call_mail(shell, client)
        await shell.try_everything()
    assert decided(place) == []


async def test_an_agent_that_reads_its_own_run_decides_nothing(place: Path) -> None:
    (place / "agent.py").write_text(AGENT)
    shell = ShellClient(place)
    for words in (["run", "agent.py", "Go."], ["run", "agent.py", "Go.", "--json"]):
        done = await asyncio.to_thread(wieldy, *words, cwd=place)
        assert done.returncode == 3
        shell.read(done.stdout + done.stderr)
    await shell.try_everything()
    assert shell.find(ID) and shell.find(RUN)
    assert decided(place) == []


async def test_the_calls_of_a_run_are_denied_without_a_terminal_by_somebody_who_may(
    place: Path,
) -> None:
    (place / "agent.py").write_text(AGENT.replace('"Sent."', '"Not sent."'))
    asked = await asyncio.to_thread(wieldy, "run", "agent.py", "Go.", cwd=place)
    [run] = RUN.findall(asked.stdout + asked.stderr)
    resume = ("run", "agent.py", "--resume", run, "--approve", "deny")
    codes = []
    people: list[tuple[str, Role]] = [("cal", "call"), ("ann", "approve")]
    for name, role in people:
        token = await asyncio.to_thread(make_token, place, name, [role])
        done = await asyncio.to_thread(wieldy, *resume, cwd=place, WIELDY_TOKEN=token)
        codes.append(done.returncode)
        if name == "cal":
            assert decided(place) == []
    assert codes == [2, 0]
    # The scripted model of a new process makes its call once more.
    assert set(decided(place)) == {("denied", "ann")}


async def test_a_person_at_the_terminal_sees_the_call_whole_and_is_asked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = wieldy("call", "send_mail", "tools.py", "--arguments", json.dumps(MAIL), cwd=place)
    call_id = called.stdout.strip()
    monkeypatch.setenv("LOGNAME", "somebody else")
    for answer, state in (("n", "still waits"), ("y", "sent 'Hello' to ann@example.com")):
        terminal = Terminal("approve", call_id, "tools.py", cwd=place)
        try:
            shown = terminal.wait_for("Let it run? y/N: ")
            assert 'to = "ann@example.com"' in shown and 'subject = "Hello"' in shown
            terminal.type(f"{answer}\n")
            terminal.wait_for(state)
            terminal.ends_with()
        finally:
            terminal.close()
    assert decided(place) == [("ok", pwd.getpwuid(os.getuid()).pw_name)]


async def test_the_link_on_the_terminal_signs_in_a_person_who_decides(place: Path) -> None:
    terminal = Terminal("serve", "gateway.toml", cwd=place, columns=300)
    try:
        await asyncio.to_thread(terminal.wait_for, "This link works once: ")
        link = (await asyncio.to_thread(terminal.wait_for, "\n")).strip()
        page, _, key = link.partition("/sign-in#")
        same = {"origin": page, "sec-fetch-site": "same-origin"}
        async with httpx2.AsyncClient(base_url=page, timeout=60, headers=same) as http:
            body = {"tool": "send_mail", "arguments": MAIL}
            call_id = (await http.post("/api/calls", json=body)).json()["call_id"]
            await asyncio.to_thread(terminal.wait_for, "A call waits for you: send_mail")
            before = await http.post(f"/api/pending/{call_id}/approve", json={})
            signed = await http.post("/sign-in", json={"key": key})
            again = await http.post("/sign-in", json={"key": key})
            me = (await http.get("/api/me")).json()
            done = await http.post(f"/api/pending/{call_id}/approve", json={})
        await asyncio.to_thread(terminal.wait_for, "A browser signed in here")
        made = await asyncio.to_thread(make_token, place, "eve", ["administer"])
        await asyncio.to_thread(terminal.wait_for, "made a token for eve")
    finally:
        terminal.close()
    assert made and (before.status_code, signed.status_code, again.status_code) == (401, 200, 403)
    assert (done.status_code, done.json()["state"]) == (200, "ok")
    assert done.json()["decision"]["by"] == me["name"]


async def test_a_decision_of_the_client_s_user_is_recorded_as_that_and_can_be_switched_off(
    place: Path,
) -> None:
    person = Person()
    async with gateway(place) as url, connected(url, elicitation_callback=person) as client:
        sent = text_of(await client.call_tool("send_mail", MAIL))
    assert sent == "sent 'Hello' to ann@example.com"
    assert decided(place) == [("ok", "somebody, answered in the client")]

    text = (place / "gateway.toml").read_text()
    (place / "gateway.toml").write_text(text.replace("tokens = false", "elicitation = false"))
    async with gateway(place) as url, connected(url, elicitation_callback=person) as client:
        told = await client.call_tool("send_mail", MAIL)
    assert told.is_error and len(person.asked) == 1
    assert len(decided(place)) == 1


def run_words(place: Path, words: Sequence[str]) -> tuple[int, str]:
    done = wieldy(*words, cwd=place)
    return done.returncode, done.stdout.strip() or done.stderr.strip()


def test_without_a_terminal_only_an_administrator_gives_the_right_to_decide(place: Path) -> None:
    store = ("--source", "gateway.toml")
    assert run_words(place, ("token", "make", "cal", *store))[0] == 0
    code, root = run_words(place, ("token", "make", "root", "--role", "administer", *store))
    assert code == 0, "the first one is free"
    for words in (
        ("make", "eve", "--role", "approve"),
        ("make", "eve", "--role", "administer"),
        ("link", "root"),
        ("revoke", "root"),
    ):
        code, said = run_words(place, ("token", *words, *store))
        assert (code, "there is no terminal" in said) == (2, True), words
    code, cal = run_words(place, ("token", "make", "cal2", *store))
    assert code == 0
    code, said = run_words(
        place, ("token", "make", "eve", "--role", "approve", "--token", cal, *store)
    )
    assert (code, "none of the roles administer" in said) == (2, True)
    assert run_words(place, ("token", "link", "cal", *store))[0] == 0
    made = run_words(place, ("token", "make", "eve", "--role", "approve", "--token", root, *store))
    assert made[0] == 0
    # A revoked administrator counts, and a name of theirs is not taken over.
    assert run_words(place, ("token", "revoke", "root", "--token", root, *store))[0] == 0
    for role in ("call", "administer"):
        again = ("token", "make", "root", "--role", role, *store)
        assert run_words(place, again)[0] == 2, role


async def test_a_name_to_which_the_file_gives_roles_is_not_taken_with_a_free_token(
    place: Path,
) -> None:
    await asyncio.to_thread(make_token, place, "root", ["administer"])
    text = (place / "gateway.toml").read_text().replace("tokens = false", "tokens = true")
    named = '[callers.ann]\nroles = ["call", "approve", "administer"]\n'
    (place / "gateway.toml").write_text(f"{text}\n{named}")
    code, ann = await asyncio.to_thread(
        run_words, place, ("token", "make", "ann", "--source", "gateway.toml")
    )
    _, cal = await asyncio.to_thread(
        run_words, place, ("token", "make", "cal", "--source", "gateway.toml")
    )
    assert code == 0, "a token that only calls is free"
    async with gateway(place) as url:
        shell = ShellClient(place, url.removesuffix("/mcp"), ann)
        async with connected(url, cal) as client:
            await call_mail(shell, client)
        async with httpx2.AsyncClient(base_url=shell.page or "") as http:
            me = await http.get("/api/me", headers={"Authorization": f"Bearer {ann}"})
        await shell.try_everything()
    assert me.json()["roles"] == ["call"]
    assert shell.find(ID)
    assert decided(place, caller="cal") == [] and rules(place) == 0


async def test_a_token_made_anew_is_still_of_whoever_made_the_call(place: Path) -> None:
    async with Toolbox(store=f"sqlite:///{place}/wieldy.db") as box:
        first = await box.store.tokens.make("bob", ["call", "approve"])
    async with gateway(place) as url:
        page = url.removesuffix("/mcp")
        async with httpx2.AsyncClient(base_url=page, timeout=60) as http:
            body = {"tool": "send_mail", "arguments": MAIL}
            bearer = {"Authorization": f"Bearer {first}"}
            call_id = (await http.post("/api/calls", json=body, headers=bearer)).json()["call_id"]
            async with Toolbox(store=f"sqlite:///{place}/wieldy.db") as box:
                await box.store.tokens.revoke("bob")
                second = await box.store.tokens.make("bob", ["approve"])
                other = await box.store.tokens.make("ann", ["approve"])
            answers = [
                await http.post(
                    f"/api/pending/{call_id}/approve",
                    json={},
                    headers={"Authorization": f"Bearer {token}"},
                )
                for token in (second, other)
            ]
    assert answers[0].json()["error"]["code"] == "own_call"
    assert (answers[1].status_code, answers[1].json()["decision"]["by"]) == (200, "ann")
