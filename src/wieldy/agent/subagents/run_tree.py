"""Read a run with its calls, and with the runs inside them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wieldy.core.call import nested_run_id
from wieldy.store.ledger_entry import Entry

if TYPE_CHECKING:
    from wieldy.store.runs import StoredRun
    from wieldy.store.store import Store

# By place in the run, such as "0" for the first round or "judge": the calls made there.
Rounds = dict[str, list[Entry]]


@dataclass(frozen=True, slots=True)
class WholeRun:
    """A run with its calls, and with the runs inside them."""

    run: "StoredRun"
    steps: list[Any]
    rounds: Rounds
    inside: "dict[str, WholeRun]"

    @property
    def requests(self) -> int:
        """How many requests were sent to the model."""
        return int(self.steps[-1].get("requests") or 0)

    @property
    def usage(self) -> dict[str, int]:
        """The tokens of all requests."""
        return dict(self.steps[-1].get("usage") or {})

    @property
    def spent(self) -> dict[str, Any]:
        """What of a budget was used up."""
        return dict(self.steps[-1].get("spent") or {})

    def take_inside(self, entry: Entry) -> "WholeRun | None":
        """The run of a subagent that a call has asked."""
        return self.inside.get(nested_run_id(entry.call.id))

    def apart(self) -> "list[WholeRun]":
        """The runs that tools have made themselves: no call of this run stands for them."""
        called = {nested_run_id(each.call.id) for made in self.rounds.values() for each in made}
        return [whole for run_id, whole in self.inside.items() if run_id not in called]


async def read_whole_run(store: "Store", run: "StoredRun") -> WholeRun:
    """A run as a tree: its calls by their rounds, and the runs that they made."""
    steps = await store.runs.steps(run.id)
    rounds = await _read_rounds(store, steps)
    inside = [await read_whole_run(store, each) for each in await store.runs.inside(run.id)]
    return WholeRun(run, steps, rounds, {each.run.id: each for each in inside})


async def _read_rounds(store: "Store", steps: list[Any]) -> Rounds:
    """The calls of a run by their rounds, as the ledger has them now."""
    places = {call["id"]: call["key"] for body in steps for call in body.get("calls", ())}
    rounds: Rounds = {}
    for call_id, key in places.items():
        entry = await store.ledger.get(call_id)
        if entry is not None:
            rounds.setdefault(str(key).split(":")[1], []).append(entry)
    return rounds
