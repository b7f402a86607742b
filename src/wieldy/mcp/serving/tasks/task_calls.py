"""Find the calls that are tasks, and let go on what stands still for no reason."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from wieldy.core.errors import CallNotFound, WieldyError
from wieldy.core.permission.parked import Parked
from wieldy.core.streaming import TellingSink
from wieldy.core.visible_text import visible_line
from wieldy.mcp.serving.approved_runner import Pickup
from wieldy.mcp.serving.callers import caller_name

from .background_calls import BackgroundCalls, TaskTeller
from .task_settings import is_task_id

if TYPE_CHECKING:
    # The modules of the store are loaded only if there is one.
    from wieldy.store.ledger_entry import Entry

_MAX_ERROR = 500
# However many tasks are polled, dead processes are looked for once in this time.
_SWEEP_PAUSE = 1.0


class TaskCalls:
    """The recorded calls of a box that are tasks. Each belongs to the caller who made it."""

    def __init__(self, box: Any, background: BackgroundCalls, pickup: Pickup) -> None:
        self._box = box
        self._background = background
        self._pickup = pickup
        self._swept_at = -_SWEEP_PAUSE

    async def find(self, task_id: str) -> "Entry":
        """The call of a task of the current caller.

        Raises:
            MCPError: There is none. Nobody learns that another caller has it.
        """
        with report_errors():
            found: Entry | None = None
            if is_task_id(task_id):
                found = await self._box.ledger.get(task_id)
            if found is None or found.call.scope.caller != caller_name():
                raise MCPError(INVALID_PARAMS, "There is no such task, or it is no longer kept.")
            return found

    async def is_recorded(self, task_id: str) -> bool:
        """Whether a call has its row, so that others can find it."""
        with suppress(WieldyError):
            return await self._box.ledger.get(task_id) is not None
        return False

    async def find_current(self, task_id: str) -> "Entry":
        """The same, after a look whether the process that runs the call is still there."""
        entry = await self.find(task_id)
        if entry.state != "started" or self._background.is_busy(task_id):
            return entry
        store, now = self._box.store, time.monotonic()
        with report_errors():
            opened = await store.opened()
            if entry.owner == opened.owner.id or now < self._swept_at + _SWEEP_PAUSE:
                return entry
            self._swept_at = now
            return await self.find(task_id) if await store.sweep() else entry

    async def is_own(self, task_id: str) -> bool:
        """Whether the current caller has such a task."""
        try:
            await self.find(task_id)
        except MCPError as error:
            if error.error.code != INVALID_PARAMS:
                raise
            return False
        return True

    async def wait_for_change(self, seen: "Entry") -> None:
        """Wait until the row of a call says something else."""
        known = (seen.state, seen.started_at)
        await self._box.store.until(seen.call.id, lambda e: (e.state, e.started_at) != known)

    async def find_undecided(self, entry: "Entry") -> list[Parked]:
        """The calls on which somebody has to decide before a call that waits can go on.

        If there are none, the call goes on.
        """
        call_id = entry.call.id
        with report_errors():
            below: list[Parked] = await self._box.desk.find_open(call_id)
            # A call that was approved elsewhere is still open, and not asked about again.
            rows = [await self._box.ledger.get(each.id) for each in below]
        if not below and "waits_for" in entry.metadata and not self._background.is_busy(call_id):
            self._background.start(call_id, self._go_on(call_id))
        undecided = {row.call.id for row in rows if row is not None and row.state == "pending"}
        return [each for each in below if each.id in undecided]

    async def _go_on(self, call_id: str) -> None:
        teller = TaskTeller(self._background, call_id, None)
        await self._box.go_on(call_id, sink=TellingSink(teller.tell))

    async def leave(self, call_id: str) -> bool:
        """Leave a call that runs here to the process that serves the box next.

        The function of its tool has to know how; the run of an agent does.
        """
        with suppress(WieldyError):
            entry = await self._box.ledger.get(call_id)
            tool = None if entry is None else self._box.get(entry.call.tool)
            if tool is not None and tool.resumable and hasattr(tool.function, "leave"):
                return bool(tool.function.leave(call_id))
        return False

    def runs_again(self, entry: "Entry") -> bool:
        """Whether a call that a crash cut off is run again, where that does no harm.

        That is tried when the server starts, and here once more: only a process that has not
        been heard of for some time counts as dead.
        """
        tool = self._box.desk.find_unchanged(entry.call.tool, entry.fingerprint)
        if tool is None or entry.partial or not (tool.resumable or tool.retryable):
            return False
        return self._pickup.recover_again(entry.call.id)

    async def cancel(self, entry: "Entry") -> None:
        """Stop a call that runs here or waits. One that has ended stays as it is."""
        call_id = entry.call.id
        with report_errors():
            if entry.state == "started":
                await self._box.interrupt(call_id)
            elif not entry.ended:
                await self._box.desk.cancel(call_id, caller_name())


@contextmanager
def report_errors() -> Iterator[None]:
    """Tell the client what is wrong if the store can't be used now."""
    try:
        yield
    except CallNotFound as error:
        raise MCPError(INVALID_PARAMS, "There is no such task, or it is no longer kept.") from error
    except WieldyError as error:
        said = visible_line(str(error), _MAX_ERROR)
        raise MCPError(INTERNAL_ERROR, f"The task can't be looked up now: {said}") from error
