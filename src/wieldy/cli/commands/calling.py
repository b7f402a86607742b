"""`wieldy call`: run one call, show its output, and ask for approval on a terminal."""

import asyncio
import base64
import mimetypes
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

from wieldy.cli import environment, exits, screen
from wieldy.cli.argument_options import ArgumentError, read_arguments
from wieldy.cli.input_answers import asked_answers
from wieldy.cli.live_output import Outlet
from wieldy.cli.sources import LoadedSources, Own, loaded_tools
from wieldy.cli.store_choice import StoreChoice
from wieldy.cli.terminal_questions import ApprovalAnswer, ask_approval, ask_edits
from wieldy.core.block import Block, Progress, join_text
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import CallNotFound, CallTimeout, InvalidArguments, ToolFailed
from wieldy.core.permission.parked import Parked, make_receipt
from wieldy.core.task import time_limit
from wieldy.toolbox import Toolbox

from .listing import the_tool

_PACKAGE = str(Path(__file__).parents[2])


def say_traceback(outcome: Outcome) -> None:
    """Print the traceback of a tool that raised on stderr."""
    if not isinstance(outcome.error, ToolFailed):
        return
    if outcome.error.redacted:
        screen.say("The traceback is not shown, because it contains a secret.")
    elif outcome.error.original.__traceback__ is None:
        screen.say("There is no traceback, because the tool raised in another process.")
    else:
        screen.say(_traceback_text(outcome.error.original).rstrip("\n"))


def _traceback_text(original: BaseException) -> str:
    """The traceback without the frames of this package at its start."""
    told = traceback.TracebackException.from_exception(original)
    theirs = dropwhile(lambda frame: frame.filename.startswith(_PACKAGE), told.stack)
    told.stack = traceback.StackSummary.from_list([*theirs] or told.stack)
    return "".join(told.format())


@dataclass(frozen=True, slots=True)
class Wish:
    """The tool to call, and the options of the command."""

    name: str
    pairs: tuple[str, ...] = ()
    text: str | None = None
    session: str | None = None
    timeout: float | None = None
    yes: bool = False
    as_json: bool = False
    traceback: bool = False
    out: Path | None = None


def run_call(wish: Wish, sources: list[str] | None, own: Own) -> int:
    """Call a tool and print its result; returns the exit code."""

    def work(runner: asyncio.Runner) -> int:
        if wish.timeout is not None and not wish.timeout > 0:
            raise ArgumentError("--timeout takes a number of seconds greater than 0.")
        with loaded_tools(runner, sources, own) as found:
            tool = the_tool(found, wish.name)
            arguments = read_arguments(tool.input_schema, wish.pairs, wish.text)
            outlet = Outlet(wish.as_json)
            call = Call(tool.name, arguments)
            items = found.meant.stream(call, session=wish.session)
            outcome = _run_call(runner, items, outlet, call, wish)
            while outcome.status is Status.PENDING:
                receipt, outcome = outcome, _settle_receipt(runner, found, outcome, outlet, wish)
                if outcome is receipt:
                    break
            choice = StoreChoice(own.store, tuple(environment.sources(sources)))
            return found.exit_code(_finish_call(outcome, outlet, found, wish, choice))

    return exits.guarded(work)


def _run_call(
    runner: asyncio.Runner,
    items: AsyncIterator[Block | Progress | Outcome],
    outlet: Outlet,
    call: Call,
    wish: Wish,
) -> Outcome:
    """Run a call to its outcome, or stop it after the timeout."""

    async def run() -> Outcome:
        async with time_limit(wish.timeout):
            return await outlet.follow(items)

    try:
        return runner.run(run())
    except TimeoutError:
        error = CallTimeout(call.tool, wish.timeout or 0)
        return Outcome(call, Status.TIMEOUT, error=error)


def _settle_receipt(
    runner: asyncio.Runner, found: LoadedSources, receipt: Outcome, outlet: Outlet, wish: Wish
) -> Outcome:
    """Let a person decide on a call that waits, or on those that it waits for, one by one."""
    if "input" in receipt.metadata:
        return _answer_input(runner, found, receipt, outlet, wish)
    if "waits_for" not in receipt.metadata:
        return _decide_call(runner, found, receipt, outlet, wish)
    box = found.toolbox
    for parked in runner.run(box.pending(below=receipt.call.id)):
        below = make_receipt(parked)
        if _settle_receipt(runner, found, below, outlet, wish) is below:
            return receipt
    return runner.run(box.go_on(receipt.call.id))


