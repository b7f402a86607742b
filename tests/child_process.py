"""Processes that tests start by hand."""

import subprocess
from types import TracebackType
from typing import AnyStr


class ChildProcess(subprocess.Popen[AnyStr]):
    """A process that ends with its block if the test fails there.

    A plain `Popen` waits at the end of its block, for ever if nobody tells the process to end.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, trace)
