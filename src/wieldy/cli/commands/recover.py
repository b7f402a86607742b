"""`wieldy recover` and `settle`: deal with calls that a crash interrupted."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from wieldy.cli import environment, exits, screen
from wieldy.cli.call_ids import find_entry
from wieldy.cli.deciding_person import asks_here, find_person
from wieldy.cli.json_views import entry_data, outcome_data
from wieldy.cli.live_output import own_stdout
from wieldy.cli.store_choice import StoreChoice
from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Outcome, Status
from wieldy.core.choices import Role
from wieldy.toolbox import Toolbox

from .pending import deciding

_COLUMNS = ("call", "tool", "state", "result")
_DECIDING: tuple[Role, ...] = ("approve", "administer")


class SettledEnd(StrEnum):
    """How an interrupted call ended, as a person found out."""

    OK = "ok"
    ERROR = "error"


def run_recover(
    sources: list[str],
    store: str | None,
    chosen: Sequence[str],
    token: str | None,
    as_json: bool,
) -> int:
    """Run interrupted calls again, or only the chosen ones; returns the exit code."""

    async def recover(box: Toolbox, choice: StoreChoice) -> list[Outcome]:
        listing = choice.command("log --state unknown")
        named = [(await find_entry(box.store, each, listing)).call.id for each in chosen]
        # Whoever names a call lets it run; the others run again only where that does no harm.
        known = bool(named) or not asks_here(token)
        by = await find_person(box, token, _DECIDING) if known else environment.user()
        with own_stdout():
            return await box.recover(named or None, by)

    def work(runner: asyncio.Runner) -> int:
        choice = StoreChoice(store, tuple(environment.sources(sources)))
        with deciding(runner, choice) as box:
            outcomes = runner.run(recover(box, choice))
            if as_json:
                screen.put([outcome_data(outcome) for outcome in outcomes])
            elif outcomes:
                screen.table(_COLUMNS, map(_outcome_row, outcomes))
            else:
                where = box.store.address
                screen.say(f"No interrupted call in {where} can run again without your consent.")
            left = runner.run(box.ledger.list(state="unknown", limit=None))
            _say_what_is_left(len(left), choice)
        return exits.OK if all(outcome.ok for outcome in outcomes) else exits.FAILED

    return exits.guarded(work)


def run_settle(
    call_id: str,
    end: SettledEnd,
    value: str | None,
    reason: str | None,
    token: str | None,
    choice: StoreChoice,
    as_json: bool,
) -> int:
    """Record how an interrupted call ended; returns the exit code."""

    async def settle() -> int:
        async with choice.open() as box:
            listing = choice.command("log --state unknown")
            found = await find_entry(box.store, call_id, listing)
            who, gave = await find_person(box, token, _DECIDING), _read_result(value)
            entry = await box.ledger.settle(found.call.id, Status(end), who, gave, reason)
        if as_json:
            screen.put(entry_data(entry))
        else:
            screen.show(f"Settled {entry.call.id} as {end.value}.")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(settle()))


def _outcome_row(outcome: Outcome) -> tuple[object, ...]:
    obstacle = outcome.metadata.get("not_recovered")
    said = outcome.text if obstacle is None else f"not run again: {obstacle}"
    return outcome.call.id, outcome.call.tool, outcome.status.value, screen.line(said, 60)


def _say_what_is_left(count: int, choice: StoreChoice) -> None:
    if count:
        screen.say(
            f"{count} interrupted {'call has' if count == 1 else 'calls have'} an unknown result; "
            f"{choice.command('log --state unknown')} lists them. Record how a call ended with "
            f"{choice.command('settle ID ok')}, or run it again with "
            f"{choice.command('recover --call ID')}."
        )


def _read_result(text: str | None) -> Any:
    """The result that a person gave for a call, read as JSON or else as text."""
    try:
        return None if text is None else parse_json(text)
    except ValueError:
        return text
