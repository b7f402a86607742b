"""What a worker must have in common with the process that wants it, beside the call itself."""

import logging
import os
import sys
from contextvars import copy_context
from typing import Any

from .shipping import name_variable, pack

_MARK = "wieldy_"
# A level that nobody logs at: whether it was asked for shows whether levels have changed since.
_PROBE = -7_016


class ProcessState:
    """The folder, the environment, the path and the log levels, with the edition of each change."""

    def __init__(self) -> None:
        self.edition = 0
        self._facts: dict[str, Any] = {}

    def current(self) -> int:
        """The edition of what holds now."""
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
                "levels": _levels(),
            }
            self.edition += 1
        return self.edition

    @property
    def facts(self) -> dict[str, Any]:
        """What the current edition says."""
        return self._facts


def raw_environment() -> dict[bytes, bytes]:
    """The environment as the system has it, which is compared far quicker than `os.environ`."""
    raw: dict[bytes, bytes] = vars(os.environ)["_data"]
    return raw


def carried_variables() -> list[tuple[tuple[str, str, str], bytes]]:
    """The context variables that are set here and can be sent, under their names elsewhere."""
    carried = []
    for variable, value in copy_context().items():
        if variable.name.startswith(_MARK):
            continue
        try:
            carried.append((name_variable(variable), pack(value)))
        except Exception:
            # Connections, requests and spans belong to this process.
            continue
    return carried


def _levels_changed() -> bool:
    # Every change of a level empties these caches, and asking fills them.
    return _PROBE not in getattr(logging.root, "_cache", ())


def _levels() -> dict[str, Any]:
    logging.root.isEnabledFor(_PROBE)
    loggers = {
        name: logger.level
        for name, logger in list(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and logger.level
    }
    loggers[""] = logging.root.level
    return {"disabled": logging.root.manager.disable, "loggers": loggers}
