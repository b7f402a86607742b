"""The exit codes of the command, and the message for an error that stopped it.

docs/command-line.md lists the codes.
"""

import asyncio
from collections.abc import Callable

from wieldy.core.errors import WieldyError

from . import screen

OK = 0
FAILED = 1
USAGE = 2
WAITING = 3
PARTLY = 4
STOPPED = 130


def guarded(work: Callable[[asyncio.Runner], int]) -> int:
    """Do the work of a command with one event loop; returns the exit code.

    The loop does not run while the command asks a question, so Ctrl-C can end the question.
    """
    screen.ready()
    try:
        with asyncio.Runner() as runner:
            return work(runner)
    except (WieldyError, ValueError) as error:
        screen.fail("\n".join([str(error), *getattr(error, "__notes__", ())]))
        return USAGE
    except (KeyboardInterrupt, EOFError):
        screen.say("\nStopped.")
        return STOPPED
