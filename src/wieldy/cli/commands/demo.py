"""`wieldy demo`: a guided tour of a toolbox, run on a real one."""

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
from wieldy.core.short_text import first_line
from wieldy.core.tool import Tool
from wieldy.testing import ScriptedModel
from wieldy.toolbox import Toolbox

_STOPPED = 130
_STYLES = {"ok": "green", "pending": "yellow", "denied": "red", "error": "red", "timeout": "red"}


class _Stage:
    """Prints the demo, and asks questions only on a terminal."""

    def __init__(self) -> None:
        # A character that the terminal can't encode becomes a question mark, not a traceback.
        for stream in (sys.stdout, sys.stderr):
            getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
        self.console = screen.console()
        self.attended = sys.stdin.isatty() and sys.stdout.isatty()

    def title(self, text: str) -> None:
        """Print the title of a step."""
        self.console.print()
        self.console.print(Line(text, style="bold"))

    def say(self, text: str) -> None:
        """Print a sentence."""
        self.console.print(Line(text))

    def show(self, thing: RenderableType) -> None:
        """Print something other than a sentence, indented."""
        self.console.print(Padding(thing, (0, 0, 0, 2), expand=False))

    def code(self, name: str, arguments: Any, method: str = "await box.call") -> None:
        """Print the line of Python that runs next."""
        self.show(Line(f"{method}({name!r}, {arguments!r})", style="cyan"))

    def data(self, data: Any) -> None:
        """Print data as Python shows it."""
        self.show(Line(pretty_repr(data, max_width=self.console.width - 4, indent_size=2)))

    def facts(self, **facts: Any) -> None:
        """Print names and values, one pair to a line; None values are left out."""
        grid = Table.grid(padding=(0, 2))
        for name, fact in facts.items():
            if fact is not None:
                style = _STYLES.get(str(fact), "") if name == "status" else ""
                grid.add_row(Line(name, style="dim"), Line(str(fact), style=style))
        self.show(grid)

    def outcome(self, outcome: Outcome, **more: Any) -> None:
        """Print an outcome: its status, its value or error, and more facts."""
        value = outcome.value if outcome.ok else None
        self.facts(status=outcome.status.value, value=value, error=outcome.error, **more)

    def pause(self) -> None:
        """Wait for the person at the terminal to press Enter."""
        if self.attended:
            self.console.input(Line("\nEnter to go on, Ctrl-C to leave ", style="dim"))

    def ask(self, question: str) -> str:
        """Ask a question and return the answer."""
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
    """An observer that waits for the end of a function that outlived its call."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()
        self.last: Outcome | None = None

    def __call__(self, outcome: Outcome) -> None:
        if outcome.metadata.get("late"):
            self.last = outcome
            self.heard.set()


def _make_box(ear: _Ear) -> Toolbox:
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

    The loop does not run while a question is asked, so Ctrl-C can end the question.
    """

    def __init__(self, stage: _Stage, runner: asyncio.Runner) -> None:
        self.stage = stage
        self.runner = runner
        self.ear = _Ear()
        self.box = _make_box(self.ear)

    def steps(self) -> Mapping[str, Callable[[], None]]:
        return {
            "Functions become tools": self.tools,
            "A model sees a schema": self.schema,
            "A tool shows its work while it runs": self.stream,
            "Almost correct arguments are repaired": self.repair,
            "A call can wait for a person": self.confirm,
            "A rule can deny a call": self.refuse,
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
            table.add_row(tool.name, _first_sentence(tool), tool.permission.value, ", ".join(more))
        self.stage.show(table)

    def schema(self) -> None:
        self.stage.say("Types and docstring give the schema. Anthropic's form of the first tool:")
        self.stage.show(Line('box.schemas("anthropic")[0]', style="cyan"))
        self.stage.data(self.box.schemas("anthropic")[0])
        self.stage.say('Other forms: "openai", "openai-responses", "gemini" and "mcp".')

    def stream(self) -> None:
        self.stage.say("Progress and pieces of the result arrive while the tool runs.")
        self.stage.code("read_pages", {"count": 4}, "async for item in box.stream")
        outcome = self.runner.run(self._follow_progress({"count": 4}))
        self.stage.facts(status=outcome.status.value, blocks=len(outcome.content))

    async def _follow_progress(self, arguments: Mapping[str, Any]) -> Outcome:
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
        self.stage.say("The model sent a wrong name, text for a number and a trailing comma.")
        outcome = self.call("forecast", '{"City": "Oslo", "days": "2",}')
        self.stage.outcome(outcome)
        self.stage.say("Every repair is reported in outcome.metadata:")
        for receipt in outcome.metadata["repairs"]:
            self.stage.data(receipt)
        self.stage.say("For other mistakes the model gets one line that says what to change:")
        self.stage.outcome(self.call("forecast", {"city": "Oslo", "days": "soon"}))

    def confirm(self) -> None:
        self.stage.say('This tool was added with permission="confirm".')
        outcome = self.call("send_mail", {"to": "team@example.com", "subject": "Lunch"})
        self.stage.outcome(outcome, reason=outcome.metadata["reason"])
        self.stage.say("Nothing was sent. The call is parked until somebody decides.")
        [parked] = self.runner.run(self.box.pending())
        decided = self._decide_parked(parked)
        decision = decided.call.decision
        assert decision is not None
        verdict = "approved" if decision.approved else "denied"
        self.stage.outcome(decided, decision=f"{verdict} by {decision.by}")

    def _decide_parked(self, parked: Parked) -> Outcome:
        if not self.stage.attended:
            self.stage.say("There is no terminal to ask on, so the demo approves the call.")
            return self.runner.run(self.box.approve(parked.id, by="demo"))
        while True:
            answer = self.stage.ask("Let it run? yes, no or edit: ").lower()
            if answer in ("y", "yes"):
                return self.runner.run(self.box.approve(parked.id, by="you"))
            if answer in ("n", "no"):
                return self.runner.run(self.box.deny(parked.id, by="you", reason="you said no"))
            if answer in ("e", "edit"):
                try:
                    edited = self._edit_arguments(parked.arguments)
                    return self.runner.run(self.box.approve(parked.id, "you", edited))
                except InvalidArguments as error:
                    self.stage.say(f"{error}. The call is still parked.")

    def _edit_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.stage.say("Enter keeps a value. What you type is checked like any argument.")
        return {
            name: self.stage.ask(f"  {name} [{value}]: ") or value
            for name, value in arguments.items()
        }

    def refuse(self) -> None:
        self.stage.say("Rules match names and arguments. Paths are normalised first.")
        rule = """box.rules.deny("delete_*", where={"path": "/etc/**"}, reason="...")"""
        self.stage.show(Line(rule, style="cyan"))
        self.stage.outcome(self.call("delete_file", {"path": "/tmp/../etc/passwd"}))
        self.stage.outcome(self.call("delete_file", {"path": "/tmp/notes.txt"}))

    def time_out(self) -> None:
        self.stage.say("This tool sleeps for 1.2 s and has a timeout of 0.4 s.")
        outcome = self.call("old_library", {"query": "wieldy"})
        self.stage.outcome(outcome, abandoned=outcome.metadata.get("abandoned"))
        self.stage.say("Python can't kill a thread, so the function runs on. Its end is observed:")
        self.runner.run(asyncio.wait_for(self.ear.heard.wait(), 10))
        assert self.ear.last is not None
        self.stage.outcome(self.ear.last, late=self.ear.last.metadata["late"])

    def agent(self) -> None:
        self.stage.say("The model in this step is scripted, so you need no API key.")
        written = 'agent.input("Umbrella?").output({"take": (bool, "yes or no")})'
        self.stage.show(Line('agent = Agent(model, tool_strategy="native")', style="cyan"))
        self.stage.show(Line(written, style="cyan"))
        answers = [Call("forecast", {"city": "Oslo", "days": 2}), {"take": True}]
        agent = Agent(ScriptedModel(answers), toolbox=self.box, tool_strategy="native")
        agent.use_tools("forecast").input("Umbrella?").output({"take": (bool, "yes or no")})
        self.runner.run(self._hear_events(agent.get_response()))

    async def _hear_events(self, response: Response) -> None:
        async for event, data in response.get_async_generator("all"):
            if event == "tool":
                self.stage.facts(tool=data["tool_name"], result=data["result"])
        self.stage.facts(answer=await response.async_get_data())
        explained = response.explain()
        self.stage.facts(requests=len(explained.requests), tokens=f"~{sum(explained.tokens)}")


def run_demo() -> int:
    """Run the steps of the demo; returns the exit code."""
    stage = _Stage()
    stage.title(f"wieldy {version('wieldy')}: a guided tour")
    if not stage.attended:
        stage.say("There is no terminal, so the demo answers its own questions.")
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
    _say_farewell(stage)
    return 0


def _say_farewell(stage: _Stage) -> None:
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
    stage.say("`wieldy docs` lists the documentation; `wieldy docs first-tool` shows its")
    stage.say("first page. Others are build-an-agent and permissions.")


def _first_sentence(tool: Tool) -> str:
    return first_line(tool.description).partition(". ")[0].rstrip(".")
