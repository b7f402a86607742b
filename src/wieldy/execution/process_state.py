"""The state of this process that its workers share: folder, environment, path, log levels."""

import logging
import os
import sys
from contextvars import copy_context
from typing import Any

from .shipping import name_variable, pack

_MARK = "wieldy_"
# A level at which nothing is logged. If it is in the cache of a logger, no level has changed
# since it was put there.
_PROBE = -7_016


class ProcessState:
    """The folder, the environment, the path and the log levels, with the edition of each change."""

    def __init__(self) -> None:
        self.edition = 0
        self._facts: dict[str, Any] = {}

    def current(self) -> int:
        """The edition of the current state, which counts up with every change."""
        known = self._facts
        try:
            folder = os.getcwd()
        except OSError:
            folder = "/"
        if (
            not known
            or known["folder"] != folder
            or known["path"] != sys.path
            or known["environment"] != raw_environment()
            or _levels_changed()
        ):
            self._facts = {
                "folder": folder,
                "path": list(sys.path),
                "environment": dict(raw_environment()),
                "levels": _log_levels(),
            }
            self.edition += 1
        return self.edition

    @property
    def facts(self) -> dict[str, Any]:
        """The state of the current edition."""
        return self._facts


def raw_environment() -> dict[bytes, bytes]:
    """The environment as raw bytes, which are compared much faster than `os.environ`."""
    raw: dict[bytes, bytes] = vars(os.environ)["_data"]
    return raw


def carried_variables() -> list[tuple[tuple[str, str, str], bytes]]:
    """The context variables that are set and can be sent, by the names that workers know."""
    carried = []
    for variable, value in copy_context().items():
        if variable.name.startswith(_MARK):
            continue
        try:
            carried.append((name_variable(variable), pack(value)))
        except Exception:
            # Values such as connections, requests and spans can't leave this process.
            continue
    return carried


def _levels_changed() -> bool:
    # Every change of a level empties the loggers' caches, and `isEnabledFor` fills them.
    return _PROBE not in getattr(logging.root, "_cache", ())


def _log_levels() -> dict[str, Any]:
    logging.root.isEnabledFor(_PROBE)
    loggers = {
        name: logger.level
        for name, logger in list(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and logger.level
    }
    loggers[""] = logging.root.level
    return {"disabled": logging.root.manager.disable, "loggers": loggers}
