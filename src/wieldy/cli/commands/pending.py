"""`wieldy pending`, `approve` and `deny`: show and decide the calls that wait for approval."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from wieldy.cli import exits, screen
from wieldy.cli.argument_options import ArgumentError, read_arguments
from wieldy.cli.call_ids import find_entry
from wieldy.cli.deciding_person import asks_here, find_decider
from wieldy.cli.input_answers import given_answers
from wieldy.cli.json_views import parked_data
from wieldy.cli.live_output import Outlet
from wieldy.cli.module import SourceError
from wieldy.cli.sources import Own, loaded_tools
from wieldy.cli.store_choice import IN_MEMORY, StoreChoice
from wieldy.cli.terminal_questions import confirm_verdict
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import CallDenied, ToolNotFound, WieldyError
from wieldy.core.permission.deciders import check_approver, check_denier
from wieldy.core.permission.parked import Parked
from wieldy.core.visible_text import visible_line, visible_name
from wieldy.toolbox import Toolbox

from .calling import say_traceback

_COLUMNS = ("call", "tool", "state", "age", "expires", "asked by", "reason", "arguments")


class NothingDecided(WieldyError):
    """The person at the terminal did not agree to what they had asked for."""


@dataclass(frozen=True, slots=True)
class PersonVerdict:
    """A person's decision on one call: the call, the person's token and changed arguments."""

    call_id: str
    token: str | None = None
    pairs: tuple[str, ...] = ()
    text: str | None = None

    @property
    def edits(self) -> bool:
        """Whether the decision changes the arguments."""
        return bool(self.pairs) or self.text is not None


def run_pending(
    choice: StoreChoice, as_json: bool, agent: str | None = None, session: str | None = None
) -> int:
    """Print the waiting calls, of one agent or session if named; returns the exit code."""

    def work(runner: asyncio.Runner) -> int:
        with reading(runner, choice.read()) as box:
            approved = runner.run(_approved_ids(box))
            waiting = runner.run(box.pending(agent=agent, session=session))
            if as_json:
                screen.put([parked_data(each, each.id in approved) for each in waiting])
            elif waiting:
                # Nothing is cut, because the person who decides must see everything.
                rows = [_parked_row(each, each.id in approved) for each in waiting]
                screen.table(_COLUMNS, rows, wide=None)
            else:
                screen.say(f"No call waits for approval in {box.store.address}.")
        return exits.OK

    return exits.guarded(work)


def run_approve(
    verdict: PersonVerdict, choice: StoreChoice, as_json: bool, traceback: bool = False
) -> int:
    """Approve a call, run it if a source has its tool, and print its outcome."""

    def work(runner: asyncio.Runner) -> int:
        with deciding(runner, choice) as box:
            call, parked = runner.run(_find_call(box, verdict.call_id, choice))
            person = runner.run(find_decider(box, verdict.token, call, check_approver))
            outlet = Outlet(as_json)
            if parked is not None and parked.requests is not None:
                answers = given_answers(parked.requests, verdict.pairs, verdict.text)
                _confirm(verdict, parked, {**parked.shown, "answers": answers}, "Answer it?")
                outcome = runner.run(box.answer(call.id, answers, person))
            else:
                arguments = _edit_arguments(box, parked, verdict) if verdict.edits else None
                _confirm(verdict, parked, _shown_edits(parked, arguments), "Let it run?")
                items = box.approve_stream(call.id, person, arguments)
                outcome = runner.run(outlet.follow(items))
            asks = not outcome.metadata.keys().isdisjoint(("input", "waits_for"))
            if outcome.status is Status.PENDING and not asks:
                _say_who_runs(outcome, box, named=bool(choice.sources))
                if as_json:
                    outlet.finish(outcome)
                return exits.OK
            code = outlet.finish(outcome)
            if traceback:
                say_traceback(outcome)
            if code == exits.WAITING:
                question = visible_line(str(outcome.metadata.get("reason")))
                screen.say(f"The tool ran and asks: {question}")
            return code

    return exits.guarded(work)


def run_deny(verdict: PersonVerdict, reason: str | None, choice: StoreChoice, as_json: bool) -> int:
    """Deny a call; returns the exit code."""

    def work(runner: asyncio.Runner) -> int:
        with reading(runner, choice.open()) as box:
            call, parked = runner.run(_find_call(box, verdict.call_id, choice))
            person = runner.run(find_decider(box, verdict.token, call, check_denier))
            _confirm(verdict, parked, _shown_edits(parked, None), "Deny it?")
            outcome = runner.run(box.deny(call.id, person, reason))
            if as_json:
                Outlet(as_json).finish(outcome)
            else:
                assert isinstance(outcome.error, CallDenied)
                screen.show(f"Denied {call.id}: {outcome.error.reason}")
        return exits.OK

    return exits.guarded(work)


@contextmanager
def deciding(runner: asyncio.Runner, choice: StoreChoice) -> Iterator[Toolbox]:
    """The box in which an approved call can run: that of the sources, with their tools."""
    if not choice.sources:
        with reading(runner, choice.open()) as box:
            yield box
        return
    with loaded_tools(runner, [*choice.sources], Own(choice.url)) as found:
        if not found.kept:
            raise SourceError(IN_MEMORY)
        yield found.toolbox


@contextmanager
def reading(runner: asyncio.Runner, box: Toolbox) -> Iterator[Toolbox]:
    """A box over the store, for a command that runs no tool."""
    try:
        yield box
    finally:
        runner.run(box.close())


async def _find_call(box: Toolbox, given: str, choice: StoreChoice) -> tuple[Call, Parked | None]:
    """The call, and how it is parked if it still waits for a decision."""
    call = (await find_entry(box.store, given, choice.command("pending"))).call
    waiting = {parked.id: parked for parked in await box.pending()}
    return call, waiting.get(call.id)


def _shown_edits(parked: Parked | None, edited: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments with which a call would run, as a person may see them."""
    shown: Mapping[str, Any] = {} if parked is None else parked.shown
    if parked is None or edited is None:
        return dict(shown)
    kept = parked.arguments
    # What was not edited may be a secret.
    return {
        name: shown[name] if name in kept and each == kept[name] and name in shown else each
        for name, each in edited.items()
    }


