"""Processes that tests start by hand."""

import subprocess
from types import TracebackType
from typing import TYPE_CHECKING, Any, AnyStr


class ChildProcess(subprocess.Popen[AnyStr]):
    """A process that ends with its test, and with its block if the test fails there.

    A plain `Popen` waits at the end of its block, for ever if nobody tells the process to end.
    """

    if not TYPE_CHECKING:  # The types of `Popen` say more.

        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            _started.append(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)


_started: list[ChildProcess[Any]] = []


def count_children() -> int:
    """How many processes have been started that may be running."""
    return len(_started)


def end_children(lasting: int) -> None:
    """End those that run, but for the first ones, which longer-lived fixtures have started."""
    while len(_started) > lasting:
        with _started.pop() as process:
            if process.poll() is None:
                process.kill()
