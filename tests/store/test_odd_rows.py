"""Whatever a call was refused for, and however odd its data is, it has its row."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wieldy import Context, Secret, Status, Toolbox

MANY = 100_000


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """Where the stack is nearly used up, what collected objects do at their end fails."""
    gc.disable()
    yield
    gc.enable()


def nested(depth: int, leaf: Any = 1) -> Any:
    """Lists and dicts in each other."""
    for level in range(depth):
        leaf = [leaf] if level % 2 else {"a": leaf}
    return leaf


def make_box(url: str) -> Toolbox:
    box = Toolbox(store=url)

    @box.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @box.tool
    def login(a: Secret, code: int) -> None:
        """Log in."""

    @box.tool(permission="confirm")
    def ask(a: int) -> None:
        """Work if a person agrees."""

    return box


REFUSED: dict[str, Callable[[], Any]] = {
    "deep text": lambda: "[" * MANY,
    "deep closed text": lambda: "[" * MANY + "]" * MANY,
    "deep text of objects": lambda: '{"a":' * MANY + "1" + "}" * MANY,
    "deep open text of objects": lambda: '{"a":' * MANY,
    "text a level too deep": lambda: '{"a":' + "[" * 100 + "]" * 100 + "}",
    "deep dict": lambda: {"a": nested(10_000)},
    "deeper dict": lambda: {"a": nested(MANY)},
    "dict a level too deep": lambda: {"a": nested(100)},
    "no JSON": lambda: "{nope",
    "half a pair": lambda: "\ud800",
    "half a pair in JSON": lambda: '{"a": "\\ud800"}',
    "half a pair in a dict": lambda: {"a": "\ud800", "\ud800": 1},
    "NUL": lambda: "\0",
    "NUL in JSON": lambda: '{"a": "\\u0000"}',
    "NUL in a dict": lambda: {"a": "\0", "\0": 2},
    "large text": lambda: "x" * 5_000_000,
    "large JSON": lambda: '{"a": "' + "x" * 5_000_000 + '"}',
    "no number": lambda: {"a": float("nan"), "b": float("inf")},
    "no number in JSON": lambda: '{"a": NaN, "b": -Infinity}',
    "long number in JSON": lambda: '{"b": ' + "9" * 5000 + "}",
    "no keys": lambda: {1: 2, ("a",): 3},
    "no JSON value": lambda: {"a": object()},
    "bytes": lambda: b"\xff",
    "a list": lambda: [1, 2],
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_refused_call_is_a_row(url: str, kind: str) -> None:
    async with make_box(url) as box:
        for tool in ("add", "login", "ask", "nothing", "no\0\ud800thing" * 50):
            outcome = await box.call(tool, REFUSED[kind]())
            assert outcome.status is Status.ERROR
            assert "unrecorded" not in outcome.metadata
            [entry] = await box.ledger.list(tool=tool)
            assert (entry.call.id, entry.state) == (outcome.call.id, "error")
            assert len(str(entry.call.arguments)) < 2 * MANY
            assert str(entry.error) == str(outcome.error)


@pytest.mark.parametrize("kind", ["large text", "deep text", "large JSON"])
async def test_what_was_cut_says_so(url: str, kind: str) -> None:
    async with make_box(url) as box:
        sent = REFUSED[kind]()
        outcome = await box.call("add", sent)
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        kept = entry.call.arguments
        assert isinstance(kept, str)
        assert entry.partial == (len(sent) > MANY)
        assert kept[:MANY] == sent[:MANY]
        assert entry.partial == kept.endswith(f"of {len(sent):,} characters kept]")


@pytest.mark.parametrize("depth", [99, 100, 300, 990, 5000, MANY])
async def test_a_deep_value_beside_a_secret_is_a_row_without_it(
    url: str, depth: int, dump: Callable[[], str]
) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        def give(a: Any, key: Secret) -> Any:
            """Give it back."""
            return [a, f"the {key.get_secret_value()} of it"]

        sent = {"a": nested(depth, "open sesame"), "key": "open sesame"}
        outcome = await box.call("give", sent)
        assert outcome.ok is (depth < 100)
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert entry.status is outcome.status
    assert "sesame" not in dump()


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize("where", ["value", "error", "metadata", "content"])
async def test_an_end_of_any_depth_is_a_row(url: str, where: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def end(depth: int, context: Context) -> Any:
            """End in some way."""
            if where == "error":
                raise ValueError(nested(depth), _Mute())
            if where == "metadata":
                context.report(cost=1.0, deep=nested(depth), mute=_Mute())
            if where == "content":
                await context.emit(nested(depth))
            return nested(depth) if where == "value" else None

        for count, depth in enumerate((99, 101, 300, 980, 5000, MANY), start=1):
            outcome = await box.call("end", {"depth": depth})
            assert outcome.status is (Status.ERROR if where == "error" else Status.OK), depth
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            assert entry.status is outcome.status, depth
            assert [each.state for each in await box.ledger.list()] == [entry.state] * count


async def test_a_deep_row_is_read_from_deep_inside_a_program(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        def end(a: Any, context: Context) -> Any:
            """Give more than was sent, and say it too."""
            context.report(deep=a)
            return [a, a]

        for depth in (99, 98):
            await box.call("end", {"a": nested(depth)})

        async def read(frames: int) -> Any:
            if frames:
                return await read(frames - 1)
            return await box.ledger.list()

        for frames in (0, 400):
            less, more = await asyncio.create_task(read(frames))
            assert (less.value, less.metadata["meta"]["deep"]) == ([nested(98)] * 2, nested(98))
            assert (more.value, more.metadata["meta"]["deep"]) == ([nested(99)] * 2, nested(99))
