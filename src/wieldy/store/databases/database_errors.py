"""Tell what an error of a database means: whether it passes, and what helps.

What a database refuses stays refused, however often it is asked. All else may pass, so nothing
that was to be written is given up for it.
"""

import asyncio
import sqlite3
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as NoConnection

from wieldy.core.errors import StoreError, StoreUnavailable, WieldyError, describe_exception


class ValueRefused(StoreError):
    """A value can't be kept by this database: write the row without it."""


class _Advice(NamedTuple):
    reason: str
    next_step: str


# Classes and codes of the SQL standard, which PostgreSQL sends.
_VALUES = ("22", "54")
_REFUSALS = (*_VALUES, "23", "42")
_NO_RIGHT = "42501"
# Nothing changes within seconds, but somebody may set it right, so what is owed is kept.
_TOLD_AT_ONCE = {
    "28": _Advice(
        "the database server does not let this user in", "Check the user and the password."
    ),
    "3D": _Advice("there is no such database", "Create it, or name another one."),
    _NO_RIGHT: _Advice("its user may not do this", "Grant the user the rights on the schema."),
}
# What concerns the server or the connection, and not only the statement that was answered so.
_ALL_STATEMENTS = ("08", "25006", "53", "57", "58")
_HELD = _Advice("another process holds the database", "Try again when it has finished.")
_FULL = _Advice("there is no space left for it", "Free some space.")
_NO_MEMORY = _Advice("there is no memory left for it", "Free some memory.")
_AWAY = _Advice(
    "the database server can't be reached", "Check that it runs and that the address is right."
)
_PASSING = {
    "08": _AWAY,
    "25006": _Advice(
        "the database can only be read",
        "Name the server that takes writes, and a user who may write.",
    ),
    "40": _HELD,
    "53100": _FULL,
    "53200": _NO_MEMORY,
    "53300": _Advice(
        "the database server takes no more connections",
        "Close some, or raise its max_connections.",
    ),
    "55P03": _HELD,
    "57014": _Advice("the database server canceled the statement", "Try again."),
    "57P": _Advice("the database server is starting or stopping", "Try again when it runs."),
}
_OTHERWISE = _Advice("the database can't do it now", "Try again.")
_REFUSED = "The database refused the operation."

# SQLite's, without the details in the higher bits.
_TOO_LARGE = (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH)
_SQLITE_REFUSALS = (*_TOO_LARGE, sqlite3.SQLITE_CONSTRAINT)
_SQLITE_PASSING = {
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_LOCKED: _HELD,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_NOMEM: _NO_MEMORY,
    sqlite3.SQLITE_IOERR: _Advice(
        "its disk can't be used", "Check that the disk works and has space left."
    ),
    sqlite3.SQLITE_CANTOPEN: _Advice(
        "its file can't be opened", "Check the folder and its permissions."
    ),
    sqlite3.SQLITE_READONLY: _Advice(
        "its file can only be read", "Check who may write to it and to its folder."
    ),
    sqlite3.SQLITE_CORRUPT: (
        damaged := _Advice(
            "its file is damaged or is not a database",
            "Restore it from a copy, or name another file.",
        )
    ),
    sqlite3.SQLITE_NOTADB: damaged,
}


def translate_error(error: BaseException) -> Exception:
    """A database's error as one of ours, with what to do about it."""
    if isinstance(error, WieldyError):
        return error
    ours = _describe(error)
    ours.__cause__ = error
    return ours


def sqlite_error(code: int, said: str) -> sqlite3.Error:
    """An error as SQLite would raise it, for what we find out before it does."""
    error = sqlite3.OperationalError(said)
    error.sqlite_errorcode = code
    return error


def is_passing(error: BaseException) -> bool:
    """Whether the same statement may succeed within seconds."""
    state = _state_of(error)
    if state is None:
        return _comes_from_outside(error) and not isinstance(error, NoConnection)
    return not state.startswith((*_REFUSALS, *_TOLD_AT_ONCE))


def concerns_all(error: BaseException) -> bool:
    """Whether another statement would now fail as this one did."""
    state = _state_of(error)
    if state is None:
        return _comes_from_outside(error)
    return state.startswith((*_ALL_STATEMENTS, "28", "3D"))


def is_locked(error: BaseException) -> bool:
    """Whether a lock was not given in time."""
    return _state_of(error) == "55P03"


def _describe(error: BaseException) -> StoreError:
    said = _text_of(error)
    if isinstance(error, MemoryError):
        return _unavailable(_NO_MEMORY, said)
    file = _original(error)
    if isinstance(file, sqlite3.Error):
        return _describe_sqlite(file, said)
    state = _state_of(error)
    if state is not None:
        return _describe_state(state, said)
    if isinstance(file, ValueError | OverflowError):
        # The driver could not turn a value into what the database takes.
        return ValueRefused(said, "It can't be kept in this database.")
    if _comes_from_outside(error):
        return _unavailable(_AWAY, said)
    return StoreError(describe_exception(error), "It was asked for what it can't do.")


def _describe_sqlite(error: sqlite3.Error, said: str) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _TOO_LARGE:
        return ValueRefused(said, _REFUSED)
    if code in _SQLITE_REFUSALS:
        return StoreError(said, _REFUSED)
    return _unavailable(_SQLITE_PASSING.get(code, _OTHERWISE), said)


def _describe_state(state: str, said: str) -> StoreError:
    for known, advice in (*_TOLD_AT_ONCE.items(), *_PASSING.items()):
        if state.startswith(known):
            return _unavailable(advice, said)
    if state.startswith(_VALUES):
        return ValueRefused(said, _REFUSED)
    if state.startswith(_REFUSALS):
        return StoreError(said, _REFUSED)
    return _unavailable(_OTHERWISE, said)


def _unavailable(advice: _Advice, said: str) -> StoreUnavailable:
    return StoreUnavailable(f"{advice.reason} ({said})", advice.next_step)


def _original(error: BaseException) -> BaseException:
    """The driver's own error, which SQLAlchemy and its adapter wrap."""
    while isinstance(error, StatementError) and error.orig is not None:
        error = error.orig
    cause = error.__cause__
    # The adapter of asyncpg has no code for what asyncpg found wrong with a value.
    return cause if isinstance(cause, ValueError) else error


def _state_of(error: BaseException) -> str | None:
    """The SQLSTATE with which a server answered, if it did."""
    original = error.orig if isinstance(error, StatementError) else error
    state = getattr(original, "sqlstate", None)
    return state if isinstance(state, str) else None


def _comes_from_outside(error: BaseException) -> bool:
    """Whether a database, a driver or the system raised it, and not our own code."""
    if isinstance(error, StatementError) and not isinstance(error, DBAPIError):
        # Our own code failed while it made a value ready for the driver.
        return False
    outside = (SQLAlchemyError, sqlite3.Error, OSError, asyncio.TimeoutError)
    return isinstance(error, outside) and not isinstance(_original(error), ValueError)


def _text_of(error: BaseException) -> str:
    said = error.orig if isinstance(error, StatementError) else error
    return str(said) or type(error).__name__
