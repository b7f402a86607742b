"""What a model or a client reads says that a call waits, and never how somebody decides on it.

Every sentence in the source is looked at, and every kind of call that waits is made and read
through each way in.
"""

import ast
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from typer.main import get_command

import wieldy
import wieldy.mcp
from tests.mcp.clients import MODES, Mode, Person
from tests.mcp.serving.tasks.task_client import task_client
from tests.server.test_app import http
from wieldy import Call, CallPending, CallsNeeded, Context, InputNeeded, Status, Tool, Toolbox
from wieldy.agent import Agent, ServedAgent
from wieldy.cli.app import app as command_line
from wieldy.dialects.agently import AgentlyToolManager
from wieldy.dialects.agentscope import Toolkit
from wieldy.dialects.artifactflow import ToolRegistry
from wieldy.dialects.sage import MCPRegistry
from wieldy.mcp.lock import Lock
from wieldy.server import app
from wieldy.server.api.api_routes import OPERATIONS
from wieldy.store.ledger import Ledger
from wieldy.testing import ScriptedModel
from wieldy.tools.artifacts import add_artifact_tools
from wieldy.tools.code_mode import add_code_mode
from wieldy.tools.tool_search import add_search_tools
from wieldy.wire import anthropic, gemini, mcp, openai, openai_responses
from wieldy.wire.text.result_text import format_result

SOURCE = Path(wieldy.__file__).parent
# Only people read these: the command line, and the mistakes in the file of a gateway.
FOR_PEOPLE = ("cli", "server/config")
# What stands elsewhere and no client reads, with who does.
EXEMPT = {
    "Tool %s: %s (%s). See `wieldy diff` and `wieldy lock`.": "the log",
    "… ({} more lines; see `wieldy diff`)": "those who approve and look at a changed tool",
    "Restore it from a copy, or delete it and run `wieldy lock` again.": "who starts a program",
    "Make it with `wieldy lock`.": "who starts a program",
    "Run `wieldy upgrade` to bring it up to date.": "who starts a program",
    "wieldy backup": "the mark of a backup",
}

COMMANDS = sorted(getattr(get_command(command_line), "commands"))  # noqa: B009 - not a plain command
DECIDING = ("approve", "approve_stream", "deny", "answer", "go_on", "recover", "set_mode")
HOLDING = ("rules", "standing", "untrusted")
REQUESTS = [
    rf"{each.method} /api{re.sub(r'{[^}]*}', r'[^ ]+', each.path)}\b"
    for each in OPERATIONS
    if each.path.startswith("/pending/") or "administer" in each.roles
    if each.method != "GET"
]
WAYS = re.compile(
    "|".join(
        [
            rf"\bwieldy (?:{'|'.join(COMMANDS)})\b",
            rf"\b(?:{'|'.join((*DECIDING, 'settle'))})\(",
            rf"\b(?:box|toolbox|Toolbox|desk)\.(?:{'|'.join((*DECIDING, *HOLDING))})\b",
            r"\brules\.(?:allow|ask|deny)\b|\btokens\.make\b|\bself_approval\b",
            r"pending/[^ ]+/\w|/sign-in#|WIELDY_TOKEN|(?<![\w-])--(?:yes|token|approve)\b",
            r"\btasks/update\b",
            *REQUESTS,
        ]
    )
)


def find_ways(text: str) -> list[str]:
    """The commands, methods and requests in a text with which somebody decides."""
    return sorted({found.group() for found in WAYS.finditer(text)})


