"""`wieldy run`: ask an agent a question, and show its answer and its calls."""

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO, TypeVar

from wieldy.agent.agent import BaseAgent
from wieldy.agent.request import Decider
from wieldy.agent.response import Response
from wieldy.cli import environment, exits, screen
from wieldy.cli.agent_app import ApprovalChoice
from wieldy.cli.deciding_person import find_person
from wieldy.cli.input_answers import asked_answers
from wieldy.cli.live_output import Meter, own_stdout
from wieldy.cli.module import SourceError, load_named
from wieldy.cli.terminal_questions import ApprovalAnswer, ask_approval, ask_edits
from wieldy.core.block import Progress
from wieldy.core.call import Outcome
from wieldy.core.errors import InvalidArguments, StoreError
from wieldy.core.run_errors import RunInterrupted, RunNotFound
from wieldy.core.task import time_limit
from wieldy.models.model_errors import ModelError
from wieldy.wire.structured.structured_stream import StructuredError

from .show_runs import find_run

T = TypeVar("T")
# How long to wait until a stopped run is recorded as that.
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class AskedRun:
    """A question to an agent, or the run to continue."""

    source: str
    question: str | None
    resume: str | None
    approve: ApprovalChoice

    def check(self) -> None:
        """Raise `ValueError` unless there is one thing to do."""
        if (self.question is None) == (self.resume is None):
            raise ValueError("Give a QUESTION, or --resume RUN to continue a run.")


def run_agent(asked: AskedRun, as_json: bool) -> int:
    """Ask the agent in a file, or continue one of its runs; returns the exit code."""

    def work(runner: asyncio.Runner) -> int:
        asked.check()
        agent = load_named(asked.source, "agent", BaseAgent, "Agent")
        return runner.run(_ask_agent(agent, asked, as_json))

    return exits.guarded(work)


async def _start_response(agent: BaseAgent, asked: AskedRun) -> Response:
    by = environment.user()
    if asked.resume is None:
        decide = _Desk(agent, by).choose(asked.approve)
        return agent.input(asked.question).get_response(decide=decide)
    if not agent.toolbox.recorded:
        raise SourceError(f"The agent of {asked.source} has no store, so it has no runs to resume.")
    run = await find_run(agent.toolbox.store, asked.resume)
    if asked.approve is ApprovalChoice.DENY:
        # The calls that wait may be those of anybody, and were not made by this command.
        by = await find_person(agent.toolbox, None, ("approve", "administer"))
    return agent.resume_response(run.id, decide=_Desk(agent, by).choose(asked.approve))


async def _ask_agent(agent: BaseAgent, asked: AskedRun, as_json: bool) -> int:
    async with agent:
        response = await _start_response(agent, asked)
        try:
            with own_stdout() as out, contextlib.closing(Meter()) as meter:
                await _follow(response, _Teller(out, meter, as_json), agent.toolbox.recorded)
        except RunInterrupted as error:
            return _tell_waiting(error, agent, asked.source, as_json)
        except asyncio.CancelledError:
            if agent.toolbox.recorded:
                await _tell_stopped(response.run_id, agent, asked.source, as_json)
            raise
        except (ModelError, StructuredError) as error:
            screen.fail(error)
            return exits.FAILED
        if as_json:
            screen.put(await _run_facts(response))
    return exits.OK


async def _follow(response: Response, teller: "_Teller", recorded: bool) -> None:
    """Show a run to its end. If the command is stopped, a recorded run is left to be resumed."""
    # A reader that is cancelled cancels the run, so this task is not the reader.
    following = asyncio.create_task(teller.follow(response))
    try:
        await asyncio.shield(following)
    except asyncio.CancelledError:
        if recorded:
            response.put_down()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        raise


class _Teller:
    """Shows a run while it happens. With JSON output, only its end is shown."""

    def __init__(self, out: TextIO, meter: Meter, as_json: bool) -> None:
        self._out = out
        self._meter = meter
        self._quiet = as_json
        self._open_line = False

    async def follow(self, response: Response) -> None:
        """Show the text as it arrives, and a line for each call."""
        async for event, data in response.get_async_generator("all"):
            if not self._quiet:
                self._tell_event(event, data)
        self._end_line()

    def _tell_event(self, event: str, data: Any) -> None:
        if event == "delta":
            self._meter.close()
            self._out.write(screen.clean(data))
            self._out.flush()
            self._open_line = not data.endswith("\n")
        elif event == "tool":
            sent, given = _short_text(data["kwargs"]), _short_text(data["result"])
            self._say_line(f"{data['tool_name']}({sent}) → {given}")
        elif event == "tool_progress":
            self._end_line()
            self._meter.show(Progress(data["done"], data["total"], data["message"]))
        elif event == "tool_notice":
            self._say_line(f"{data['tool_name']} ({data['level']}): {_short_text(data['message'])}")
        elif event == "tool_output":
            self._say_line(
                f"{data['tool_name']}: {_short_text(data['content'].get('text', data['content']))}"
            )

    def _say_line(self, text: str) -> None:
        self._meter.close()
        self._end_line()
        screen.say(screen.line(text, 200), "cyan")

    def _end_line(self) -> None:
        if self._open_line:
            self._out.write("\n")
            self._out.flush()
            self._open_line = False


