"""The program that the tests run in other processes, and kill.

It reads commands as JSON lines and answers each with one or more JSON lines.
Every time a tool's function is entered it adds a line to the file of effects.
"""

import asyncio
import json
import os
import random
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from wieldy import ActiveCall, ArtifactError, Handler, Outcome, Toolbox
from wieldy.store.artifacts.artifact import ArtifactEdit

URL, EFFECTS, DEATH = sys.argv[1], Path(sys.argv[2]), sys.argv[3]


def die() -> None:
    """End as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)


def note_effect(name: str, n: int) -> None:
    """Leave a trace that outlives the process."""
    with EFFECTS.open("a") as file:
        file.write(f"{name} {n}\n")
    if DEATH == "inside" and n == 13:
        die()


def die_at_commit(number: int) -> None:
    """Die just before the commit of this number is sent."""
    left = [number]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            die()

    event.listen(Engine, "commit", count)

    @event.listens_for(Engine, "connect")
    def trace(connection: Any, record: Any) -> None:
        if hasattr(connection, "set_trace_callback"):
            connection.set_trace_callback(lambda sql: count() if sql == "COMMIT" else None)


async def die_before(active: ActiveCall, proceed: Handler) -> Outcome:
    """A middleware that dies before the call of number 13, or an approved one, may start."""
    if DEATH == "before" and active.arguments.get("n") == 13:
        die()
    if DEATH == "resumed" and active.call.decision is not None:
        die()
    return await proceed(active)


def die_after(outcome: Outcome) -> None:
    """An observer that dies as soon as it hears of number 13."""
    if DEATH == "after" and dict(outcome.call.arguments or {}).get("n") == 13:  # type: ignore[arg-type]
        die()


def make_box() -> Toolbox:
    """A box with one tool of each kind."""
    box = Toolbox(store=URL, middleware=[die_before], observers=[die_after])

    @box.tool
    async def act(n: int) -> int:
        """Do something that can't be taken back."""
        note_effect("act", n)
        return n * 2

    @box.tool(read_only=True)
    async def look(n: int) -> int:
        """Look at something."""
        note_effect("look", n)
        return n * 2

    @box.tool(permission="confirm")
    async def wipe(n: int) -> int:
        """Wipe something, if a person agrees."""
        note_effect("wipe", n)
        return n * 2

    @box.tool
    async def hang(n: int) -> int:
        """Begin, and end when the file of that name is there."""
        note_effect("hang", n)
        for _ in count():
            if EFFECTS.with_name(f"go{n}").exists():
                break
            await asyncio.sleep(0.01)
        return n * 2

    @box.tool(read_only=True, max_result=20)
    async def recite(n: int) -> str:
        """Say much."""
        note_effect("recite", n)
        return f"line {n}\n" * 1000

    return box


def say(**facts: Any) -> None:
    """Answer with a line."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def tell(outcome: Outcome) -> None:
    """Answer with an outcome."""
    say(
        id=outcome.call.id,
        status=outcome.status.value,
        value=outcome.value,
        n=dict(outcome.call.arguments or {}).get("n"),  # type: ignore[arg-type]
        error=None if outcome.error is None else str(outcome.error),
    )


async def flood(box: Toolbox, tool: str, callers: int) -> None:
    """Call without end, from so many callers at once, and acknowledge each call."""

    async def caller(first: int) -> None:
        n = first
        while True:
            tell(await box.call(tool, {"n": n}))
            n += callers

    await asyncio.gather(*(caller(first) for first in range(callers)))


async def write(box: Toolbox, method: str, options: dict[str, Any]) -> None:
    """Change an artifact, and say what came of it."""
    try:
        made: ArtifactEdit = await getattr(box.artifacts, method)(**options)
    except ArtifactError as error:
        say(error=type(error).__name__)
    else:
        say(version=made.version, kind=made.kind)


async def call_by_keys(box: Toolbox, count: int, seed: int) -> None:
    """Call with as many keys, all at once and in an order of our own."""
    numbers = list(range(count))
    random.Random(seed).shuffle(numbers)
    outcomes = await asyncio.gather(
        *(box.call("act", {"n": n}, idempotency_key=f"key {n}") for n in numbers)
    )
    say(values={n: outcome.value for n, outcome in zip(numbers, outcomes, strict=True)})


async def obey(box: Toolbox, command: dict[str, Any]) -> None:
    """Do what a line says."""
    match command:
        case {"do": "call", **options}:
            tell(await box.call(options.pop("tool"), options.pop("arguments"), **options))
        case {"do": "approve", "id": call_id}:
            tell(await box.approve(call_id, by=f"process {os.getpid()}"))
        case {"do": "deny", "id": call_id}:
            tell(await box.deny(call_id, by="child"))
        case {"do": "flood", "tool": tool, "callers": callers}:
            await flood(box, tool, callers)
        case {"do": "keys", "count": count, "seed": seed}:
            await call_by_keys(box, count, seed)
        case {"do": "recover"}:
            outcomes = await box.recover()
            say(ids=sorted(outcome.call.id for outcome in outcomes))
        case _:
            await keep(box, command)


async def keep(box: Toolbox, command: dict[str, Any]) -> None:
    """Do what a line says about what is kept beside calls."""
    match command:
        case {"do": "write", "method": method, **options}:
            await write(box, method, options)
        case {"do": "grow", "id": artifact, "word": word, "times": times}:
            for number in range(times):
                await box.artifacts.update(artifact, "END", f"{word}{number}\nEND")
            say(grown=True)
        case {"do": "append", "session": session, "appends": appends}:
            for messages in appends:
                say(after=await box.sessions.append(session, *messages))
        case {"do": "stand", "verdict": verdict, "pattern": pattern, **options}:
            rule = await getattr(box.standing, verdict)(pattern, **options)
            say(id=rule.id)
        case {"do": "revoke", "id": rule_id}:
            await box.standing.remove(rule_id)
            say(removed=rule_id)
        case {"do": "delete_session", "session": session}:
            say(counts=await box.store.delete_session(session))
        case {"do": "open"}:
            await box.ledger.list()
            say(opened=True)


async def main() -> None:
    """Serve until there is nothing more to read, or forever."""
    if DEATH.startswith("commit:"):
        die_at_commit(int(DEATH.partition(":")[2]))
    loop = asyncio.get_running_loop()
    async with make_box() as box:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            await obey(box, json.loads(line))


asyncio.run(main())
