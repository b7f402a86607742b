"""`wieldy recover` and `settle`: the calls whose process died before they had ended."""

import asyncio
import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from wieldy.core.call import Outcome
from wieldy.toolbox import Toolbox

from . import environment, exits, screen
from .call_ids import find_entry
from .outlet import own_stdout
from .pending import desk
from .record import entry_data, outcome_data

_COLUMNS = ("call", "tool", "status", "result")


class End(StrEnum):
    """How a call of unknown end did end, as a person found out."""

    OK = "ok"
    ERROR = "error"


def run_recover(
    sources: list[str] | None,
    chosen: Sequence[str],
    by: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Run again what a crash left open, or the calls that are chosen; gives the exit code."""

    async def recover(box: Toolbox) -> list[Outcome]:
        named = [(await find_entry(box.ledger, each)).call.id for each in chosen]
        with own_stdout():
            return await box.recover(named or None, by or environment.user())

    def work(runner: asyncio.Runner) -> int:
        with desk(runner, environment.sources(sources), store) as box:
            outcomes = runner.run(recover(box))
            if as_json:
                screen.put([outcome_data(outcome) for outcome in outcomes])
            elif outcomes:
                screen.table(_COLUMNS, map(_row, outcomes))
            else:
                screen.say("No call was left open that may run again by itself.")
            _say_what_is_left(len(runner.run(box.ledger.list(status="unknown", limit=None))))
        return exits.OK if all(outcome.ok for outcome in outcomes) else exits.FAILED

    return exits.guarded(work)


def run_settle(
    call_id: str,
    end: End,
    value: str | None,
    reason: str | None,
    by: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Say how a call of unknown end did end; gives the exit code."""

    async def settle() -> int:
        async with environment.kept(store) as box:
            found = await find_entry(box.ledger, call_id)
            who, gave = by or environment.user(), _read(value)
            entry = await box.ledger.settle(found.call.id, end, who, gave, reason)
        if as_json:
            screen.put(entry_data(entry))
        else:
            screen.show(f"Settled {entry.call.id} as {end.value}.")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(settle()))


def _row(outcome: Outcome) -> tuple[object, ...]:
    obstacle = outcome.metadata.get("not_recovered")
    said = outcome.text if obstacle is None else f"not run again: {obstacle}"
    return outcome.call.id, outcome.call.tool, outcome.status.value, screen.line(said, 60)


def _say_what_is_left(count: int) -> None:
    if count:
        screen.say(
            f"{count} of unknown end {'is' if count == 1 else 'are'} left, which "
            "`wieldy log --status unknown` lists. Say how one ended with `wieldy settle ID ok`, "
            "or run it once more with `wieldy recover --call ID`."
        )


def _read(text: str | None) -> Any:
    """What a person says that a call gave: JSON, or else text."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text
