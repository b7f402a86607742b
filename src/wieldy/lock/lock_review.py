"""Check tools against a lock, and block, quarantine or report those that differ."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from wieldy.core.choices import ChangePolicy
from wieldy.core.errors import LockError
from wieldy.core.tool import Hold, Review, Tool
from wieldy.core.visible_text import visible_line

from .definition import Definition
from .lockfile import DefinitionChange, Lock

ON_CHANGE = get_args(ChangePolicy)
_OWN = "python"
# A definition comes from outside, and may be of any length.
_MAX_LINES = 1000
_log = logging.getLogger("wieldy")


@dataclass(frozen=True, slots=True)
class LockState:
    """How a tool stands to the lock.

    Attributes:
        state: "locked" is as it was locked, "changed" differs, "new" is from outside and not in
            the lock. "none" needs no lock: there is none, or the program itself has the tool.
        diff: The lines that differ, as `wieldy diff` prints them; empty if nothing does.
        reason: What differs and what to do about it, in a sentence; None if nothing does.
    """

    state: Literal["locked", "changed", "new", "none"]
    diff: str = ""
    reason: str | None = None


def find_lock_state(review: Review | None, tool: Tool) -> LockState:
    """How a tool stands to the lock of its toolbox.

    Args:
        review: What checks the tools of the box, which is `box.review`.
        tool: The tool.

    Returns:
        Its state, and the lines that differ.
    """
    return review.find_state(tool) if isinstance(review, LockReview) else LockState("none")


class LockReview:
    """Checks each tool that is added to a toolbox or changed by its server.

    A tool in the lock has to match it, whatever its source. A tool from outside has to be in
    the lock; a function of the program itself does not.
    """

    def __init__(self, path: str | os.PathLike[str], on_change: str = "block") -> None:
        if on_change not in ON_CHANGE:
            raise ValueError(f"on_change must be one of {', '.join(ON_CHANGE)}, not {on_change!r}")
        self._path = Path(path)
        self._on_change = on_change
        self._lock = _read(path)
        self._told: set[tuple[str, str]] = set()
        # The difference of each tool from the lock, also if it is only logged.
        self.differing: dict[str, str] = {}

    def __call__(self, tool: Tool) -> Hold | None:
        """The reason why the tool is held back, or None."""
        change = self._find_change(tool)
        if change is None:
            self.differing.pop(tool.name, None)
            return None
        self.differing[tool.name] = reason = self._explain(change)
        self._tell(tool.name, reason)
        if self._on_change == "warn":
            return None
        return Hold(reason, asks=self._on_change == "quarantine")

    def find_state(self, tool: Tool) -> LockState:
        """How the tool stands to the lock, with the lines that differ."""
        change = self._find_change(tool)
        if change is not None:
            state: Literal["new", "changed"] = "new" if change.before is None else "changed"
            return LockState(state, _write_diff(change), self._explain(change))
        return LockState("none" if self._locked(tool) is None else "locked")

    def _find_change(self, tool: Tool) -> DefinitionChange | None:
        """Find what differs from the lock; None if nothing does or the tool needs no lock."""
        locked = self._locked(tool)
        if locked is None and tool.source == _OWN:
            return None
        now = Definition.of(tool)
        same = locked is not None and locked.same(now)
        return None if same else DefinitionChange(tool.name, locked, now)

    def _locked(self, tool: Tool) -> Definition | None:
        return None if self._lock is None else self._lock.tools.get(tool.name)

    def _explain(self, change: DefinitionChange) -> str:
        if change.before is None:
            missing = ", which does not exist" if self._lock is None else ""
            return f"it is not in {self._path}{missing}. Somebody has to look at it and lock it."
        what = " and ".join(each.replace("_", " ") for each in change.fields)
        return (
            f"its {what} changed since it was locked in {self._path}. "
            "Somebody has to look at the change, and lock it if it is fine."
        )

    def _tell(self, name: str, reason: str) -> None:
        # The log is for people; a client reads the reason, and has no business with the commands.
        # A server may list its tools many times; each difference is logged once.
        if (name, reason) not in self._told:
            self._told.add((name, reason))
            known = visible_line(name, 80), reason, self._on_change
            _log.warning("Tool %s: %s (%s). See `wieldy diff` and `wieldy lock`.", *known)


def _write_diff(change: DefinitionChange) -> str:
    lines = change.diff()
    left = len(lines) - _MAX_LINES
    more = [f"… ({left} more lines; see `wieldy diff`)"] if left > 0 else []
    return "\n".join([*lines[:_MAX_LINES], *more])


def _read(path: str | os.PathLike[str]) -> Lock | None:
    try:
        return Lock.read(path)
    except LockError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            # There is no lock yet, and `wieldy lock` has to be able to load the program.
            return None
        raise
