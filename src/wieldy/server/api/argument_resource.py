"""Arguments: check them against a tool's schema while somebody writes them."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from wieldy.core.call import Call
from wieldy.core.errors import CallNotFound
from wieldy.core.permission.parked import Parked
from wieldy.core.secrets.secret import MASK

from .answer_shapes import AnswerShape, Input, PlainText
from .api_operations import Asked, operation
from .api_problems import not_found
from .tool_resource import find_tool

_COVERED = "this is a secret that you can't see; write its value, or decide without editing"
_MAX_DEPTH = 50


class CheckedArguments(Input):
    """Arguments that somebody thinks of sending."""

    tool: str = Field(min_length=1, max_length=1000)
    arguments: dict[str, Any] = Field(default_factory=dict)
    call_id: str | None = Field(
        None, max_length=1000, description="The waiting call whose arguments are edited."
    )


class ArgumentProblem(AnswerShape):
    """Something that does not fit."""

    path: PlainText = Field(description="Where it is, such as `order.lines[0].price`.")
    message: PlainText


class ArgumentCheck(AnswerShape):
    """What does not fit; nothing if the arguments do."""

    problems: list[ArgumentProblem]


@operation("POST", "/check-arguments", ArgumentCheck, body=CheckedArguments)
async def check_arguments(asked: Asked) -> ArgumentCheck:
    """Check arguments as a call would; nothing is run or recorded."""
    wanted: CheckedArguments = asked.body
    if wanted.call_id is None:
        tool = (await find_tool(asked, wanted.tool)).name
        covered: list[str] = []
    else:
        parked = await find_waiting(asked, wanted.call_id)
        tool = parked.tool
        covered = find_covered(parked, wanted.arguments)
    lines = await asked.box.desk.find_problems(Call(tool, wanted.arguments))
    told = [_read_line(line) for line in lines]
    return ArgumentCheck(problems=[*map(_tell_covered, covered), *told])


async def find_waiting(asked: Asked, call_id: str) -> Parked:
    """The parked call of this id that whoever asks may see; `Problem` otherwise."""
    missing = not_found("waiting call", "GET /api/pending")
    try:
        parked = await asked.box.desk.find(call_id)
    except CallNotFound:
        raise missing from None
    if not asked.owns(parked.scope.caller):
        raise missing
    return parked


def find_covered(parked: Parked, edited: Mapping[str, Any]) -> list[str]:
    """The places where edited arguments have stars in place of a secret of the call.

    Whoever edits sees stars. The secret does not go with arguments that somebody else has
    written, because they could send it elsewhere, and a call with stars would be wrong.
    """
    found: list[str] = []
    if parked.covered is not None:
        _compare(edited, parked.covered, "", found)
    return found


def _compare(edited: Any, shown: Any, place: str, found: list[str]) -> None:
    if place.count(".") + place.count("[") > _MAX_DEPTH:
        return
    if isinstance(edited, Mapping) and isinstance(shown, Mapping):
        for name in edited.keys() & shown.keys():
            _compare(edited[name], shown[name], f"{place}.{name}" if place else str(name), found)
    elif isinstance(edited, list) and isinstance(shown, list):
        for number, pair in enumerate(zip(edited, shown, strict=False)):
            _compare(*pair, f"{place}[{number}]", found)
    elif isinstance(edited, str) and edited == shown and MASK in edited:
        found.append(place)


def _tell_covered(place: str) -> ArgumentProblem:
    return ArgumentProblem(path=place, message=_COVERED)


def _read_line(line: str) -> ArgumentProblem:
    path, colon, message = line.partition(": ")
    if not colon:
        return ArgumentProblem(path="", message=line)
    return ArgumentProblem(path="" if path == "arguments" else path, message=message)
