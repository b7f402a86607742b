"""What one call of a coroutine function costs, beside awaiting it."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from time import perf_counter
from typing import Any

from wieldy import Outcome, Toolbox

from .child import in_child
from .clock import AsyncWork, interleaved_async, typical
from .effort import Effort
from .reference import RAW, raw
from .row import Row, ratio
from .sample import ARGUMENTS, ARGUMENTS_JSON, find, find_blocking, make_three, named

# A slice is about a millisecond: short enough to fall between the other work of a busy machine.
_COUNT = 300
_ROUNDS = 150
_PROCESSES = 7


def repeated(
    count: int, call: Callable[[str, Any], Awaitable[Any]], name: str, sent: Any
) -> AsyncWork:
    """Work that awaits `call(name, sent)` so many times."""

    async def work() -> None:
        for _ in range(count):
            await call(name, sent)

    return work


def calls(effort: Effort) -> list[Row]:
    """From a dict, from JSON text, with everything set, and inline."""
    runs = _runs(few_tools, effort)
    return [
        ratio("async call from a dict", *typical(runs, 1), "µs", RAW, 12),
        ratio("the same from JSON text", *typical(runs, 2), "µs", RAW, 13),
        ratio("with timeout, rule and observer", *typical(runs, 3), "µs", RAW, 30),
        ratio('sync tool, isolation="inline"', *typical(runs, 4), "µs", RAW, 12),
        ratio("nested call, no scoped rules or modes", *typical(runs, 5), "µs", RAW, 35),
        *_undisturbed(effort),
    ]


def _undisturbed(effort: Effort) -> list[Row]:
    """What must not make a call slower: imports, and a change of rules or groups."""
    loaded, changed = _runs(after_imports, effort), _runs(after_changes, effort)
    before = "the call before it"
    return [
        ratio(
            "async call, mcp and OpenTelemetry imported",
            *typical(loaded, 1),
            "µs",
            "the call without them",
            1.05,
        ),
        ratio("call right after a rule was made", *typical(changed, 1), "µs", before, 3),
        ratio("call right after a group was changed", *typical(changed, 2), "µs", before, 3),
    ]


def after_imports(effort: Effort) -> list[float]:
    """Microseconds of a call before and after the packages are loaded; nothing is configured."""
    count, rounds = effort.count(_COUNT), effort.rounds(_ROUNDS)
    work = repeated(count, _plain_box().call, "find", ARGUMENTS)
    before = _microseconds(count, rounds, work)[1]
    import_module("mcp")
    import_module("opentelemetry.trace")
    return [before, _microseconds(count, rounds, work)[1]]


def after_changes(effort: Effort) -> list[float]:
    """Microseconds of a call, of the one after a new rule, and of the one after a group."""
    box = _plain_box()
    box.groups.create("extra", "Tools that come and go.")

    def make_rule() -> None:
        box.rules.remove(box.rules.deny("other"))

    def change_group() -> None:
        box.groups.activate("extra")
        box.groups.deactivate("extra")

    return asyncio.run(_first_calls(box, effort, lambda: None, make_rule, change_group))


async def _first_calls(box: Toolbox, effort: Effort, *changes: Callable[[], None]) -> list[float]:
    """The best microseconds of the call that follows each change."""
    best = [float("inf")] * len(changes)
    for _ in range(effort.count(3000)):
        for place, change in enumerate(changes):
            change()
            started = perf_counter()
            await box.call("find", ARGUMENTS)
            best[place] = min(best[place], (perf_counter() - started) * 1e6)
    return best


def crowd(effort: Effort) -> list[Row]:
    """The same calls with ten thousand tools in the box."""
    runs = _runs(many_tools, effort)
    among = f"among {effort.count(10_000):,} tools"
    return [
        ratio(f"async call from a dict, {among}", *typical(runs, 1), "µs", RAW, 12),
        ratio(f"with timeout, rule and observer, {among}", *typical(runs, 2), "µs", RAW, 30),
    ]


def few_tools(effort: Effort) -> list[float]:
    """Microseconds of the function itself and of calls in boxes of one tool."""
    count = effort.count(_COUNT)
    inline = Toolbox()
    inline.add(find_blocking, name="find", isolation="inline")
    nesting = _plain_box()

    @nesting.tool
    async def find_often() -> None:
        for _ in range(count):
            await nesting.call("find", ARGUMENTS)

    async def nested() -> None:
        await nesting.call("find_often")

    return _microseconds(
        count,
        effort.rounds(_ROUNDS),
        repeated(count, _plain_box().call, "find", ARGUMENTS),
        repeated(count, _plain_box().call, "find", ARGUMENTS_JSON),
        repeated(count, dressed_box().call, "find", ARGUMENTS),
        repeated(count, inline.call, "find", ARGUMENTS),
        nested,
    )


def many_tools(effort: Effort) -> list[float]:
    """Microseconds of the function itself and of calls in boxes of many tools."""
    count = effort.count(_COUNT)
    plain, dressed = _plain_box(), dressed_box()
    for box in (plain, dressed):
        for name, function in named(effort.count(10_000), make_three):
            box.add(function, name)
    return _microseconds(
        count,
        effort.rounds(_ROUNDS),
        repeated(count, plain.call, "find", ARGUMENTS),
        repeated(count, dressed.call, "find", ARGUMENTS),
    )


def dressed_box() -> Toolbox:
    """A box whose call has a timeout, a rule that looks at it, and an observer."""
    box = Toolbox(observers=[_seen])
    box.rules.deny("find", where={"query": "secret*"})
    box.add(find, timeout=30)
    return box


def _plain_box() -> Toolbox:
    box = Toolbox()
    box.add(find)
    return box


def _seen(outcome: Outcome) -> None:
    """Take notice."""


def _runs(measure: Callable[[Effort], list[float]], effort: Effort) -> list[list[float]]:
    return [in_child(measure, effort) for _ in range(effort.rounds(_PROCESSES))]


def _microseconds(count: int, rounds: int, *works: AsyncWork) -> list[float]:
    best = interleaved_async(rounds, raw(count), *works)
    return [seconds / count * 1e6 for seconds in best]
