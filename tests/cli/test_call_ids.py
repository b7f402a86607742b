"""An id on the command line means the call of that id, or the only one that begins so."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from wieldy import Call, Toolbox

OLD = "call_0123456789ab"
COMMANDS = [("approve",), ("deny",), ("log",), ("settle", "ok"), ("recover", "--call")]


pytestmark = pytest.mark.usefixtures("ann")


@pytest.fixture
def store(folder: Path) -> "Store":
    return Store(folder / "wieldy.db")


class Store:
    """Parked calls with ids of one's own choice."""

    def __init__(self, path: Path) -> None:
        self._url = f"sqlite:///{path}"

    def park(self, *ids: str, decided: tuple[str, ...] = ()) -> None:
        """Let calls wait, and deny some of them."""

        async def make() -> None:
            async with Toolbox(store=self._url) as box:
                box.add(lambda path: None, name="wipe", permission="confirm")
                for call_id in (*ids, *decided):
                    await box.call(Call("wipe", {"path": "a"}, id=call_id))
                for call_id in decided:
                    await box.deny(call_id)

        asyncio.run(make())

    def states(self) -> dict[str, str]:
        """How all calls stand."""

        async def read() -> dict[str, str]:
            async with Toolbox(store=self._url) as box:
                return {entry.call.id: entry.state for entry in await box.ledger.list(limit=None)}

        return asyncio.run(read())


def asked(verb: tuple[str, ...], call_id: str) -> tuple[str, ...]:
    name, *rest = verb
    return (name, *rest, call_id) if name == "recover" else (name, call_id, *rest)


@pytest.mark.parametrize("verb", COMMANDS)
@pytest.mark.parametrize(
    ("there", "given"),
    [
        (f"{OLD}_12", f"{OLD}_1"),
        (f"{OLD}_000000000012", f"{OLD}_1"),
        (f"{OLD}_100000000000", f"{OLD}_1"),
        ("order-12", "order-1"),
        ("9٣", "9"),
        ("100%", "1%"),
        ("a_b", "a__"),
        ("ab", "a_"),
        ("ab", "a*"),
        ("Ab", "a"),
        ("ÄB", "ä"),
        ("é!", "e"),
    ],
)
def test_no_call_is_taken_for_another(
    command: Command, store: Store, verb: tuple[str, ...], there: str, given: str
) -> None:
    store.park(there)
    done = command(*asked(verb, given))
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"There is no call {given!r}" in done.stderr
    assert store.states() == {there: "pending"}


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_beginning_is_one_call_s_among_all_of_the_ledger(
    command: Command, store: Store, verb: tuple[str, ...]
) -> None:
    store.park("wait-a", decided=("wait-b", "wait-\ud800"))
    before = store.states()
    done = command(*asked(verb, "wait-"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "More than one id begins with 'wait-'" in done.stderr
    assert store.states() == before


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("x", "x"),
        ("x1", "x1"),
        ("x1%", "x1%y"),
        ("X", "X_"),
        ("call_ffffff", "call_ffffff000000_000000000001"),
        ("call_ffffff000000_0000", "call_ffffff000000_000000000001"),
        ("call_ee", "call_ee0000000000_7"),
        ("\U0010ffff", "\U0010ffff!"),
        ("\ud7ff", "\ud7ff "),
    ],
)
def test_an_exact_id_wins_and_a_beginning_is_enough(
    command: Command, store: Store, given: str, meant: str
) -> None:
    ids = ("x", "x1", "x12", "x1%y", "X_", "x_", "call_ffffff000000_000000000001")
    store.park(*ids, "call_ee0000000000_7", "\U0010ffff!", "\ud7ff ", "\ue000")
    done = command("log", given, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["call_id"] == meant
    command("deny", given)
    assert [name for name, state in store.states().items() if state == "denied"] == [meant]


def test_the_id_of_a_task_can_be_cut_anywhere(command: Command, store: Store) -> None:
    task_id = "task_" + "0123456789abcdef012345678"
    store.park(task_id)
    assert command("deny", task_id[:14]).exit_code == 0
    assert store.states() == {task_id: "denied"}