def _confirm(
    verdict: PersonVerdict, parked: Parked | None, arguments: Mapping[str, Any], question: str
) -> None:
    """Ask the person at the terminal; a token has said who decides, and that they mean it."""
    if parked is None or not asks_here(verdict.token):
        # Of a call that was decided before, the command tells what became of it.
        return
    if not confirm_verdict(parked, arguments, question):
        raise NothingDecided(f"Nothing was decided: {parked.id} still waits.")


def _edit_arguments(
    box: Toolbox, parked: Parked | None, verdict: PersonVerdict
) -> dict[str, object]:
    """The parked arguments with some of them changed, or all of them replaced."""
    if parked is None:
        raise ArgumentError(
            f"Call {verdict.call_id} no longer waits, so its arguments can't be changed."
        )
    tool = box.get(parked.tool)
    if tool is None:
        reason = (
            f"Changed arguments have to be checked by the tool {parked.tool!r}, which is not "
            "loaded. Name its SOURCE after the id."
        )
        raise ToolNotFound(parked.tool, reason=reason)
    changed = read_arguments(tool.input_schema, verdict.pairs, verdict.text)
    return changed if verdict.text is not None else {**parked.arguments, **changed}


def _say_who_runs(receipt: Outcome, box: Toolbox, named: bool) -> None:
    call = receipt.call
    missing = f"{call.tool} has changed or is not in the SOURCE"
    why = missing if named else "No SOURCE was named to run it"
    screen.say(
        f"Approved {call.id} in {box.store.address}. {why}, so another process that has the tool "
        f"will run the call: a server, a waiting caller, or `wieldy approve {call.id} SOURCE`."
    )
    if call.scope.run is not None:
        screen.say(
            f"It belongs to run {call.scope.run} of an agent, which goes on in a server that has "
            f"the agent, or with `wieldy run AGENT --resume {call.scope.run}`."
        )


async def _approved_ids(box: Toolbox) -> set[str]:
    """The ids of calls that are approved and wait for a process that has the tool."""
    return {entry.call.id for entry in await box.ledger.list(state="approved", limit=None)}


def _parked_row(parked: Parked, approved: bool) -> tuple[object, ...]:
    now = time.time()
    scope = parked.scope
    claims = [f"{name}={digest[:12]}" for name, digest in parked.claims.items()]
    who = visible_line(
        " ".join(filter(None, (scope.agent, scope.session and f"({scope.session})", *claims)))
    )
    expires = "" if parked.expires_at is None else f"in {screen.age(parked.expires_at - now)}"
    return (
        parked.id,
        visible_name(parked.tool),
        "approved" if approved else "pending",
        screen.age(now - parked.at),
        expires,
        who,
        visible_line(parked.reason or "", 60),
        screen.exact(parked.shown),
    )
