"""Permission modes: of a whole box, an agent or a session, changed while it runs."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, get_args

from wieldy.core.call import Around, Scope
from wieldy.core.choices import PermissionMode
from wieldy.core.names import find_near_names

from .rules import check_holders

# From the laxest to the strictest.
MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)
DEFAULT: PermissionMode = "ask"
# The agent and the session whose calls a mode applies to. None stands for every one of them.
Holder = tuple[str | None, str | None]
_EVERYBODY: Holder = (None, None)


class ModeChange(NamedTuple):
    """A mode that somebody set. A mode of None was removed, so that the other modes apply."""

    mode: PermissionMode | None
    before: PermissionMode | None
    agent: str | None
    session: str | None
    by: str | None
    at: float
    # Whether every call that was held back before the change is still held back after it.
    tightens: bool


class Modes:
    """The modes that are set. Of those that apply to a call, the strictest wins.

    Where none applies, the mode is `ask`.
    """

    def __init__(self, mode: PermissionMode | None, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        # The table is replaced and never changed, so that a call is judged by one state of it.
        self.table: Mapping[Holder, PermissionMode] = {}
        if mode is not None:
            self.table = {_EVERYBODY: check_mode(mode)}
        # The mode of all calls, or None if the mode depends on the agent or the session.
        self.only: PermissionMode | None = mode or DEFAULT

    def plan_change(
        self, mode: PermissionMode | None, agent: str | None, session: str | None, by: str | None
    ) -> ModeChange:
        """The change that setting a mode would make; `ValueError` if the mode can't be set."""
        check_holders(agent, session, None)
        if mode is not None:
            check_mode(mode)
        table, holder = self.table, (agent, session)
        before = table.get(holder)
        tightens = _strictness(mode) >= _strictness(before)
        if mode is None and before is not None:
            # Calls whose mode is removed may fall to a laxer mode that is set for other holders.
            others = [other for whose, other in table.items() if whose != holder]
            laxest = min(others, key=_strictness, default=DEFAULT)
            tightens = tightens and _strictness(laxest) >= _strictness(before)
        return ModeChange(mode, before, agent, session, by, time.time(), tightens)

    def apply(self, change: ModeChange) -> None:
        """Apply a change from now on, including to the calls that wait."""
        holder = (change.agent, change.session)
        with self._lock:
            table = {**self.table}
            if change.mode is None:
                table.pop(holder, None)
            else:
                table[holder] = change.mode
            scoped = table.keys() - {_EVERYBODY}
            self.only = None if scoped else table.get(_EVERYBODY, DEFAULT)
            self.table = table
        self._changed()

    def applying(self, scope: Scope) -> list[PermissionMode]:
        """The modes that apply to calls of this scope, the strictest first."""
        return applying_modes(self.table, scope)


def applying_modes(table: Mapping[Holder, PermissionMode], scope: Scope) -> list[PermissionMode]:
    """The modes of a table that apply to calls of this scope, the strictest first.

    What is set for a call around them applies too; where nothing is set for themselves, that
    leaves the usual mode in force.
    """
    found = _modes_for(table, scope) or {DEFAULT}
    for each in scope.around:
        found |= _modes_for(table, each)
    return sorted(found, key=_strictness, reverse=True)


def _modes_for(
    table: Mapping[Holder, PermissionMode], whose: Scope | Around
) -> set[PermissionMode]:
    agent, session = whose.agent, whose.session
    holders = ((agent, session), (agent, None), (None, session), _EVERYBODY)
    return {table[holder] for holder in holders if holder in table}


def check_mode(mode: PermissionMode) -> PermissionMode:
    """The mode itself; `ValueError` lists the modes if there is none of this name."""
    if mode not in MODES:
        hint = find_near_names(mode, MODES, limit=1)
        meant = f" Did you mean {hint[0]!r}?" if hint else ""
        raise ValueError(f"permission_mode must be one of {', '.join(MODES)}, not {mode!r}.{meant}")
    return mode


def _strictness(mode: PermissionMode | None) -> int:
    return MODES.index(DEFAULT if mode is None else mode)
