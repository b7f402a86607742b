"""`wieldy runs`: show the runs of agents, and one run as a tree of rounds and calls."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from wieldy.agent.subagents.run_tree import WholeRun, read_whole_run
from wieldy.cli import exits, screen
from wieldy.cli.json_views import entry_data
from wieldy.cli.store_choice import StoreChoice
from wieldy.core.errors import WieldyError
from wieldy.core.timestamps import iso_time
from wieldy.store.ledger_entry import Entry

if TYPE_CHECKING:
    from wieldy.store.runs import StoredRun
    from wieldy.store.store import Store

_COLUMNS = ("time", "run", "agent", "state", "session", "input")
_SHORT = 60


class RunChoiceError(WieldyError):
    """The requested run can't be shown."""


def run_runs(choice: StoreChoice, run_id: str | None, state: str | None, as_json: bool) -> int:
    """Print the runs, newest first, or one run in full; returns the exit code."""

    async def read() -> int:
        async with choice.read() as box:
            if run_id is not None:
                await _show_whole(box.store, await find_run(box.store, run_id), as_json)
            else:
                found = await box.store.runs.list(state=state, outermost=True)
                _show_some(found, box.store.address, as_json)
        return exits.OK

    return exits.guarded(lambda runner: runner.run(read()))


async def find_run(store: "Store", beginning: str) -> "StoredRun":
    """The run whose id begins so; `RunChoiceError` unless there is exactly one."""
    found = await store.runs.beginning(beginning)
    if len(found) != 1:
        many = f"More than one run begins with {beginning!r}; give more of its id."
        none = (
            f"No run begins with {beginning!r}. `wieldy runs` lists them. If the id was read while "
            "the run started, nothing of it had begun."
        )
        raise RunChoiceError(many if found else none)
    return found[0]


def _show_some(runs: "list[StoredRun]", address: str, as_json: bool) -> None:
    if as_json:
        screen.put([_run_data(run) for run in runs])
        return
    if not runs:
        screen.say(f"No matching run is recorded in {address}.")
        return
    screen.table(_COLUMNS, [_run_row(run) for run in runs])


def _asked(run: "StoredRun") -> Any:
    """What the agent was asked; None if the row of the run can't be read."""
    prompt = run.request.get("prompt")
    return prompt.get("input") if isinstance(prompt, dict) else None


def _run_row(run: "StoredRun") -> tuple[object, ...]:
    asked = _asked(run)
    shown = asked if isinstance(asked, str) else screen.compact(asked)
    return (
        screen.local(run.created_at),
        run.id,
        run.agent,
        run.state,
        run.session or "",
        screen.line(shown, _SHORT),
    )


async def _show_whole(store: "Store", run: "StoredRun", as_json: bool) -> None:
    whole = await read_whole_run(store, run)
    if as_json:
        screen.put(_whole_data(whole))
        return
    screen.facts(
        (
            ("run", run.id),
            ("inside", run.parent),
            ("agent", run.agent),
            ("state", run.state),
            ("session", run.session),
            ("began", screen.local(run.created_at)),
            ("changed", screen.local(run.changed_at)),
            ("requests", whole.requests),
            ("tokens", screen.compact(whole.usage) if whole.usage else None),
            ("cost", whole.spent.get("cost") or None),
            ("error", run.error),
        )
    )
    for line in _run_tree(whole):
        screen.show(screen.line(line))
    if run.answer is not None:
        screen.show(screen.line(f"answer: {run.answer['text']}", 200))


def _whole_data(whole: WholeRun) -> dict[str, Any]:
    def call_data(entry: Entry) -> dict[str, Any]:
        inner = whole.take_inside(entry)
        return {**entry_data(entry), **({} if inner is None else {"inner_run": _whole_data(inner)})}

    run = whole.run
    told = {place: [call_data(entry) for entry in made] for place, made in whole.rounds.items()}
    used = {"usage": whole.usage, "spent": whole.spent}
    apart = [_whole_data(each) for each in whole.apart()]
    data = {**_run_data(run), **used, "answer": run.answer, "rounds": told}
    return {**data, "runs": apart} if apart else data


def _run_tree(whole: WholeRun, indent: str = "") -> Iterator[str]:
    for place, entries in whole.rounds.items():
        yield indent + (f"round {int(place) + 1}" if place.isdecimal() else place)
        for number, entry in enumerate(entries, start=1):
            is_last = number == len(entries)
            yield f"{indent}  {'└─' if is_last else '├─'} {_call_line(entry)}"
            inner = whole.take_inside(entry)
            if inner is not None:
                yield from _inner_tree(inner, f"{indent}  {'  ' if is_last else '│ '} ")
    for each in whole.apart():
        yield from _inner_tree(each, f"{indent}  ")


def _inner_tree(whole: WholeRun, indent: str) -> Iterator[str]:
    run = whole.run
    facts = [f"run {run.id} of {run.agent}: {run.state}"]
    if whole.usage:
        facts.append(f"tokens {screen.compact(whole.usage)}")
    cost = whole.spent.get("cost")
    if cost:
        facts.append(f"cost {cost}")
    yield indent + ", ".join(facts)
    yield from _run_tree(whole, indent + "  ")


def _call_line(entry: Entry) -> str:
    made, took = entry.call.decision, entry.seconds
    facts = [f"{entry.call.tool} ({entry.call.id}): {entry.state}"]
    if took is not None:
        facts.append(f"{took * 1000:.0f} ms")
    if made is not None:
        by = f" by {made.by}" if made.by else ""
        why = f": {made.reason}" if made.reason else ""
        facts.append(f"{'approved' if made.approved else 'denied'}{by}{why}")
    return ", ".join(facts)


def _run_data(run: "StoredRun") -> dict[str, Any]:
    return {
        "run_id": run.id,
        "agent": run.agent,
        "state": run.state,
        "session": run.session,
        "parent": run.parent,
        "created_at": iso_time(run.created_at),
        "changed_at": iso_time(run.changed_at),
        "input": _asked(run),
        "error": run.error,
    }
