"""Errors are copied as they are, for example from one process to another."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import wieldy
from wieldy import (
    CallDenied,
    CallTimeout,
    InvalidArguments,
    MemoryExceeded,
    ServerUnavailable,
    ToolFailed,
    VersionConflict,
    WieldyError,
)

COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda error: pickle.loads(pickle.dumps(error)),
]


def public_errors() -> Iterator[type[WieldyError]]:
    for name in wieldy.__all__:
        found = getattr(wieldy, name)
        if isinstance(found, type) and issubclass(found, WieldyError):
            yield found


@pytest.mark.parametrize("kind", list(public_errors()))
def test_every_error_survives_a_pickle_whatever_its_constructor_takes(
    kind: type[WieldyError],
) -> None:
    error = kind.__new__(kind)
    error.args = ("It failed.",)
    error.add_note("In the morning.")
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.args, vars(twin)) == (kind, error.args, vars(error))


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize(
    "error",
    [
        CallDenied("wipe", "a rule says so"),
        CallTimeout("slow", 3.0),
        InvalidArguments("add", []),
        MemoryExceeded("big", "1 MB", 2_000_000),
        ServerUnavailable("files", "it has ended"),
        ToolFailed(ValueError("no such city")),
        VersionConflict("report", 1, 2),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copy_says_the_same_and_has_the_same_facts(
    error: WieldyError, copied: Callable[[Any], Any]
) -> None:
    twin = copied(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert repr(vars(twin)) == repr(vars(error))
