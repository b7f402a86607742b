"""Whatever a caller sends and whatever a tool gives, a call ends in an outcome."""

import random
import time
from functools import cache
from typing import Any

import pytest

from wieldy import Call, Status, Toolbox
from wieldy.core.call import Scope


class Spiteful:
    """Raises whatever is done with it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("leave me alone")

    def __repr__(self) -> str:
        raise RuntimeError("leave me alone")


class Endless(dict[str, Any]):
    """A mapping that can't be walked through."""

    def items(self) -> Any:
        raise RuntimeError("there is no end")

    def __iter__(self) -> Any:
        raise RuntimeError("there is no end")


def _own_tail() -> list[Any]:
    tail: list[Any] = []
    tail.append(tail)
    return tail


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "make",
    [
        Spiteful,
        lambda: [Spiteful()],
        lambda: Endless(a=1),
        _own_tail,
        _deep,
        lambda: 10**5000,
        lambda: float("nan"),
        lambda: {("a", 1): {1, 2}, 2: b"\xff\x00"},
        lambda: "\ud800" * 10,
        object,
        lambda: "x" * 2_000_000,
    ],
)
async def test_any_value_ends_in_a_row(url: str, make: Any) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def give() -> Any:
            """Give something odd."""
            return make()

        outcome = await box.call("give", idempotency_key="k")
        # What can't even be asked whether it is a stream is an error of the tool.
        assert outcome.status is (Status.ERROR if make is Spiteful else Status.OK)
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert entry.status is outcome.status
        assert (await box.call("give", idempotency_key="k")).call.id == outcome.call.id


@cache
def _texts() -> dict[str, str]:
    """Text that can't be made smaller: an index of PostgreSQL takes 2,700 bytes of it at most."""
    chance = random.Random(1)
    return {
        "endless": "".join(chr(chance.randint(32, 0xD000)) for _ in range(300_000)),
        "nul": "\0" * 400,
        "surrogates": "".join(chr(chance.randint(0xD800, 0xDFFF)) for _ in range(499)),
    }


@pytest.mark.parametrize(
    "where", ["id", "agent", "parent", "provider_id", "tool", "idempotency_key"]
)
@pytest.mark.parametrize("kind", ["endless", "nul", "surrogates"])
async def test_any_name_ends_in_an_outcome_and_the_store_goes_on(
    url: str, where: str, kind: str
) -> None:
    text = _texts()[kind] if where != "idempotency_key" else _texts()[kind][:499]
    ran: list[int] = []
    async with Toolbox(store=url) as box:

        @box.tool
        async def work() -> int:
            """Work."""
            ran.append(1)
            return 1

        scope = Scope(
            agent=text if where == "agent" else None, parent=text if where == "parent" else None
        )
        own: dict[str, Any] = (
            {where: text} if where in ("id", "provider_id", "idempotency_key") else {}
        )
        call = Call(text if where == "tool" else "work", {}, scope, **own)
        outcome = await box.call(call)
        assert outcome.status in (Status.OK, Status.ERROR)
        assert ran == [1] * outcome.ok
        if outcome.ok:
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            assert entry.state == "ok"
        assert (await box.call("work")).value == 1


@pytest.mark.parametrize("where", ["agent", "id", "provider_id"])
async def test_a_name_that_is_no_text_is_an_error_and_nothing_runs(url: str, where: str) -> None:
    ran: list[int] = []
    async with Toolbox(store=url) as box:

        @box.tool
        async def work() -> int:
            """Work."""
            ran.append(1)
            return 1

        odd: Any = 5
        scope = Scope(**{where: odd}) if where == "agent" else Scope()
        own = {where: odd} if where in ("provider_id",) else {}
        call = Call("work", {}, scope, id=b"bytes" if where == "id" else None, **own)  # type: ignore[arg-type]
        outcome = await box.call(call)
        assert outcome.status is Status.ERROR
        assert ran == []
        assert (await box.call("work")).value == 1


async def test_one_that_the_database_refuses_does_not_spoil_the_others(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def work(n: int) -> int:
            """Work."""
            return n

        odd: Any = 5
        calls = [Call("work", {"n": n}, Scope(agent=odd if n == 7 else "a")) for n in range(40)]
        outcomes = await box.call_many(calls)
        assert [outcome.value for outcome in outcomes if outcome.ok] == [
            n for n in range(40) if n != 7
        ]
        assert len(await box.ledger.list(state="ok")) == 39


async def test_no_two_starts_have_the_same_moment(url: str) -> None:
    """A start is known again by its owner and its time."""
    async with Toolbox(store=url) as box:

        @box.tool
        async def work(n: int) -> int:
            """Work."""
            return n

        before = time.time()
        outcomes = await box.call_many([("work", {"n": n}) for n in range(500)])
        entries = await box.ledger.list(limit=None)
        assert all(outcome.ok for outcome in outcomes)
        started = [entry.started_at for entry in entries]
        assert len(set(started)) == 500
        assert all(at is not None and before <= at <= time.time() for at in started)
