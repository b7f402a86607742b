"""What the API says when it can't do what was asked: a code, a message and a hint, as JSON."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from pydantic import Field

from wieldy.core.errors import (
    AlreadyDecided,
    AnswerNeeded,
    CallDenied,
    CallNotFound,
    DefinitionError,
    InvalidArguments,
    NotKept,
    ServerUnavailable,
    StoreError,
    ToolNotFound,
    WieldyError,
)
from wieldy.core.limits.call_limits import TooManyCalls
from wieldy.core.permission.deciders import MayNotDecide
from wieldy.core.permission.waiting_calls import WaitsForCalls
from wieldy.core.run_errors import RunEnded, RunNotFound
from wieldy.store.artifacts.artifact_errors import ArtifactNotFound

from .answer_shapes import AnswerShape, JsonValue, PlainText

_LOST = (CallNotFound, NotKept, RunNotFound, ArtifactNotFound, ToolNotFound)
_MAX_LENGTH = 2000


class ProblemFacts(AnswerShape):
    """The problem with a request."""

    code: str = Field(description="The kind of problem, which stays the same between versions.")
    message: PlainText
    hint: PlainText = Field(description="What to do about it.")
    details: dict[str, JsonValue] = Field(description="Facts about the problem, by name.")


class ProblemAnswer(AnswerShape):
    """The body of every answer that is not a success."""

    error: ProblemFacts


class Problem(Exception):
    """A request that can't be answered, with the status of the answer."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        hint: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.answer = ProblemAnswer(
            error=ProblemFacts(
                code=code, message=message[:_MAX_LENGTH], hint=hint, details=dict(details or {})
            )
        )


def not_found(kind: str, listing: str) -> Problem:
    """The answer about an id that does not exist, and in the same words about another's."""
    return Problem(
        404, "not_found", f"There is no such {kind}.", f"{listing} lists those there are."
    )


def forbidden(needed: str) -> Problem:
    """The answer to a caller that may not do this."""
    return Problem(
        403,
        "role_needed",
        f"This needs the role {needed}.",
        "Ask an administrator for a token with that role; GET /api/me says which roles you have.",
    )


def unknown_person() -> Problem:
    """The answer to somebody unknown who wants to decide on something or to change it."""
    return Problem(
        401,
        "sign_in_needed",
        "Only a person who has signed in may do this.",
        "Sign in with a link that whoever runs the server has, or send a token with the role.",
        headers={"www-authenticate": "Bearer"},
    )


def wrong_value(message: str, **details: Any) -> Problem:
    """The answer about a value of the right type that can't be used."""
    return Problem(422, "wrong_value", message, "Change the value and send it again.", details)


def too_many_calls(error: TooManyCalls) -> Problem:
    """The answer to a call that a limit has refused."""
    seconds = max(1, ceil(error.retry_after))
    details = {"limit": error.limit, "retry_after": error.retry_after}
    hint = f"Try again in {seconds} s; POST /api/explain says how much of each limit is used."
    headers = {"Retry-After": str(seconds)}
    return Problem(429, "too_many_calls", str(error), hint, details, headers)


def _refused_decision(
    error: AlreadyDecided | MayNotDecide | AnswerNeeded | WaitsForCalls | RunEnded,
) -> Problem:
    if isinstance(error, AlreadyDecided):
        told = {"verdict": error.verdict, "by": error.by, "reason": error.reason}
        hint = "The earlier decision holds. GET /api/calls/{call_id} tells what became of it."
        return Problem(409, "already_decided", str(error), hint, told)
    if isinstance(error, MayNotDecide):
        if error.why == "own":
            hint = "Somebody else with the role approve has to decide."
            return Problem(403, "own_call", str(error), hint)
        return unknown_person() if error.why == "unknown" else forbidden("approve")
    if isinstance(error, RunEnded):
        hint = "GET /api/runs/{run_id} tells how it ended."
        told = {"run": error.run_id, "state": error.state}
        return Problem(409, "run_ended", str(error), hint, told)
    missing = list(getattr(error, "missing", ()))
    hint = "GET /api/pending/{call_id} says what it waits for."
    return Problem(409, "answer_needed", str(error), hint, {"missing": missing})


def find_problem(error: WieldyError) -> Problem | None:
    """The problem behind an error that was raised while a request was handled, or None."""
    if isinstance(error, _LOST):
        return not_found("thing", "The list of its kind")
    if isinstance(error, AlreadyDecided | MayNotDecide | AnswerNeeded | WaitsForCalls | RunEnded):
        return _refused_decision(error)
    if isinstance(error, InvalidArguments):
        hint = "GET /api/tools/{name} has the tool's input schema."
        return Problem(422, "invalid_arguments", str(error), hint)
    if isinstance(error, CallDenied | DefinitionError):
        hint = "GET /api/lock-changes lists the tools that are held back."
        return Problem(409, "tool_unusable", str(error), hint)
    if isinstance(error, StoreError):
        return Problem(503, "store_unavailable", str(error), "Try again in a moment.")
    if isinstance(error, ServerUnavailable):
        return Problem(503, "server_unavailable", str(error), "Look at the server, and try again.")
    return None
