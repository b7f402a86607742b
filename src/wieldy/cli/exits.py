"""How the command ends: its exit codes, and what is said of what stopped it.

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
    """Do the work of a command over one event loop; gives the exit code.

    Between two runs of the loop it stands still, so that Ctrl-C reaches a question.
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
