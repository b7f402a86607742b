"""Why an agent's request has no answer: the branch `RunError` of the tree in `errors`."""

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import WieldyError


class RunError(WieldyError):
    """A request of an agent ended without an answer."""


class RunInterrupted(RunError):
    """Calls of the request wait for a person.

    Attributes:
        pending: The calls that wait.
        run_id: The id of the run.
        state: Where the run stands, as JSON that `agent.resume` takes.
    """

    def __init__(
        self,
        pending: Sequence[Any],
        run_id: str = "",
        state: Mapping[str, Any] | None = None,
    ) -> None:
        names = ", ".join(f"{each.call.tool} ({each.call.id})" for each in pending)
        super().__init__(f"The request waits for a decision on {names or 'a call'}.")
        self.pending = list(pending)
        self.run_id = run_id
        self.state = dict(state or {})


class RunNotFound(RunError, LookupError):
    """The store has no run of this id.

    A run has an id before anything of it is written. If the id was read at that time, nothing of
    the run had begun: nothing was shown, and no tool was called.
    """

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"No run has the id {run_id!r}. `box.store.runs.list()` lists them. If the id was read "
            "while the run started, nothing of it had begun: ask again."
        )
        self.run_id = run_id


class RunBusy(RunError):
    """Somebody else carries the run on at this moment."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"Run {run_id} is being carried on elsewhere, and nothing was changed. "
            "Resume it again when that has ended, if it is still needed."
        )
        self.run_id = run_id


class RunTaken(RunError):
    """Somebody else has taken the run over: this process was silent and was taken for dead."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"Run {run_id} was taken over by another process, because this one was taken for "
            "dead. It goes on there; resume(run_id) gives its answer when it is done."
        )
        self.run_id = run_id


class StateRefused(RunError, ValueError):
    """The value given to `resume` is not the state of a run that can continue here."""


class NotPending(RunError, LookupError):
    """A decision names a call of which the run does not wait; nothing was changed."""

    def __init__(self, run_id: str, call_id: str) -> None:
        super().__init__(
            f"Run {run_id} does not wait for a decision on {call_id!r}, and nothing was changed. "
            "`RunInterrupted.pending` has the calls that it waits for."
        )
        self.run_id = run_id
        self.call_id = call_id


class RunEnded(RunError):
    """A call can't be approved, because the run that needs it has ended or was given up.

    Attributes:
        run_id: The id of the run.
        call_id: The id of the call.
        state: How the run ended.
    """

    def __init__(self, run_id: str, call_id: str, state: str, error: str | None) -> None:
        why = f" ({error})" if error else ""
        hint = "" if state == "done" else " Resume the run by its id, with the decision."
        super().__init__(
            f"Call {call_id} is not approved, because its run {run_id} is {state}{why}, "
            f"so that nobody needs its result.{hint}"
        )
        self.run_id = run_id
        self.call_id = call_id
        self.state = state


class RunCancelled(RunError):
    """The request was cancelled before it had an answer."""

    def __init__(self) -> None:
        super().__init__("The request was cancelled. Start it again to get an answer.")


class NoAnswer(RunError):
    """A limit of the run was reached, and the model was asked to answer and said nothing.

    Attributes:
        limit: The limit, in words.
    """

    def __init__(self, limit: str) -> None:
        super().__init__(
            f"The run has no answer: {limit}, and the model said nothing when it was asked to "
            "answer with what it knows. Allow the run more, or ask for less."
        )
        self.limit = limit


class KeysMissing(RunError, ValueError):
    """The answers never had the keys that were asked for.

    Attributes:
        missing: The paths of the missing keys.
        retries: How many further requests were made for them.
    """

    def __init__(self, missing: Sequence[str], retries: int) -> None:
        keys = ", ".join(map(repr, missing))
        super().__init__(f"The answer has no {keys}, also after {retries} more requests.")
        self.missing = list(missing)
        self.retries = retries
