"""Check tools against a lock, and block, quarantine or report those that differ."""

import logging
import os
from pathlib import Path
from typing import get_args

from wieldy.core.choices import ChangePolicy
from wieldy.core.errors import LockError
from wieldy.core.tool import Hold, Tool
from wieldy.core.visible_text import visible_line

from .definition import Definition
from .lockfile import DefinitionChange, Lock

ON_CHANGE = get_args(ChangePolicy)
_OWN = "python"
_log = logging.getLogger("wieldy")


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

    def __call__(self, tool: Tool) -> Hold | None:
        """The reason why the tool is held back, or None."""
        reason = self._reason(tool)
        if reason is None:
            return None
        self._tell(tool.name, reason)
        if self._on_change == "warn":
            return None
        return Hold(reason, asks=self._on_change == "quarantine")

    def _reason(self, tool: Tool) -> str | None:
        locked = None if self._lock is None else self._lock.tools.get(tool.name)
        if locked is None:
            if tool.source == _OWN:
                return None
            missing = ", which does not exist" if self._lock is None else ""
            return f"it is not in {self._path}{missing}. Look at it, then run `wieldy lock`."
        now = Definition.of(tool)
        if locked.same(now):
            return None
        fields = DefinitionChange(tool.name, locked, now).fields
        what = " and ".join(each.replace("_", " ") for each in fields)
        return (
            f"its {what} changed since it was locked in {self._path}. "
            "See `wieldy diff`; if the change is fine, run `wieldy lock`."
        )

    def _tell(self, name: str, reason: str) -> None:
        # A server may list its tools many times; each difference is logged once.
        if (name, reason) not in self._told:
            self._told.add((name, reason))
            _log.warning("Tool %s: %s (%s)", visible_line(name, 80), reason, self._on_change)


def _read(path: str | os.PathLike[str]) -> Lock | None:
    try:
        return Lock.read(path)
    except LockError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            # There is no lock yet, and `wieldy lock` has to be able to load the program.
            return None
        raise
