"""Calls that wait for other calls: why they do, and what is still open below them."""

from collections.abc import Mapping, Sequence
from typing import Any

from wieldy.core.block import Text
from wieldy.core.call import Call, Outcome
from wieldy.core.errors import CALL_METHOD, CallPending, InputNeeded, WieldyError
from wieldy.core.short_text import cut_counted

# The argument with which a client of a server comes back to a call that waited.
RESUME_CALL = "resume_call"
A_PERSON = "A person has to agree"
# A question may be of any length, and what a model reads of it may not.
_MAX_REASON = 10_000


class CallsNeeded(InputNeeded):
    """Raised by a tool that can't go on until calls that it made have ended.

    The tool's own call then waits too. Nobody decides on it: people decide on the calls that it
    waits for. When the last of these has ended, the function runs again from the start, with
    the same arguments, and with the state in its `Context`. `Context.answers` has the status of
    each call by its id.

    Attributes:
        calls: The ids of the calls.
        state: What the tool wants to get back as `Context.state`. It is plain JSON.

    Args:
        calls: The calls, as ids or as the outcomes that `Context.call` gave.
        state: What the tool wants to get back as `Context.state`.

    Example:
        `if outcome.status is Status.PENDING: raise CallsNeeded([outcome])`
    """

    def __init__(self, calls: Sequence[str | Outcome], state: Any = None) -> None:
        if isinstance(calls, str) or not calls:
            raise ValueError("CallsNeeded: name at least one call, in a list")
        self.calls = [each if isinstance(each, str) else each.call.id for each in calls]
        super().__init__({each: {"method": CALL_METHOD} for each in self.calls}, state)

    def _check_methods(self) -> None:
        """These requests are calls."""


class WaitsForCalls(WieldyError, ValueError):
    """A call waits for other calls, and has to be decided through them.

    Attributes:
        call_id: The id of the call.
        calls: The ids of the calls that it waits for.
    """

    def __init__(self, call_id: str, calls: Sequence[str]) -> None:
        super().__init__(
            f"Call {call_id} waits for the calls {', '.join(calls)}. Decide on these; it goes on "
            "by itself when they have ended. Denying it denies them too."
        )
        self.call_id = call_id
        self.calls = list(calls)


def waited_calls(requests: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The ids of the calls that a call waits for, going by its requests."""
    asked = (requests or {}).items()
    return tuple(name for name, request in asked if _names_call(request))


def waiting_facts(requests: Mapping[str, Any]) -> dict[str, Any]:
    """What the receipt of a call says of what it waits for, beside a decision."""
    calls = waited_calls(requests)
    return {"waits_for": list(calls)} if calls else {"input": requests}


def describe_waiting(call: Call, requests: Mapping[str, Any], reason: str | None) -> Text:
    """What the receipt of a call says that waits for other calls or for answers."""
    calls = waited_calls(requests)
    needs = f"the calls {', '.join(calls)}" if calls else "answers"
    why = "" if reason is None else f": {reason}"
    return Text(f"{call.tool} waits for {needs} as {call.id}{why}")


def receipt_text(outcome: Outcome, why: str | None = None, person: str = A_PERSON) -> str:
    """What a model or a client reads of a call that waits: under which id, for what, and why.

    Whoever reads it may have a shell: it never says how somebody decides.
    """
    call, facts = outcome.call, outcome.metadata
    reason = cut_counted(str(why or facts.get("reason") or ""), _MAX_REASON)
    because = f" ({reason})" if reason else ""
    if "waits_for" in facts:
        calls = ", ".join(facts["waits_for"])
        return (
            f"{call.tool} waits for the calls {calls} as {call.id}{because}. It goes on when these "
            f"have ended. {person}."
        )
    if "input" in facts:
        said = f"{call.tool} waits for answers as {call.id}{because}. It has not ended."
        return f"{said} A person has to give them."
    return (
        f"{str(CallPending(call.tool, call.id)).removesuffix('.')}{because}. It has not run. "
        f"{person}; calling again would ask for another approval."
    )


def _names_call(request: Any) -> bool:
    return isinstance(request, Mapping) and request.get("method") == CALL_METHOD
