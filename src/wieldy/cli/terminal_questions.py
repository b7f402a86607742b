"""Ask the person at the terminal. Questions go to stderr; stdout holds only the result."""

import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any

from wieldy.core.permission.parked import Parked
from wieldy.core.visible_text import visible_line, visible_name

from . import screen
from .argument_options import ArgumentError, read_arguments


class ApprovalAnswer(Enum):
    """A person's answer to whether a call may run."""

    YES = "yes"
    NO = "no"
    EDIT = "edit"


def ask_approval(tool: str, arguments: Any, reason: object) -> ApprovalAnswer:
    """Show a call with all its arguments, and ask whether it may run."""
    _show_call(tool, arguments, reason)
    while True:
        answer = ask_line("Run it? y/N/edit: ").strip().lower()
        if answer in ("", "n", "no"):
            return ApprovalAnswer.NO
        for each in (ApprovalAnswer.YES, ApprovalAnswer.EDIT):
            if each.value.startswith(answer):
                return each


def confirm_verdict(parked: Parked, arguments: Any, question: str) -> bool:
    """Show all of a call that waits, and ask whether a verdict on it is meant."""
    _show_call(parked.tool, arguments, parked.reason)
    asked_by = [f"{key} {text}" for key, text in parked.scope.to_dict().items() if text is not None]
    if asked_by:
        screen.say(f"  asked by: {visible_line(', '.join(asked_by))}")
    return ask_line(f"{question} y/N: ").strip().lower() in ("y", "yes")


def _show_call(tool: str, arguments: Any, reason: object) -> None:
    why = visible_line(str(reason or "it needs approval"))
    screen.say(f"{visible_name(tool)} waits for your approval: {why}", "yellow")
    named = arguments.items() if isinstance(arguments, Mapping) else ()
    for name, value in named:
        screen.say(f"  {visible_name(name)} = {screen.exact(value)}")


def ask_edits(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for a new value of each argument; an empty line keeps the current value."""
    changed: dict[str, Any] = {}
    for name in dict.fromkeys((*arguments, *schema.get("properties", ()))):
        changed.update(_ask_other(name, arguments, schema))
    return changed


def ask_line(question: str) -> str:
    """The person's answer without its line end; `EOFError` if the input has ended."""
    sys.stderr.write(question)
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise EOFError
    return answer.removesuffix("\n")


def _ask_other(
    name: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> dict[str, Any]:
    there = screen.exact(arguments[name]) if name in arguments else ""
    while True:
        answer = ask_line(f"  {visible_name(name)} [{there}]: ")
        if not answer:
            return {}
        try:
            return read_arguments(schema, [f"{name}={answer}"])
        except ArgumentError as error:
            screen.fail(error)
