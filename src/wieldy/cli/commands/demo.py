"""`wieldy demo`: a guided run through what a toolbox does, against a real one."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from importlib.metadata import version
from typing import Annotated, Any

import rich.progress
from pydantic import Field
from rich.console import RenderableType
from rich.padding import Padding
from rich.pretty import pretty_repr
from rich.table import Table
from rich.text import Text as Line

from wieldy.agent.default_agent import Agent
from wieldy.agent.response import Response
from wieldy.cli import screen
from wieldy.core.block import Progress, Text
from wieldy.core.call import Call, Outcome
from wieldy.core.context import Context
from wieldy.core.errors import InvalidArguments
from wieldy.core.permission.parked import Parked
from wieldy.core.tool import Tool
from wieldy.testing import ScriptedModel
from wieldy.toolbox import Toolbox

_STOPPED = 130
_STYLES = {"ok": "green", "pending": "yellow", "denied": "red", "error": "red", "timeout": "red"}


class _Stage:
    """Says things, and asks only where a person can answer."""

    def __init__(self) -> None:
        # A terminal that can't show a character shows a question mark, not a traceback.
        for stream in (sys.stdout, sys.stderr):
            getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
        self.console = screen.console()
        self.attended = sys.stdin.isatty() and sys.stdout.isatty()

    def title(self, text: str) -> None:
        """The head of a step."""
        self.console.print()
        self.console.print(Line(text, style="bold"))

    def say(self, text: str) -> None:
        """A sentence."""
        self.console.print(Line(text))

    def show(self, thing: RenderableType) -> None:
        """Something that is not a sentence."""
        self.console.print(Padding(thing, (0, 0, 0, 2), expand=False))

    def code(self, name: str, arguments: Any, method: str = "await box.call") -> None:
        """The line of Python that happens next."""
        self.show(Line(f"{method}({name!r}, {arguments!r})", style="cyan"))

    def data(self, data: Any) -> None:
        """Data as Python writes it."""
        self.show(Line(pretty_repr(data, max_width=self.console.width - 4, indent_size=2)))

    def facts(self, **facts: Any) -> None:
        """Names and what they are, one to a line; what is None is left out."""
        grid = Table.grid(padding=(0, 2))
        for name, fact in facts.items():
            if fact is not None:
                style = _STYLES.get(str(fact), "") if name == "status" else ""
                grid.add_row(Line(name, style="dim"), Line(str(fact), style=style))
        self.show(grid)

    def outcome(self, outcome: Outcome, **more: Any) -> None:
        """How a call stands: its status, its value or error, and what else matters."""
        value = outcome.value if outcome.ok else None
        self.facts(status=outcome.status.value, value=value, error=outcome.error, **more)

    def pause(self) -> None:
        """Wait until a person has read, if one is there."""
        if self.attended:
            self.console.input(Line("\nEnter to go on, Ctrl-C to leave ", style="dim"))

    def ask(self, question: str) -> str:
        """What a person answers."""
        return self.console.input(Line(question, style="bold")).strip()


def forecast(city: str, days: int = 3) -> list[str]:
    """Say what the weather will be.

    Args:
        city: where
        days: for how many days
    """
    return [f"day {day} in {city}: {'sun' if day % 2 else 'rain'}" for day in range(1, days + 1)]


async def read_pages(count: int, context: Context) -> AsyncIterator[str]:
    """Read pages, with a line on each."""
    for page in range(1, count + 1):
        for part in range(1, 6):
            await asyncio.sleep(0.05)
            await context.progress((page - 1) * 5 + part, count * 5)
        yield f"page {page}: {page * 120} words"


def send_mail(to: Annotated[str, Field(pattern=".+@.+")], subject: str) -> str:
    """Send a mail. This one only says that it did."""
    return f"sent {subject!r} to {to}"


def delete_file(path: str) -> str:
    """Delete a file. This one deletes nothing."""
    return f"deleted {path}"


def old_library(query: str) -> str:
    """Look something up, slowly."""
    time.sleep(1.2)
    return f"found {query}"


class _Ear:
    """An observer that waits to hear of a function that ended after its call."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self.last: Outcome | None = None

    def __call__(self, outcome: Outcome) -> None:
        if outcome.metadata.get("late"):
            self.last = outcome
            self.heard.set()


