"""Permission modes: of a whole box, an agent or a session, changed while it runs."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, get_args

from wieldy.core.call import Scope
from wieldy.core.choices import PermissionMode
from wieldy.core.names import find_near_names

from .rules import check_holders

# The laxest first.
MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)
DEFAULT: PermissionMode = "ask"
# Whose calls a mode is for: an agent's, a session's, those of both, or all.
Holder = tuple[str | None, str | None]
_EVERYBODY: Holder = (None, None)


class ModeChange(NamedTuple):
    """A mode that somebody set. None means that there is none, so that others count."""

    mode: PermissionMode | None
    before: PermissionMode | None
    agent: str | None
    session: str | None
    by: str | None
    at: float
    # Whether it lets no call through that was held back before.
    tightens: bool


class Modes:
    """The modes that are set. Of those that apply to a call, the strictest wins.

    Where none applies, the mode is `ask`.
    """

    def __init__(self, mode: PermissionMode | None, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        # It is replaced and never changed: whoever judges a call has one state of it.
        self.table: Mapping[Holder, PermissionMode] = {}
        if mode is not None:
            self.table = {_EVERYBODY: check_mode(mode)}
        # The mode of all calls, where they have the same.
        self.only: PermissionMode | None = mode or DEFAULT

    def plan_change(
        self, mode: PermissionMode | None, agent: str | None, session: str | None, by: str | None
    ) -> ModeChange:
        """What setting a mode would change; `ValueError` if it can't be set."""
        check_holders(agent, session, None)
        if mode is not None:
            check_mode(mode)
        table, holder = self.table, (agent, session)
        before = table.get(holder)
        tightens = _strictness(mode) >= _strictness(before)
        if mode is None and before is not None:
            # Where a mode is taken back, the calls fall to any laxer one that is set beside it.
            others = [other for whose, other in table.items() if whose != holder]
            laxest = min(others, key=_strictness, default=DEFAULT)
            tightens = tightens and _strictness(laxest) >= _strictness(before)
        return ModeChange(mode, before, agent, session, by, time.time(), tightens)

    def apply(self, change: ModeChange) -> None:
        """Let a change count from now on, also for calls that wait."""
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
    """The modes of a table that apply to calls of this scope, the strictest first."""
    agent, session = scope.agent, scope.session
    holders = dict.fromkeys(((agent, session), (agent, None), (None, session), _EVERYBODY))
    found = {table[holder] for holder in holders if holder in table}
    return sorted(found or {DEFAULT}, key=_strictness, reverse=True)


def check_mode(mode: PermissionMode) -> PermissionMode:
    """The mode, or `ValueError` with those that there are."""
    if mode not in MODES:
        hint = find_near_names(mode, MODES, limit=1)
        meant = f" Did you mean {hint[0]!r}?" if hint else ""
        raise ValueError(f"permission_mode must be one of {', '.join(MODES)}, not {mode!r}.{meant}")
    return mode


def _strictness(mode: PermissionMode | None) -> int:
    return MODES.index(DEFAULT if mode is None else mode)