class _Desk:
    """Asks the person at the terminal to decide on calls, which is recorded as done by them."""

    def __init__(self, agent: BaseAgent, by: str) -> None:
        self._agent = agent
        self._by = by
        # The command, which a person can stop instead of answering.
        self._command = asyncio.current_task()
        # Several calls may wait; the person is asked about one at a time.
        self._turn = asyncio.Lock()

    def choose(self, approve: ApprovalChoice) -> Decider | None:
        """The function that decides on calls that need approval; None leaves them waiting."""
        if approve is ApprovalChoice.DENY:
            return self.deny
        return self.decide if approve is ApprovalChoice.ASK and screen.attended() else None

    async def deny(self, receipt: Outcome) -> Outcome:
        """Deny a call that waits."""
        return await self._agent.toolbox.deny(receipt.call.id, self._by, "approvals are off")

    async def decide(self, receipt: Outcome) -> Outcome:
        """Ask about a waiting call, and return its outcome."""
        async with self._turn:
            if "input" in receipt.metadata:
                return await self._answer_input(receipt)
            return await self._approve_call(receipt)

    async def _ask(self, question: Callable[[], T]) -> T:
        """The person's answer. Ctrl-C, or the end of the input, stops the command."""
        try:
            with exits.interruptible():
                return question()
        except (KeyboardInterrupt, EOFError):
            assert self._command is not None
            self._command.cancel()
        # The command, which ends now, ends this too.
        never: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        return await never

    async def _answer_input(self, receipt: Outcome) -> Outcome:
        answers = await self._ask(lambda: asked_answers(receipt.metadata["input"]))
        if answers is None:
            return receipt
        return await self._agent.toolbox.answer(receipt.call.id, answers, self._by)

    async def _approve_call(self, receipt: Outcome) -> Outcome:
        box, call = self._agent.toolbox, receipt.call
        waiting = {each.id: each for each in await box.pending()}
        parked = waiting.get(call.id)
        if parked is None:
            # Somebody else has decided, or the call has expired.
            return receipt
        changes: dict[str, Any] = {}
        while True:
            shown = {**parked.shown, **changes}
            match await self._ask(partial(ask_approval, call.tool, shown, parked.reason)):
                case ApprovalAnswer.NO:
                    return await box.deny(call.id, self._by, "the user said no")
                case ApprovalAnswer.EDIT:
                    tool = box.get(call.tool)
                    schema = {} if tool is None else tool.input_schema
                    changes.update(await self._ask(partial(ask_edits, shown, schema)))
                case ApprovalAnswer.YES:
                    arguments = {**parked.arguments, **changes} if changes else None
                    try:
                        return await box.approve(call.id, self._by, arguments)
                    except InvalidArguments as error:
                        screen.fail(error)
                        changes = {}


async def _run_facts(response: Response) -> dict[str, Any]:
    """A finished run as data for JSON output."""
    return {
        "status": "done",
        "run_id": response.run_id,
        "answer": await response.async_get_data(),
        "text": await response.async_get_text(),
        "meta": await response.async_get_meta(),
        "tools": response.full_result_data["extra"].get("tool_logs", []),
    }


def _tell_waiting(error: RunInterrupted, agent: BaseAgent, source: str, as_json: bool) -> int:
    pending = [parked.to_dict() for parked in error.pending]
    if as_json:
        facts = {"status": "interrupted", "run_id": error.run_id, "state": error.state}
        screen.put({**facts, "pending": pending})
    elif agent.toolbox.recorded:
        for parked in error.pending:
            screen.show(parked.id)
    screen.say(str(error))
    if agent.toolbox.recorded:
        _tell_resuming(source, error.run_id)
    return exits.WAITING


async def _tell_stopped(run_id: str, agent: BaseAgent, source: str, as_json: bool) -> None:
    """Say how a run is resumed that was stopped, unless nothing of it had begun."""
    runs = agent.toolbox.store.runs
    try:
        async with time_limit(_STOP_SECONDS):
            await runs.until(run_id, lambda run: run.state != "running")
    except RunNotFound:
        return
    except (StoreError, TimeoutError):
        # The run is found interrupted or crashed later, and is resumed in the same way.
        pass
    if as_json:
        screen.put({"status": "interrupted", "run_id": run_id, "state": None, "pending": []})
    _tell_resuming(source, run_id)


def _tell_resuming(source: str, run_id: str) -> None:
    screen.say(f"`wieldy run {shlex.quote(source)} --resume {run_id}` continues the run.")


def _short_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={screen.compact(each)}" for key, each in value.items())
    return value if isinstance(value, str) else screen.compact(value)