def _box(ear: _Ear) -> Toolbox:
    box = Toolbox(observers=[ear])
    box.add(forecast, read_only=True)
    box.add(read_pages, read_only=True)
    box.add(send_mail, permission="confirm")
    box.add(delete_file, destructive=True)
    box.add(old_library, timeout=0.4)
    box.rules.deny("delete_*", where={"path": "/etc/**"}, reason="/etc is not for tools")
    return box


class _Walk:
    """The steps of the demo, over one toolbox and one event loop.

    A question is asked while the loop stands still, so that Ctrl-C reaches it.
    """

    def __init__(self, stage: _Stage, runner: asyncio.Runner) -> None:
        self.stage = stage
        self.runner = runner
        self.ear = _Ear()
        self.box = _box(self.ear)

    def steps(self) -> Mapping[str, Callable[[], None]]:
        return {
            "Functions become tools": self.tools,
            "A model sees a schema": self.schema,
            "A tool shows its work while it runs": self.stream,
            "Arguments that are nearly right are repaired": self.repair,
            "A call can wait for a person": self.confirm,
            "A rule can refuse": self.refuse,
            "A blocking function can be too slow": self.time_out,
            "An agent uses the tools": self.agent,
        }

    def call(self, name: str, arguments: Any) -> Outcome:
        self.stage.code(name, arguments)
        return self.runner.run(self.box.call(name, arguments))

    def tools(self) -> None:
        self.stage.say("Each tool below is a plain Python function that was added to a Toolbox.")
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        for heading in ("tool", "what it does", "permission", "more"):
            table.add_column(heading)
        for tool in self.box:
            more = [trait.replace("_", "-") for trait, holds in tool.traits.items() if holds]
            if tool.limits.timeout:
                more.append(f"timeout {tool.limits.timeout:g} s")
            table.add_row(tool.name, _first_line(tool), tool.permission.value, ", ".join(more))
        self.stage.show(table)

    def schema(self) -> None:
        self.stage.say("Types and docstring give the schema. Anthropic's form of the first tool:")
        self.stage.show(Line('box.schemas("anthropic")[0]', style="cyan"))
        self.stage.data(self.box.schemas("anthropic")[0])
        self.stage.say('Other forms: "openai", "openai-responses", "gemini" and "mcp".')

    def stream(self) -> None:
        self.stage.say("Progress and pieces of the result arrive while the tool runs.")
        self.stage.code("read_pages", {"count": 4}, "async for item in box.stream")
        outcome = self.runner.run(self._follow({"count": 4}))
        self.stage.facts(status=outcome.status.value, blocks=len(outcome.content))

    async def _follow(self, arguments: Mapping[str, Any]) -> Outcome:
        bar = rich.progress.Progress(
            rich.progress.TextColumn("  reading"),
            rich.progress.BarColumn(),
            rich.progress.TaskProgressColumn(),
            console=self.stage.console,
        )
        with bar:
            task = bar.add_task("reading", total=None)
            async for item in self.box.stream("read_pages", arguments):
                match item:
                    case Progress():
                        bar.update(task, completed=item.done, total=item.total)
                    case Text():
                        self.stage.show(Line(item.text, style="green"))
                    case Outcome():
                        return item
        raise AssertionError("a stream ends with its outcome")

    def repair(self) -> None:
        self.stage.say("A model sent a wrong name, text for a number and a comma too many.")
        outcome = self.call("forecast", '{"City": "Oslo", "days": "2",}')
        self.stage.outcome(outcome)
        self.stage.say("Nothing is changed silently. The receipt, in outcome.metadata:")
        for receipt in outcome.metadata["repairs"]:
            self.stage.data(receipt)
        self.stage.say("What can't be repaired gives the model one line that says what to change:")
        self.stage.outcome(self.call("forecast", {"city": "Oslo", "days": "soon"}))

    def confirm(self) -> None:
        self.stage.say('This tool was added with permission="confirm".')
        outcome = self.call("send_mail", {"to": "team@example.com", "subject": "Lunch"})
        self.stage.outcome(outcome, reason=outcome.metadata["reason"])
        self.stage.say("Nothing was sent. The call is parked until somebody decides.")
        [parked] = self.runner.run(self.box.pending())
        decided = self._decide(parked)
        decision = decided.call.decision
        assert decision is not None
        verdict = "approved" if decision.approved else "denied"
        self.stage.outcome(decided, decision=f"{verdict} by {decision.by}")

    def _decide(self, parked: Parked) -> Outcome:
        if not self.stage.attended:
            self.stage.say("There is no terminal to ask on, so the demo says yes.")
            return self.runner.run(self.box.approve(parked.id, by="demo"))
        while True:
            answer = self.stage.ask("Let it run? yes, no or edit: ").lower()
            if answer in ("y", "yes"):
                return self.runner.run(self.box.approve(parked.id, by="you"))
            if answer in ("n", "no"):
                return self.runner.run(self.box.deny(parked.id, by="you", reason="you said no"))
            if answer in ("e", "edit"):
                try:
                    edited = self._edited(parked.arguments)
                    return self.runner.run(self.box.approve(parked.id, "you", edited))
                except InvalidArguments as error:
                    self.stage.say(f"{error}. The call is still parked.")

    def _edited(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.stage.say("Enter keeps a value. What you type is checked like any argument.")
        return {
            name: self.stage.ask(f"  {name} [{value}]: ") or value
            for name, value in arguments.items()
        }

    def refuse(self) -> None:
        self.stage.say("Rules look at names and arguments. Paths are normalised first.")
        rule = """box.rules.deny("delete_*", where={"path": "/etc/**"}, reason="...")"""
        self.stage.show(Line(rule, style="cyan"))
        self.stage.outcome(self.call("delete_file", {"path": "/tmp/../etc/passwd"}))
        self.stage.outcome(self.call("delete_file", {"path": "/tmp/notes.txt"}))

    def time_out(self) -> None:
        self.stage.say("It sleeps for 1.2 s and has a limit of 0.4 s. Its caller gets on in time.")
        outcome = self.call("old_library", {"query": "wieldy"})
        self.stage.outcome(outcome, abandoned=outcome.metadata.get("abandoned"))
        self.stage.say("Python can't kill a thread, so it runs on. An observer hears of its end:")
        self.runner.run(asyncio.wait_for(self.ear.heard.wait(), 10))
        assert self.ear.last is not None
        self.stage.outcome(self.ear.last, late=self.ear.last.metadata["late"])

    def agent(self) -> None:
        self.stage.say("The model here is scripted, so that no key is needed.")
        written = 'agent.input("Umbrella?").output({"take": (bool, "yes or no")})'
        self.stage.show(Line('agent = Agent(model, tool_strategy="native")', style="cyan"))
        self.stage.show(Line(written, style="cyan"))
        answers = [Call("forecast", {"city": "Oslo", "days": 2}), {"take": True}]
        agent = Agent(ScriptedModel(answers), toolbox=self.box, tool_strategy="native")
        agent.use_tools("forecast").input("Umbrella?").output({"take": (bool, "yes or no")})
        self.runner.run(self._hear(agent.get_response()))

    async def _hear(self, response: Response) -> None:
        async for event, data in response.get_async_generator("all"):
            if event == "tool":
                self.stage.facts(tool=data["tool_name"], result=data["result"])
        self.stage.facts(answer=await response.async_get_data())
        explained = response.explain()
        self.stage.facts(requests=len(explained.requests), tokens=f"~{sum(explained.tokens)}")


def run_demo() -> int:
    """Walk through the steps; gives the exit code."""
    stage = _Stage()
    stage.title(f"wieldy {version('wieldy')}: a guided run")
    if not stage.attended:
        stage.say("There is no terminal here, so the demo answers for itself.")
    try:
        with asyncio.Runner() as runner:
            walk = _Walk(stage, runner)
            steps = walk.steps()
            for number, (title, step) in enumerate(steps.items(), start=1):
                if number > 1:
                    stage.pause()
                stage.title(f"{number}/{len(steps)}  {title}")
                step()
    except (KeyboardInterrupt, EOFError):
        stage.say("\nStopped.")
        return _STOPPED
    _farewell(stage)
    return 0


def _farewell(stage: _Stage) -> None:
    stage.title("What to try next")
    program = (
        "from wieldy import Toolbox\n\n"
        "box = Toolbox()\n\n"
        "@box.tool\n"
        "def add(a: int, b: int) -> int:\n"
        '    """Add two numbers."""\n'
        "    return a + b\n\n"
        'print(box.call_sync("add", {"a": 1, "b": "2"}).value)'
    )
    stage.show(Line(program, style="cyan"))
    stage.say("Then read on: `wieldy docs` lists the pages, among them first-tool,")
    stage.say("build-an-agent and permissions; `wieldy docs first-tool` shows the first.")


def _first_line(tool: Tool) -> str:
    return tool.description.partition("\n")[0].partition(". ")[0].rstrip(".")
