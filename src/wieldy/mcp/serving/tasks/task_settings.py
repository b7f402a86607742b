"""When a call becomes a task, and the ids of such calls."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_ID = re.compile(r"task_[0-9a-f]{25}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tasks:
    """When calls of clients that know MCP's tasks become tasks.

    A call that waits for a person becomes one at once.

    Attributes:
        after: How many seconds a call may run before its client gets a task instead of waiting.
        required: Patterns for the names of tools that only clients with tasks may call, because
            the calls take too long to be waited for.
        ask_first: Patterns for the names of tools whose questions a client gets as the result of
            its call, before there is a task.

    Raises:
        ValueError: `after` is negative, or patterns are one string.

    Example:
        `server(box, tasks=Tasks(after=1, required=["train_*"]))`
    """

    after: float = 5.0
    required: Sequence[str] = ()
    ask_first: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.after >= 0:
            raise ValueError(f"after must be 0 seconds or more, not {self.after!r}")
        for name in ("required", "ask_first"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} takes patterns in a list: [{getattr(self, name)!r}]")

    def requires(self, tool: str) -> bool:
        """Whether only clients with tasks may call a tool."""
        return any(fnmatchcase(tool, pattern) for pattern in self.required)

    def asks_first(self, tool: str) -> bool:
        """Whether a tool's questions come before there is a task."""
        return any(fnmatchcase(tool, pattern) for pattern in self.ask_first)


def make_task_id() -> str:
    """An id for a call that may become a task: nobody can guess it, unlike that of other calls.

    It is as long as every other id, so that none is the beginning of another.
    """
    return f"task_{os.urandom(13).hex()[:25]}"


def is_task_id(text: str) -> bool:
    """Whether a call of this id can be a task."""
    return _ID.fullmatch(text) is not None
