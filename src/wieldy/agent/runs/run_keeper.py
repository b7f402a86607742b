"""Resume runs automatically after a decision or a crash."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from wieldy.core.errors import WieldyError, describe_exception
from wieldy.core.run_errors import RunBusy, RunCancelled, RunInterrupted, RunNotFound, RunTaken
from wieldy.models.model_errors import ModelError

if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.agent.agent import BaseAgent
    from wieldy.agent.response import Response
    from wieldy.store.left_runs import LeftRun
    from wieldy.store.runs import StoredRun

# Gives the `Context.deps` of a run's tools from the stored run.
FindDeps = Callable[["StoredRun"], Any]
_log = logging.getLogger("wieldy.agent")
_PAUSE = 1.0
_SWEEP_EVERY = 5.0
_MAX_BACKOFF = 60.0
_GRACE = 10.0
# How much longer a keeper rests than its last look took.
_REST = 10


class RunKeeper:
    """Looks for runs of one agent that can go on, and goes on with them.

    A run can go on after somebody has decided on a call that it waits for, and after the process
    that carried it on has died. Of several keepers, in however many processes, one takes a run.

    Args:
        agent: The agent. It needs a store.
        deps: A function, which may be async, that gives the `deps` of a stored run. Without it,
            only runs that were given no `deps` go on.
        most: How many runs go on at the same time.
        tell: A function that is told what happens; by default that is logged.

    Raises:
        ValueError: The agent has no store.

    Example:
        `async with RunKeeper(agent).keeping(): await wieldy.mcp.serve(box)`
    """

    def __init__(
        self,
        agent: "BaseAgent",
        deps: FindDeps | None = None,
        *,
        most: int = 8,
        tell: Callable[[str], Any] | None = None,
    ) -> None:
        if not agent.toolbox.recorded:
            raise ValueError(f"The agent {agent.name!r} has no store, so it has no runs to keep.")
        self._agent = agent
        self._deps = deps
        self._most = most
        self._tell = tell or _log.info
        self._carried: dict[str, tuple[asyncio.Task[None], Response | None]] = {}
        self._waiting = _WaitingCalls(agent)
        # When a run that could not be resumed is tried again, and the pause before that.
        self._later: dict[str, tuple[float, float]] = {}
        self._swept_at = float("-inf")

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Go on with what is found during the `with` block."""
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait([looking])
            await self._stop()

    async def _stop(self) -> None:
        """Let what goes on end soon, and leave the rest for others to take up."""
        tasks = [task for task, _ in self._carried.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=_GRACE)
        for run_id, (task, response) in list(self._carried.items()):
            self._tell(f"Run {run_id} of {self._agent.name} is left for another process.")
            if response is not None:
                response.hand_over()
            else:
                task.cancel()
        if late:
            await asyncio.wait(late)

    async def _look(self) -> None:
        failed = False
        while True:
            began = time.monotonic()
            try:
                for run in await self._find():
                    self._take_up(run)
                failed = False
            except WieldyError as error:
                if not failed:
                    _log.warning("Runs that can go on can't be looked for now: %s", error)
                failed = True
            # If so many runs wait that a look takes long, the keeper looks less often.
            await asyncio.sleep(max(_PAUSE, _REST * (time.monotonic() - began)))

    async def _find(self) -> "list[LeftRun]":
        """The runs that can go on now."""
        left, now = self._agent.toolbox.store.runs.left, time.monotonic()
        if now - self._swept_at >= _SWEEP_EVERY:
            self._swept_at = now
            await self._sweep()
        found = await left.find(self._agent.name)
        ready = await self._waiting.find_ready(found, self._deps is None)
        known = {run.id for run in found}
        self._later = {each: when for each, when in self._later.items() if each in known}
        due = [run for run in ready if self._later.get(run.id, (0.0, 0.0))[0] <= now]
        return [run for run in due if run.state != "crashed" or await self._is_worth_a_try(run)]

    async def _sweep(self) -> None:
        """Find runs whose processes have died, and calls whose time is over."""
        box = self._agent.toolbox
        await box.store.runs.sweep()
        for call_id in await box.store.runs.left.find_overdue():
            # A call that nobody decided in time is denied when it is looked at.
            with suppress(LookupError):
                await box.desk.find_open(call_id)

    async def _is_worth_a_try(self, run: "LeftRun") -> bool:
        """Whether a crashed run is tried now: after a longer pause each time, and not for ever."""
        if not run.exhausted:
            return time.time() >= run.changed_at + (2**run.tries if run.tries else 0)
        reason = await self._agent.toolbox.store.runs.left.give_up(run)
        if reason is not None:
            _log.error("Run %s of %s is given up. %s", run.id, self._agent.name, reason)
        return False

    def _take_up(self, run: "LeftRun") -> None:
        if run.id not in self._carried and len(self._carried) < self._most:
            task = asyncio.create_task(self._carry_on(run))
            self._carried[run.id] = (task, None)

    async def _carry_on(self, run: "LeftRun") -> None:
        name, why = self._agent.name, "was decided on" if run.state == "interrupted" else "crashed"
        try:
            response = self._agent.take_up(run.id, await self._find_deps(run))
            self._carried[run.id] = (self._carried[run.id][0], response)
            self._tell(f"Run {run.id} of {name} {why}, and goes on.")
            await response.async_get_text()
            self._tell(f"Run {run.id} of {name} is done.")
            self._later.pop(run.id, None)
        except RunCancelled:
            # The run was handed over, or somebody ended it after it was found.
            return
        except (RunBusy, RunTaken, RunNotFound):
            # Somebody else was faster.
            self._tell(f"Run {run.id} of {name} goes on in another process.")
        except RunInterrupted as error:
            self._tell(f"Run {run.id} of {name} waits again: {error}")
            self._put_off(run.id)
        except Exception as error:
            # Model, tools and `deps` are other people's code; the other runs go on.
            level = logging.WARNING if isinstance(error, ModelError) else logging.ERROR
            _log.log(level, "Run %s of %s failed: %s", run.id, name, describe_exception(error))
            self._put_off(run.id)
        finally:
            self._carried.pop(run.id, None)

    def _put_off(self, run_id: str) -> None:
        """Try a run less and less often that did not come to its end."""
        pause = min(self._later.get(run_id, (0.0, _PAUSE / 2))[1] * 2, _MAX_BACKOFF)
        self._later[run_id] = (time.monotonic() + pause, pause)

    async def _find_deps(self, run: "LeftRun") -> Any:
        if self._deps is None:
            return None
        stored = await self._agent.toolbox.store.runs.get(run.id)
        if stored is None:
            raise RunNotFound(run.id)
        found = self._deps(stored)
        return await found if inspect.isawaitable(found) else found


