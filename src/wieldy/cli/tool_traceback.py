"""The traceback of a tool that raised, for the person who wrote it."""

import traceback
from itertools import dropwhile
from pathlib import Path

from wieldy.core.call import Outcome
from wieldy.core.errors import ToolFailed

from . import screen

_PACKAGE = str(Path(__file__).parents[1])


def say_traceback(outcome: Outcome) -> None:
    """Write on stderr where a tool raised, if it did."""
    if not isinstance(outcome.error, ToolFailed):
        return
    if outcome.error.redacted:
        screen.say("The traceback is not shown, because it would tell a secret.")
    elif outcome.error.original.__traceback__ is None:
        screen.say("There is no traceback: the tool raised in another process.")
    else:
        screen.say(_traceback_text(outcome.error.original).rstrip("\n"))


def _traceback_text(original: BaseException) -> str:
    """The traceback, from the first frame that is not ours."""
    told = traceback.TracebackException.from_exception(original)
    theirs = dropwhile(lambda frame: frame.filename.startswith(_PACKAGE), told.stack)
    told.stack = traceback.StackSummary.from_list([*theirs] or told.stack)
    return "".join(told.format())