def sentences(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, without its docstrings; what is filled in stands as {}."""
    apart: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            apart.add(id(body[0].value))
        if isinstance(node, ast.JoinedStr):
            apart.update(map(id, node.values))
            parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in apart:
            yield str(node.value)


def test_the_words_to_look_for_are_those_that_there_are() -> None:
    assert {"approve", "deny", "token", "recover", "settle"} <= set(COMMANDS)
    assert [each for each in (*DECIDING, *HOLDING) if each not in dir(Toolbox())] == []
    assert hasattr(Ledger, "settle")
    assert len(REQUESTS) > 6


@pytest.mark.parametrize(
    "told",
    [
        "let it run with `wieldy approve call_1`",
        "use box.approve",
        "Give them with answer().",
        "POST /api/pending/call_1/approve lets it run",
        "PUT /api/modes changes that",
        "add box.rules.allow('wipe')",
        "open http://localhost:8000/sign-in#wieldy_link_x",
    ],
)
def test_what_says_how_somebody_decides_is_found(told: str) -> None:
    assert find_ways(told) != []


def test_no_sentence_in_the_source_says_how_somebody_decides() -> None:
    found: dict[str, list[str]] = {}
    seen = 0
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith(FOR_PEOPLE):
            continue
        for said in sentences(ast.parse(path.read_text(encoding="utf-8"))):
            seen += 1
            # A word alone is a name or a path of the API, which its document has.
            if " " in said and find_ways(said):
                found.setdefault(said, []).append(place)

    assert seen > 10_000
    assert {said: where for said, where in found.items() if said not in EXEMPT} == {}
    assert EXEMPT.keys() <= found.keys()


@pytest.mark.parametrize("provider", ["openai", "anthropic", "mcp"])
async def test_no_description_of_a_tool_of_ours_says_how_somebody_decides(
    provider: Any, tmp_path: Path
) -> None:
    box = Toolbox(store=f"sqlite:///{tmp_path / 'wieldy.db'}")
    add_artifact_tools(box, write=True)
    add_search_tools(box)
    add_code_mode(box.view())
    ServedAgent(Agent(ScriptedModel([]), name="desk", toolbox=box))

    assert {"artifact_read", "run_code", "desk"} <= set(box.names)
    assert find_ways(json.dumps(box.schemas(provider))) == []
    await box.close()


# Each kind of call that waits: the tool, and what is sent.
PARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "the tool asks": ("wipe", {"path": "a"}),
    "a rule asks": ("pay", {"bill": "a"}),
    "its source says that it is destructive": ("clear", {}),
    "it differs from the lock": ("buy", {"thing": "tea"}),
    "too much to show": ("wipe", {"path": "a", "more": {str(n): n for n in range(3000)}}),
    "it asks something": ("book", {}),
    "it waits for calls": ("tidy", {}),
    "a program waits": ("run_code", {"code": "await wipe(path='a')"}),
    "an agent waits": ("desk", {"query": "Wipe a."}),
}


def make_box(folder: Path, locked: bool = False) -> Toolbox:
    """A box with a tool for each kind of call that waits."""
    lock = folder / "tools.lock"
    bought = Tool(lambda thing: thing, name="buy", description="Buy.", source="mcp:shop")
    Lock.of([bought]).write(lock)
    store = f"sqlite:///{folder / 'wieldy.db'}"
    settings: Any = {"lock": lock, "on_change": "quarantine"} if locked else {}
    box = Toolbox(store=store, **settings)
    model = ScriptedModel([Call("wipe", {"path": "a"}) for _ in range(5)])
    agent = Agent(model, name="desk", tool_strategy="native", toolbox=box)

    @box.tool(permission="confirm", tags=[agent.tag])
    def wipe(path: str, more: dict[str, int] | None = None) -> str:
        """Wipe it."""
        return f"wiped {path}"

    @box.tool
    def pay(bill: str) -> str:
        """Pay."""
        return f"paid {bill}"

    @box.tool
    async def book(context: Context) -> str:
        """Book a room."""
        await context.progress(1, 2, "looking")
        if context.answers is None:
            raise InputNeeded.form("How many nights?")
        return "nothing was booked"

    @box.tool
    async def tidy(context: Context) -> str:
        """Wipe a."""
        raise CallsNeeded([await context.call("wipe", {"path": "a"})])

    box.add(bought.replace(description="Buy everything."))
    facts: dict[str, Any] = {"destructive": True, "cautious": True, "trusted": False}
    box.add(Tool(lambda: "cleared", name="clear", source="python", **facts))
    box.rules.ask("pay", reason="it costs money")
    add_code_mode(box.view(names="wipe"))
    ServedAgent(agent)
    return box


async def read_in_words(box: Toolbox, tool: str, sent: dict[str, Any]) -> str:
    """What the loop of a program gives its model, for every provider and in text."""
    outcome = await box.call(tool, sent)
    assert outcome.status is Status.PENDING, outcome
    with pytest.raises(CallPending) as raised:
        outcome.unwrap()
    shown = await box.results.for_model(outcome)
    forms = [module.render([shown]) for module in (openai, openai_responses, anthropic, gemini)]
    return json.dumps([str(raised.value), shown.text, *forms, mcp.render([shown])]) + format_result(
        tool, shown
    )


async def read_over_mcp(
    box: Toolbox, tool: str, sent: dict[str, Any], mode: Mode, **options: Any
) -> str:
    """What a client gets to read: the listings, progress and the result."""
    said: list[Any] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        said.append(message)

    async with Client(wieldy.mcp.server(box), mode=mode, **options) as client:
        said.append((await client.list_tools()).model_dump_json())
        said.append((await client.list_resources()).model_dump_json())
        try:
            result = await client.call_tool(tool, sent, progress_callback=hear)
            said.append(result.model_dump_json())
        except MCPError as error:
            said.append(error.error.model_dump_json())
    return json.dumps(said)


async def read_as_a_task(box: Toolbox, tool: str, sent: dict[str, Any]) -> str:
    """What a client that knows tasks gets to read."""
    async with task_client(wieldy.mcp.server(box), elicitation_callback=None) as client:
        try:
            made = await client.call(tool, **sent)
        except MCPError as error:
            return str(error.error.model_dump_json())
        return json.dumps([made, await client.get(made["taskId"])])


async def read_over_the_api(box: Toolbox, tool: str, sent: dict[str, Any]) -> str:
    """What a program reads that sends requests, and is refused when it wants to decide."""
    async with http(app(box)) as client:
        made = await client.post("/api/calls", json={"tool": tool, "arguments": sent})
        call_id = made.json()["call_id"]
        answers = [made, *[await client.get(f"/api/{each}") for each in ("calls", "pending")]]
        answers += [await client.get(f"/api/{each}/{call_id}") for each in ("calls", "pending")]
        for verdict in ("approve", "deny"):
            answers.append(await client.post(f"/api/pending/{call_id}/{verdict}", json={}))
    assert [each.status_code for each in answers[-2:]] == [401, 401]
    return "".join(each.text for each in answers)


async def read_in_dialects(box: Toolbox, tool: str, sent: dict[str, Any]) -> str:
    """What the models of programs read that use one of the four known APIs."""
    registry = MCPRegistry(toolbox=box)
    said = [await AgentlyToolManager(box).async_call_tool(tool, sent)]
    with pytest.raises(PermissionError) as raised:
        await registry.acall(tool, sent)
    said += [str(raised.value)]
    chunks = await Toolkit(box).call_tool_function(
        {"type": "tool_use", "id": "t1", "name": tool, "input": sent}
    )
    said += [str(chunk) async for chunk in chunks]
    flow = ToolRegistry().create_agent_toolkit("desk")
    flow.toolbox.add(lambda: "done", name="wait", permission="confirm")
    said += [str(await flow.execute_tool("wait", {}))]
    return "".join(map(str, said))


Read = Callable[[Toolbox, str, dict[str, Any]], Awaitable[str]]


def over_mcp(mode: Mode, **options: Any) -> Read:
    return lambda box, tool, sent: read_over_mcp(box, tool, sent, mode, **options)


def closing() -> Person:
    """Somebody who closes every question without an answer."""
    person = Person()
    person.action = "cancel"
    return person


DOORS: dict[str, Callable[[], Read]] = {
    "words": lambda: read_in_words,
    "task": lambda: read_as_a_task,
    "api": lambda: read_over_the_api,
    "dialects": lambda: read_in_dialects,
    **{f"mcp {mode}": lambda mode=mode: over_mcp(mode) for mode in MODES},  # type: ignore[misc]
    **{
        f"mcp {mode} closed": lambda mode=mode: over_mcp(mode, elicitation_callback=closing())  # type: ignore[misc]
        for mode in MODES
    },
}


@pytest.mark.parametrize("kind", PARKS)
@pytest.mark.parametrize("door", DOORS)
async def test_a_call_that_waits_says_so_and_not_how_somebody_decides(
    door: str, kind: str, tmp_path: Path
) -> None:
    box = make_box(tmp_path, locked=kind == "it differs from the lock")
    said = await DOORS[door]()(box, *PARKS[kind])

    assert find_ways(said) == []
    waiting = [each.id for each in await box.pending()]
    if waiting or kind != "it asks something":
        assert any(each in said for each in waiting), said
        told = "erson " in said or kind == "it asks something" or door in ("api", "dialects")
        assert told, said
    await box.close()