class _WaitingCalls:
    """The calls that runs wait for, on every level below them, and which of them are decided."""

    def __init__(self, agent: "BaseAgent") -> None:
        self._agent = agent
        # Of a run after so many steps: whether it was given `deps`, and the calls on which people
        # have to decide. Until they have, both stay the same.
        self._known: dict[tuple[str, int], tuple[bool, frozenset[str]]] = {}

    async def find_ready(self, found: "list[LeftRun]", without_deps: bool) -> "list[LeftRun]":
        """The runs that have crashed, and those that somebody has decided on."""
        await self._learn(found)
        known = [(run, *self._known[run.id, run.steps]) for run in found]
        able = [(run, waited) for run, has_deps, waited in known if not (has_deps and without_deps)]
        left = self._agent.toolbox.store.runs.left
        undecided = await left.find_undecided({each for _, waited in able for each in waited})
        return [run for run, waited in able if run.state == "crashed" or not waited <= undecided]

    async def _learn(self, found: "list[LeftRun]") -> None:
        """Read what is not known yet of these runs, and forget other runs."""
        left, known = self._agent.toolbox.store.runs.left, self._known
        keys = [(run.id, run.steps) for run in found]
        new = {run_id: (run_id, steps) for run_id, steps in keys if (run_id, steps) not in known}
        self._known = {key: known.get(key, (False, frozenset())) for key in keys}
        read = await left.find_waited(new)
        below = await self._find_below({each for _, waited in read.values() for each in waited})
        for run_id, (has_deps, waited) in read.items():
            self._known[new[run_id]] = has_deps, frozenset(_find_leaves(waited, below))

    async def _find_below(self, ids: set[str]) -> dict[str, tuple[str, ...]]:
        """The calls that these calls wait for, and those that they wait for in turn."""
        found: dict[str, tuple[str, ...]] = {}
        while ids:
            level = await self._agent.toolbox.store.runs.left.find_below(ids)
            found |= level
            ids = {each for below in level.values() for each in below} - found.keys()
        return found


def _find_leaves(ids: Iterable[str], below: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The calls at the end of those that wait for each other."""
    for call_id in ids:
        yield from _find_leaves(below[call_id], below) if call_id in below else (call_id,)
