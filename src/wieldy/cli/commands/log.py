"""`wieldy log`: show the recorded calls, and follow new ones."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wieldy.cli import exits, screen
from wieldy.cli.call_ids import find_entry
from wieldy.cli.json_views import entry_data
from wieldy.cli.moments import read_moment
from wieldy.cli.store_choice import StoreChoice
from wieldy.core.call import Decision
from wieldy.core.errors import WieldyError
from wieldy.core.names import find_near_names
from wieldy.store.row_values import STATES

if TYPE_CHECKING:
    from wieldy.store.ledger_entry import Entry
    from wieldy.store.store import Store

_COLUMNS = ("time", "call", "tool", "state", "took", "session", "arguments", "result")
_SHORT = 60


class LogError(WieldyError):
    """The requested calls can't be shown."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The calls to show."""

    tool: str | None = None
    state: str | None = None
    session: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int = 50

    def check(self) -> None:
        """Raise `LogError` for a wrong filter, before a store is opened."""
        if self.limit < 0:
            raise LogError("--limit takes a number that is not negative; 0 shows all.")
        if self.state is not None and self.state not in STATES:
            hint = find_near_names(self.state, STATES)
            known = f"The states are: {', '.join(STATES)}."
            there = f"Did you mean {hint[0]}?" if hint else known
            raise LogError(f"There is no state {self.state!r}. {there}")

    @property
    def chosen(self) -> dict[str, Any]:
        """The arguments for the ledger, without the times."""
        return {"state": self.state, "tool": self.tool, "session": self.session}


def run_log(choice: StoreChoice, asked: Filter, call_id: str | None, as_json: bool) -> int:
    """Print recorded calls, newest first, or one call in full; returns the exit code."""

    async def read() -> int:
        asked.check()
        async with choice.read() as box:
            if call_id is not None:
                entry = await find_entry(box.store, call_id, choice.command("log"))
                _show_whole(entry, as_json)
            else:
                await _show_some(box.store, asked, as_json)
        return exits.OK

    return exits.guarded(lambda runner: runner.run(read()))


def run_follow(choice: StoreChoice, asked: Filter, as_json: bool) -> int:
    """Print calls when they are made and when they change, until Ctrl-C."""

    async def follow() -> None:
        async with choice.read() as box:
            async for entry in box.ledger.follow(**asked.chosen, last=asked.limit):
                if as_json:
                    screen.put(entry_data(entry), indent=None)
                else:
                    screen.show(_entry_sentence(entry))

    def work(runner: asyncio.Runner) -> int:
        asked.check()
        if asked.since or asked.until:
            raise LogError("--follow shows new calls, so it can't take --since or --until.")
        try:
            runner.run(follow())
        except KeyboardInterrupt:
            # Ctrl-C is the normal way to stop following.
            return exits.OK
        return exits.OK

    return exits.guarded(work)


async def _show_some(store: "Store", asked: Filter, as_json: bool) -> None:
    since = read_moment(asked.since, "--since")
    until = read_moment(asked.until, "--until")
    shown, more = 0, False
    show: Any = screen.array() if as_json else screen.growing_table(_COLUMNS, wide=6)
    walk = store.ledger.walk(**asked.chosen, since=since, until=until)
    async with contextlib.aclosing(walk) as entries:
        with show as put:
            async for entry in entries:
                # One entry more than is shown is read, to know whether there are more.
                if more := bool(asked.limit) and shown == asked.limit:
                    break
                put(entry_data(entry) if as_json else _entry_row(entry))
                shown += 1
    if not shown and not as_json:
        screen.say(f"No matching call is recorded in {store.address}.")
    if more:
        screen.say(f"The newest {shown} are shown; --limit 0 shows all.")


def _entry_row(entry: "Entry") -> tuple[object, ...]:
    call = entry.call
    return (
        screen.local(entry.proposed_at),
        call.id,
        call.tool,
        entry.state,
        _time_taken(entry),
        call.scope.session or "",
        screen.line(_arguments_text(entry), _SHORT),
        screen.line(_result_text(entry), _SHORT),
    )


def _entry_sentence(entry: "Entry") -> str:
    """A call on one line, for --follow."""
    at = entry.ended_at or entry.started_at or entry.proposed_at
    return "  ".join(
        screen.line(cell)
        for cell in (
            screen.local(at),
            entry.call.id,
            f"{entry.state:11}",
            entry.call.tool,
            screen.line(_arguments_text(entry), _SHORT),
            screen.line(_result_text(entry), _SHORT),
        )
        if cell
    )


def _show_whole(entry: "Entry", as_json: bool) -> None:
    if as_json:
        screen.put(entry_data(entry))
        return
    call, made = entry.call, entry.call.decision
    screen.facts(
        (
            ("call", call.id),
            ("tool", call.tool),
            ("fingerprint", entry.fingerprint),
            ("state", entry.state),
            ("proposed", screen.local(entry.proposed_at)),
            ("started", screen.local(entry.started_at)),
            ("ended", screen.local(entry.ended_at)),
            ("took", _time_taken(entry) or None),
            ("attempts", entry.attempts if entry.attempts > 1 else None),
            ("decision", None if made is None else _verdict_text(made)),
            ("reason", None if made is None else made.reason),
            ("because", entry.because),
            ("agent", call.scope.agent),
            ("session", call.scope.session),
            ("parent", call.scope.parent),
            ("caller", call.scope.caller),
            ("run", call.scope.run),
            ("key", call.idempotency_key),
            ("arguments", _arguments_text(entry)),
            ("result", entry.text if entry.ok else None),
            ("error", entry.error),
            ("metadata", screen.compact(entry.metadata) if entry.metadata else None),
        )
    )


def _verdict_text(made: Decision) -> str:
    """A decision with the name of the person and the time."""
    by = f" by {made.by}" if made.by else ""
    return f"{'approved' if made.approved else 'denied'}{by}, {screen.local(made.at)}"


def _arguments_text(entry: "Entry") -> str:
    return "" if entry.call.arguments is None else screen.compact(entry.call.arguments)


def _result_text(entry: "Entry") -> str:
    return entry.text if entry.ended else ""


def _time_taken(entry: "Entry") -> str:
    if entry.started_at is None or entry.ended_at is None:
        return ""
    if "settled_by" in entry.metadata:
        # A settled call ends when a person settles it, which says nothing about its duration.
        return ""
    seconds = max(0.0, entry.ended_at - entry.started_at)
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
