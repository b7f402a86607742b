"""Ask the person on the terminal: on stderr, so that stdout holds the result alone."""

import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any

from wieldy.core.visible_text import visible_line, visible_name

from . import screen
from .argument_options import ArgumentError, read_arguments


class ApprovalAnswer(Enum):
    """What a person says about a call."""

    YES = "yes"
    NO = "no"
    EDIT = "edit"


def ask_approval(tool: str, arguments: Any, reason: object) -> ApprovalAnswer:
    """Show a call, all of it, and ask whether it may run."""
    why = visible_line(str(reason or "it needs approval"))
    screen.say(f"{visible_name(tool)} waits for you: {why}", "yellow")
    named = arguments.items() if isinstance(arguments, Mapping) else ()
    for name, value in named:
        screen.say(f"  {visible_name(name)} = {screen.exact(value)}")
    while True:
        answer = ask_line("Run it? y/N/edit: ").strip().lower()
        if answer in ("", "n", "no"):
            return ApprovalAnswer.NO
        for each in (ApprovalAnswer.YES, ApprovalAnswer.EDIT):
            if each.value.startswith(answer):
                return each


def ask_edits(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Other values for some arguments, asked for one by one; an empty line keeps what is there."""
    changed: dict[str, Any] = {}
    for name in dict.fromkeys((*arguments, *schema.get("properties", ()))):
        changed.update(_other(name, arguments, schema))
    return changed


def ask_line(question: str) -> str:
    """What the person answers, without the end of the line; `EOFError` if nobody does."""
    sys.stderr.write(question)
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise EOFError
    return answer.removesuffix("\n")


def _other(name: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    there = screen.exact(arguments[name]) if name in arguments else ""
    while True:
        answer = ask_line(f"  {visible_name(name)} [{there}]: ")
        if not answer:
            return {}
        try:
            return read_arguments(schema, [f"{name}={answer}"])
        except ArgumentError as error:
            screen.fail(error)
