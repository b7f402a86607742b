"""The store of a toolbox: one object, with a part for each kind of thing that is kept."""

from collections.abc import Iterable
from typing import Any

from wieldy.core.active_call import Extras
from wieldy.core.call import Outcome
from wieldy.core.engine import Engine
from wieldy.core.permission.decisions import Desk
from wieldy.core.registry import Registry

from . import toolbox_states as states
from .access.sign_ins import SignIns
from .access_tokens import StoredTokens
from .artifacts.artifacts import Artifacts
from .crash_recovery import CrashRecovery
from .ledger import Ledger
from .loaded_tools import LoadedTools
from .outbox.outbox import Outbox
from .pruning import Pruning, delete_session
from .recorder import LedgerRecorder
from .retention import Retention
from .rollups import Rollups
from .runs import Runs
from .sessions import Sessions
from .store_access import StoreAccess
from .stored_approvals import StoredApprovals
from .stored_rules import Standing, over_check
from .stored_sessions import StoredSessions


class Store(StoreAccess):
    """What a toolbox keeps in a database: calls, approvals, artifacts, sessions, rules and runs.

    With `durability="full"` nothing that was acknowledged is lost. With `"normal"` the last
    moments may be lost when the machine, and not only the process, goes down.
    """

    def __init__(self, url: str, registry: Registry, durability: str, retention: Retention) -> None:
        self.retention = retention
        self._pruning = Pruning(retention, over_check(registry))
        super().__init__(url, durability, self._pruning)
        self.ledger = Ledger(self)
        self.recorder = LedgerRecorder(self)
        self.approvals = StoredApprovals(self, self.recorder)
        self.artifacts = Artifacts(self)
        self.sessions = Sessions(self)
        self.runs = Runs(self)
        self.loaded_tools = LoadedTools(self)
        self.tokens = StoredTokens(self)
        self.sign_ins = SignIns(self)
        self.rollups = Rollups(self)
        self.outbox = Outbox(self)
        self.untrusted = StoredSessions(self)
        self.standing = Standing(self, registry)

    async def recover(
        self,
        engine: Engine,
        desk: Desk,
        calls: Iterable[str] | None,
        by: str | None,
        unknown: bool,
    ) -> list[Outcome]:
        """Run the calls that a crash left open."""
        if isinstance(calls, str):
            # A string is a sequence too: each letter would be looked up as an id.
            raise TypeError(f"recover takes ids in a list: [{calls!r}]")
        named = None if calls is None else list(calls)
        recovery = CrashRecovery(self, self.approvals, self.recorder, engine, desk, by)
        return await (recovery.run_left(unknown) if named is None else recovery.run_named(named))

    async def rerun(self, engine: Engine, desk: Desk, call_id: str, extras: Extras) -> Outcome:
        """Run an unknown call again if that does no harm, or give what is known of it."""
        recovery = CrashRecovery(self, self.approvals, self.recorder, engine, desk, None)
        return await recovery.rerun(call_id, extras)

    async def outcome(self, call_id: str) -> Outcome:
        """How a recorded call stands; if it is running, this waits for its end."""
        return await self.approvals.outcome(call_id)

    async def save_state(self, name: str, state: dict[str, Any]) -> None:
        """Keep a toolbox's state under a name."""
        await self.write(states.save(name, state))

    async def load_state(self, name: str) -> Any:
        """The state of this name; `NotKept` if there is none."""
        return await self.read(states.load(name))

    async def prune(self) -> dict[str, int]:
        """Remove now what the retention does not keep.

        Returns:
            How many things of each kind were removed.

        Raises:
            StoreError: The store can't be written.

        Example:
            `await box.store.prune()`
        """
        counts: dict[str, int] = {}
        for what, operation in self._pruning.steps():
            counts.setdefault(what, 0)
            while removed := await self.write(operation):
                counts[what] += removed
        self.standing.forget()
        return counts

    async def delete_session(self, session: str) -> dict[str, int]:
        """Remove everything that belongs to a session, in one step.

        Args:
            session: The session's id.

        Returns:
            How many things of each kind were removed. Calls that have not ended stay: `"open"` is
            how many.

        Raises:
            StoreError: The store can't be written.

        Example:
            `await box.store.delete_session("ann")`
        """
        try:
            return await self.write(lambda connection: delete_session(connection, session))
        finally:
            self.standing.forget()