def _decide_call(
    runner: asyncio.Runner, found: LoadedSources, receipt: Outcome, outlet: Outlet, wish: Wish
) -> Outcome:
    """Ask a person at the terminal to decide; without a terminal, return the receipt.

    `--yes` is the word of whoever makes the call. Without a terminal that may be a program, and
    where calls are kept for others to decide on, nobody decides on their own call.
    """
    if not screen.attended() and (found.kept or not wish.yes):
        return receipt
    box, call, by = found.toolbox, receipt.call, environment.user()
    if wish.yes:
        return _run_call(runner, box.approve_stream(call.id, by), outlet, call, wish)
    parked = runner.run(_find_parked(box, call.id))
    changes: dict[str, Any] = {}
    while True:
        shown = {**parked.shown, **changes}
        match ask_approval(call.tool, shown, parked.reason):
            case ApprovalAnswer.NO:
                return runner.run(box.deny(call.id, by, "the caller said no"))
            case ApprovalAnswer.EDIT:
                changes.update(ask_edits(shown, the_tool(found, call.tool).input_schema))
            case ApprovalAnswer.YES:
                arguments = {**parked.arguments, **changes} if changes else None
                try:
                    items = box.approve_stream(call.id, by, arguments)
                    return _run_call(runner, items, outlet, call, wish)
                except InvalidArguments as error:
                    screen.fail(error)
                    changes = {}


async def _find_parked(box: Toolbox, call_id: str) -> Parked:
    for parked in await box.pending():
        if parked.id == call_id:
            return parked
    # Somebody else has decided, or the call has expired.
    raise CallNotFound(call_id)


def _answer_input(
    runner: asyncio.Runner, found: LoadedSources, receipt: Outcome, outlet: Outlet, wish: Wish
) -> Outcome:
    """Ask a person at the terminal for the answers; without a terminal, return the receipt."""
    answers = asked_answers(receipt.metadata["input"]) if screen.attended() else None
    if answers is None:
        return receipt
    return runner.run(found.toolbox.answer(receipt.call.id, answers, environment.user()))


def _finish_call(
    outcome: Outcome, outlet: Outlet, found: LoadedSources, wish: Wish, choice: StoreChoice
) -> int:
    code = outlet.finish(outcome)
    if wish.out is not None:
        _write_blocks(outcome, wish.out)
    if wish.traceback:
        say_traceback(outcome)
    if code != exits.WAITING:
        return code
    call_id = outcome.call.id
    if not found.kept:
        screen.fail(
            f"{outcome.call.tool} needs approval and did not run: there is no terminal to ask on, "
            "and no store to keep the call until somebody decides. Use --yes, or give it a store: "
            'Toolbox(store="sqlite:///wieldy.db") in a Python source, --store for other sources.'
        )
        return exits.FAILED
    if not wish.as_json:
        screen.show(call_id)
    reason = outcome.metadata.get("reason") or "it needs approval"
    # Without a terminal this may be read by the model that wants the call.
    screen.say(
        f"The call waits in {found.toolbox.store.address} ({screen.line(reason)}). "
        f"A person has to agree, and finds it with {choice.command('pending')}."
    )
    return code


def _write_blocks(outcome: Outcome, folder: Path) -> None:
    """Write what a call has shown to files of our own naming, one for each block."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, block in enumerate(outcome.content, start=1):
        kind = getattr(block, "mime_type", None) or "text/plain"
        # The content type comes from the tool, so it must not become part of a file name.
        ending = mimetypes.guess_extension(kind.partition(";")[0].strip().lower()) or ".bin"
        file = folder / f"{number:03d}{ending if kind != 'text/plain' else '.txt'}"
        data, text = getattr(block, "data", None), join_text([block])
        file.write_bytes(text.encode() if data is None else base64.b64decode(data))
        screen.say(f"Wrote {file}.")
