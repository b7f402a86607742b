"""The task that is running now, found as cheaply as this Python allows."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Any


def current_task() -> "asyncio.Task[Any]":
    """The running task; engine code always runs in one."""
    task = asyncio.current_task()
    assert task is not None
    return task


class _Current:
    """The running task as a list of one."""

    def __iter__(self) -> "Iterator[asyncio.Task[Any]]":
        yield current_task()


# Before 3.12 asking for the running loop makes a system call, which costs as much as a whole
# tool call. That asyncio is final, so its own table of running tasks can be read.
running_tasks: Any = _Current()
if sys.version_info < (3, 12):
    running_tasks = vars(asyncio.tasks)["_current_tasks"].values()
