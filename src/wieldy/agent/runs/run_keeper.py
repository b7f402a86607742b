"""Resume runs automatically after a decision or a crash."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from wieldy.core.errors import WieldyError, describe_exception
from wieldy.core.model_errors import ModelError
from wieldy.core.run_errors import RunBusy, RunCancelled, RunInterrupted, RunNotFound, RunTaken

if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.agent.agent import BaseAgent
    from wieldy.agent.response import Response
    from wieldy.store.runs import StoredRun

# Gives the `Context.deps` of a run's tools from the stored run.
FindDeps = Callable[["StoredRun"], Any]
_log = logging.getLogger("wieldy.agent")
_PAUSE = 1.0
_SWEEP_EVERY = 5.0
_LONGEST_BACKOFF = 60.0
_GRACE = 10.0


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
            try:
                for run in await self._find():
                    self._take_up(run)
                failed = False
            except WieldyError as error:
                if not failed:
                    _log.warning("Runs that can go on can't be looked for now: %s", error)
                failed = True
            await asyncio.sleep(_PAUSE)

    async def _find(self) -> "list[StoredRun]":
        """The runs that can go on now."""
        runs, now = self._agent.toolbox.store.runs, time.monotonic()
        if now - self._swept_at >= _SWEEP_EVERY:
            self._swept_at = now
            await runs.sweep()
            # Calls that nobody decided in time are denied when they are looked at.
            await self._agent.toolbox.pending(agent=self._agent.name)
        left = [run for run in await runs.find_left(self._agent.name) if self._has_deps(run)]
        crashed = [run for run in left if run.state == "crashed"]
        waited = [run for run in left if run.state == "interrupted"]
        found = [*crashed, *await self._waiting.find_decided(waited)]
        return [run for run in found if self._later.get(run.id, (0.0, 0.0))[0] <= now]

    def _has_deps(self, run: "StoredRun") -> bool:
        """Whether the run can be given what its tools need; an old one has not said that."""
        return self._deps is not None or run.request.get("deps") is False

    def _take_up(self, run: "StoredRun") -> None:
        if run.id not in self._carried and len(self._carried) < self._most:
            task = asyncio.create_task(self._carry_on(run))
            self._carried[run.id] = (task, None)

    async def _carry_on(self, run: "StoredRun") -> None:
        name, why = self._agent.name, "was decided on" if run.state == "interrupted" else "crashed"
        try:
            response = self._agent.resume_response(run.id, deps=await self._find_deps(run))
            self._carried[run.id] = (self._carried[run.id][0], response)
            self._tell(f"Run {run.id} of {name} {why}, and goes on.")
            await response.async_get_text()
            self._tell(f"Run {run.id} of {name} is done.")
            self._later.pop(run.id, None)
        except RunCancelled:
            # The run was handed over.
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
        pause = min(self._later.get(run_id, (0.0, _PAUSE / 2))[1] * 2, _LONGEST_BACKOFF)
        self._later[run_id] = (time.monotonic() + pause, pause)

    async def _find_deps(self, run: "StoredRun") -> Any:
        if self._deps is None:
            return None
        found = self._deps(run)
        return await found if inspect.isawaitable(found) else found


class _WaitingCalls:
    """The calls that runs wait for, and whether something was decided on them."""

    def __init__(self, agent: "BaseAgent") -> None:
        self._agent = agent
        # The ids that a run waits for after so many steps: these don't change.
        self._known: dict[tuple[str, int], list[str]] = {}

    async def find_decided(self, waited: "list[StoredRun]") -> "list[StoredRun]":
        """Those of these runs that can go on."""
        known = self._known
        self._known = {
            (run.id, run.steps): known.get((run.id, run.steps)) or await self._read(run)
            for run in waited
        }
        ids = [call_id for pending in self._known.values() for call_id in pending]
        undecided = await self._agent.toolbox.store.runs.find_undecided(ids)
        return [
            run
            for run in waited
            if await self._is_decided(self._known[run.id, run.steps], undecided)
        ]

    async def _read(self, run: "StoredRun") -> list[str]:
        body = await self._agent.toolbox.store.runs.last_step(run.id)
        pending: list[str] = [] if body is None else body.get("pending", [])
        return pending

    async def _is_decided(self, pending: list[str], undecided: dict[str, bool]) -> bool:
        for call_id in pending:
            if call_id not in undecided:
                return True
            if undecided[call_id] and await self._is_decided_below(call_id):
                return True
        return False

    async def _is_decided_below(self, call_id: str) -> bool:
        """Whether something can be done about the calls that a call waits for."""
        box = self._agent.toolbox
        with suppress(LookupError):
            below = await box.desk.find_open(call_id)
            if not below:
                return True
            undecided = await box.store.runs.find_undecided([each.id for each in below])
            return any(each.id not in undecided for each in below)
        return False
