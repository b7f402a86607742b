"""Everything that can go wrong, as one tree; errors of one package alone are beside its code.

WieldyError
├── DefinitionError      the tool as written can't be offered: change the code
│   └── NameTaken        the name belongs to another tool: choose a policy
├── CallNotFound         no parked call has this id
├── AlreadyDecided       the call was decided otherwise before
├── AnswerNeeded         the call waits for answers, and approving it gives none
├── InputNeeded          raised by a tool that can't go on without answers
│   └── CallsNeeded      or before other calls have ended (in permission.waiting_calls)
├── WaitsForCalls        the call waits for other calls: decide on those
├── NotKept              the store has no session, state or rule of this name
├── SessionTaken         a session of this name exists already
├── TokenTaken           somebody of this name has a token (in store.access_tokens)
├── StoreError           the store can't do what was asked
│   ├── StoreUnavailable it is locked, full, or can't be reached: try again
│   ├── StoreTooNew      a newer version made it: upgrade
│   └── CorruptRow       one of its rows can't be read
├── ArtifactError        an artifact can't be read or changed as asked (in store.artifacts)
│   ├── ArtifactNotFound this session has none of this id, or not this version
│   ├── ArtifactTaken    the session has one of this id: change it, or choose another id
│   ├── VersionConflict  it was changed meanwhile: read it again
│   ├── PassageNotFound  the text to replace is not there: send it as it is there
│   └── PassageRepeated  it is there more than once: send more of the text around it
├── DocumentError        a document of tools can't be used: change it or the options
├── ServiceError         a tool's service failed or did not answer; `temporary` allows a retry
├── WorkerDied           a tool's process ended before it answered (in execution)
│   └── MemoryExceeded   it held more memory than its limit: raise it, or send less
├── InvalidSource        the given source is no server: change it
├── ServerUnavailable    an MCP server can't be started, reached or understood
├── RemoteFailure        an MCP server reported that the call failed
├── ModelError           a model gave no answer that can be used (in models.model_errors)
│   ├── UnknownModel     no model has this name: change it
│   ├── ModelUnavailable it can't be reached, is overloaded, silent or broke off: try later
│   ├── ModelRefused     it won't answer this request: change the request, the key or the address
│   ├── ContextTooLong   the messages don't fit its context: send less
│   └── ModelAnswerTooLarge  the answer outgrew its limit, and the rest was not read
├── RunError             an agent's request ended without an answer (in run_errors)
│   ├── RunInterrupted   its calls wait for a person: decide on them
│   ├── RunNotFound      no run has this id
│   ├── RunBusy          somebody else carries the run on: try later
│   ├── RunTaken         somebody else has taken it over
│   ├── StateRefused     what was given is no state that can go on here
│   ├── RunEnded         a call can't be approved: its run has ended or was given up
│   ├── NotPending       a decision on a call that the run does not wait for
│   ├── RunCancelled     it was cancelled
│   ├── NoAnswer         a limit was reached, and the model had nothing to say
│   └── KeysMissing      the answers never had the keys that were asked for
├── LockError            the lock file can't be relied upon
├── RecordedFailure      stands for what a tool raised in a call read from the store
└── CallError            the error of an outcome; `Outcome.unwrap` raises it
    ├── ToolNotFound     no such tool for this caller
    ├── InvalidArguments the model should send other arguments
    ├── InvalidResult    it ran, and its result does not fit the output schema
    ├── CallDenied       a rule, a mode or a person refused it
    ├── CallPending      a person has to decide first
    ├── CallTimeout      it took longer than its limit
    ├── TooManyCalls     a limit on calls was reached: try later (in limits.call_limits)
    ├── CallInterrupted  it was stopped
    ├── CallUnknown      it started, and how it ended is not known
    ├── NotRecorded      it did not run, because it could not be recorded
    │   └── NotChecked   it did not run, because the standing rules could not be read
    ├── KeyTaken         its id or idempotency key belongs to another call
    └── ToolFailed       the function raised; `original` is what it raised
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .canonical import plain_json
from .names import shorten_name

_CALLS = "wieldy_calls"
CALL_METHOD = "wieldy/call"  # of a request that stands for a call that is waited for


class WieldyError(Exception):
    """The root of all errors that this library raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors take facts and write the message, so a copy is made without them.
        return type(self).__new__, (type(self),), {**vars(self), "args": self.args}


class DefinitionError(WieldyError, ValueError):
    """A tool can't be described or registered as it is written: change the code.

    Attributes:
        tool: The tool's name.
        reason: What is wrong with it.
    """

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"Tool {tool!r}: {reason}")
        self.tool = tool
        self.reason = reason


class NameTaken(DefinitionError):
    """Another tool has the name, or one that providers see as the same: choose `on_conflict`.

    Attributes:
        holder: The name of the tool that has it.
    """

    def __init__(self, tool: str, holder: str) -> None:
        clash = "is registered already" if tool == holder else f"looks like {holder!r} to providers"
        super().__init__(
            tool, f'the name {clash}. Pass name="…", or on_conflict="override", "skip" or "rename".'
        )
        self.holder = holder


class CallNotFound(WieldyError, LookupError):
    """No call of this id is or was parked here, or, if `recorded`, is in the ledger.

    Attributes:
        call_id: The id that was asked for.
    """

    def __init__(self, call_id: str, recorded: bool = False) -> None:
        kind, listing = ("recorded", "ledger.list()") if recorded else ("parked", "pending()")
        super().__init__(f"No {kind} call has the id {call_id!r}. `{listing}` lists them.")
        self.call_id = call_id


class AlreadyDecided(WieldyError):
    """The call was decided otherwise before. The earlier decision holds.

    Attributes:
        call_id: The call's id.
        verdict: What was decided.
        by: Who decided, if they said.
        reason: Why, if they said.
    """

    def __init__(
        self, call_id: str, verdict: str, by: str | None, reason: str | None = None
    ) -> None:
        author = f" by {by}" if by else ""
        why = f": {reason}" if reason else ""
        super().__init__(f"Call {call_id} was already {verdict}{author}{why}.")
        self.call_id = call_id
        self.verdict = verdict
        self.by = by
        self.reason = reason


class AnswerNeeded(WieldyError, ValueError):
    """The call waits for answers that were not given: pass them to `Toolbox.answer`.

    Attributes:
        call_id: The call's id.
        missing: The names of the requests without an answer.
    """

    def __init__(self, call_id: str, missing: Sequence[str]) -> None:
        super().__init__(f"Call {call_id} waits for answers to {', '.join(map(repr, missing))}.")
        self.call_id = call_id
        self.missing = tuple(missing)


class InputNeeded(WieldyError):
    """Raised by a tool that can't go on until somebody answers.

    The call then waits like one that needs approval, and can be stored. `Toolbox.answer` runs
    the function again from the start, with the answers and the state in its `Context`.

    Attributes:
        requests: The requests, by names that the tool chooses, in the form of MCP's input
            requests. They are plain JSON.
        state: What the tool wants to get back as `Context.state`. It is plain JSON.
        message: The text of the questions.

    Example:
        `raise InputNeeded.form("Which size?", {"type": "object", "properties": {...}})`
    """

    def __init__(self, requests: Mapping[str, Mapping[str, Any]], state: Any = None) -> None:
        if not requests:
            raise ValueError("InputNeeded: name at least one request")
        self.requests: dict[str, Any] = plain_json(requests, "InputNeeded: requests")
        self._check_methods()
        self.state = plain_json(state, "InputNeeded: state")
        self.message = " ".join(filter(None, map(_question_text, self.requests.values())))
        super().__init__(self.message or f"answers to {', '.join(self.requests)} are needed")

    @classmethod
    def form(
        cls,
        message: str,
        schema: Mapping[str, Any] | None = None,
        *,
        name: str = "answer",
        state: Any = None,
    ) -> "InputNeeded":
        """Make one question to a person.

        Args:
            message: The question.
            schema: The JSON Schema of the object that answers it.
            name: The name of the request, by which the answer is found.
            state: What the tool wants to get back as `Context.state`.

        Returns:
            The exception to raise.
        """
        wanted = schema or {"type": "object", "properties": {}}
        params = {"mode": "form", "message": message, "requestedSchema": wanted}
        return cls({name: {"method": "elicitation/create", "params": params}}, state)

    def _check_methods(self) -> None:
        """Raise if a request would be taken for a call that is waited for."""
        asked = (each for each in self.requests.values() if isinstance(each, dict))
        if any(each.get("method") == CALL_METHOD for each in asked):
            raise ValueError(f"InputNeeded: {CALL_METHOD!r} asks nobody; raise CallsNeeded")


def _question_text(request: Any) -> str:
    params = request.get("params") if isinstance(request, dict) else None
    message = params.get("message") if isinstance(params, dict) else None
    return message if isinstance(message, str) else ""


class NotKept(WieldyError, LookupError):
    """The store has nothing of this kind under this name.

    Attributes:
        kind: What was looked for: a session, a state or a standing rule.
        name: The name that was asked for.
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"The store has no {kind} {shorten_name(name)}.")
        self.kind = kind
        self.name = name


class SessionTaken(WieldyError, ValueError):
    """A session of this name exists, and is not overwritten: delete it, or choose another name.

    Attributes:
        session: The session's id.
    """

    def __init__(self, session: str) -> None:
        name = shorten_name(session)
        super().__init__(f"There is a session {name} already. Delete it, or use another name.")
        self.session = session


class StoreError(WieldyError):
    """The store can't do what was asked.

    Attributes:
        reason: Why.
        next_step: What helps.
    """

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(f"The store: {reason}. {next_step}")
        self.reason = reason
        self.next_step = next_step


class StoreUnavailable(StoreError):
    """The store is locked, full or out of reach: try again later."""


class StoreTooNew(StoreError):
    """A newer version of this library made the database: upgrade, or use another store.

    Attributes:
        found: The migration that the database is at.
        known: The last migration that this version knows.
    """

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"its database is at step {found}, and this version of wieldy knows {known}",
            "Upgrade wieldy, or use another store.",
        )
        self.found = found
        self.known = known


class CorruptRow(StoreError):
    """A row of the store can't be read, and is not used: restore it from a copy, or delete it.

    Attributes:
        row_id: The id of the call, or of what else is in the row.
    """

    def __init__(self, row_id: str, reason: str, kind: str = "call", table: str = _CALLS) -> None:
        super().__init__(
            f"the row of {kind} {row_id} can't be read ({reason})",
            f"Restore it from a copy, or delete it from {table}.",
        )
        self.row_id = row_id


class DocumentError(WieldyError, ValueError):
    """A document that describes tools can't be used, as a whole or in one place: change it.

    Attributes:
        source: The document, and the place in it.
        reason: What is wrong there.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class ServiceError(WieldyError):
    """A service that a tool uses answered with an error, or not at all. Tools raise it.

    Attributes:
        status: The HTTP status, if there was an answer.
        body: The text of the answer.
        temporary: Whether the call may be tried again.
        retry_after: Seconds to wait before that, if the service said so.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        body: str = "",
        temporary: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.temporary = temporary
        self.retry_after = retry_after


class InvalidSource(WieldyError, ValueError):
    """The given source of tools can't be one: change it.

    Attributes:
        source: What was given.
        reason: What is wrong with it.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class ServerUnavailable(WieldyError, ConnectionError):
    """An MCP server can't be started, reached or understood.

    Attributes:
        server: The server's name.
        reason: Why.
        stderr: The last lines that it wrote to stderr, if it is a process.
    """

    def __init__(self, server: str, reason: str, stderr: str = "") -> None:
        said = f"\nIts last words on stderr:\n{stderr}" if stderr else ""
        super().__init__(f"The MCP server {server!r} can't be used: {reason}{said}")
        self.server = server
        self.reason = reason
        self.stderr = stderr


class RemoteFailure(WieldyError):
    """An MCP server answered a call with an error.

    Attributes:
        content: The blocks that came with the error.
        code: The JSON-RPC error code, if there was one.
    """

    def __init__(self, message: str, content: Sequence[Any] = (), code: int | None = None) -> None:
        super().__init__(message)
        self.content = tuple(content)
        self.code = code


class LockError(WieldyError):
    """A lock file can't be relied upon, and nothing is taken from it.

    Attributes:
        path: The file.
        reason: What is wrong with it.
        next_step: What helps.
    """

    def __init__(self, path: str, reason: str, next_step: str) -> None:
        super().__init__(f"The lock {path}: {reason}. {next_step}")
        self.path = path
        self.reason = reason
        self.next_step = next_step


class RecordedFailure(WieldyError):
    """Stands for what a tool raised, in a call read from the store: only its text is kept."""


class CallError(WieldyError):
    """Why a call has no value. It is in `Outcome.error`, and `Outcome.unwrap` raises it."""


class ToolNotFound(CallError, LookupError):
    """The caller can't see a tool of this name.

    Attributes:
        name: The name that was called.
        near: Similar names that the caller can see.
    """

    def __init__(self, name: str, near: Sequence[str] = (), reason: str | None = None) -> None:
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__((reason or f"There is no tool named {shorten_name(name)}.") + hint)
        self.name = name
        self.near = tuple(near)


class InvalidArguments(CallError, ValueError):
    """The arguments don't fit the tool's schema and could not be repaired: send others.

    Attributes:
        tool: The tool's name.
        problems: What is wrong, one text for each problem.
    """

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(f"Invalid arguments for {tool}: {'; '.join(problems)}")
        self.tool = tool
        self.problems = tuple(problems)


class InvalidResult(CallError):
    """The call ran, and its result, which the outcome keeps, does not fit the output schema.

    Attributes:
        tool: The tool's name.
        problem: What does not fit.
    """

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"The result of {tool} does not fit its output schema: {problem}")
        self.tool = tool
        self.problem = problem


class CallDenied(CallError, PermissionError):
    """A rule, a mode or a person refused the call, and it did not run.

    Attributes:
        tool: The tool's name.
        reason: Why.
    """

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"The call of {tool} was denied: {reason}")
        self.tool = tool
        self.reason = reason


class CallPending(CallError):
    """The call waits for a decision: use `Toolbox.approve`, `deny` or `wait`.

    Attributes:
        tool: The tool's name.
        call_id: The call's id.
    """

    def __init__(self, tool: str, call_id: str) -> None:
        super().__init__(f"The call of {tool} waits for approval as {call_id}.")
        self.tool = tool
        self.call_id = call_id


class CallTimeout(CallError, TimeoutError):
    """The call took longer than its limit.

    Attributes:
        tool: The tool's name.
        seconds: The limit.
    """

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(f"{tool} did not finish within {seconds:g} s.")
        self.tool = tool
        self.seconds = seconds


class CallInterrupted(CallError):
    """The call was stopped before it ended.

    Attributes:
        tool: The tool's name.
    """

    def __init__(self, tool: str) -> None:
        super().__init__(f"The call of {tool} was interrupted.")
        self.tool = tool


class CallUnknown(CallError):
    """The function ran, or may have run, and its result is not recorded: find out what it did.

    Attributes:
        tool: The tool's name.
        reason: Why it is not known.
    """

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"It is not known how the call of {tool} ended: {reason}")
        self.tool = tool
        self.reason = reason


class NotRecorded(CallError):
    """The call could not be recorded, and therefore did not run.

    Attributes:
        tool: The tool's name.
        reason: Why.
    """

    obstacle = "it can't be recorded"

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"The call of {tool} was not run, because {self.obstacle}: {reason}")
        self.tool = tool
        self.reason = reason


class NotChecked(NotRecorded):
    """The standing rules could not be read, and therefore the call did not run."""

    obstacle = "the standing rules can't be read"


class KeyTaken(CallError):
    """Another call, with another tool or other arguments, has this id or key: use a new key.

    Attributes:
        tool: The tool's name.
        first: The id of the call that has it.
    """

    def __init__(self, tool: str, first: str) -> None:
        super().__init__(
            f"The call of {tool} was not run: its id or idempotency key belongs to call {first}, "
            "which has another tool or other arguments. Use a new key."
        )
        self.tool = tool
        self.first = first


class ToolFailed(CallError):
    """The tool's function raised an exception.

    Attributes:
        original: The exception itself.
        redacted: Whether the exception, or what it is chained to, contains a secret.
        streaming: Whether a generator raised it, which may have yielded something before.
    """

    def __init__(
        self,
        original: BaseException,
        message: str | None = None,
        redacted: bool | None = None,
        streaming: bool = False,
    ) -> None:
        super().__init__(describe_exception(original) if message is None else message)
        self.original = original
        self.redacted = message is not None if redacted is None else redacted
        self.streaming = streaming
        if not self.redacted:
            self.__cause__ = original


def describe_exception(exception: BaseException) -> str:
    """The text of an exception with its class, whatever its `__str__` does."""
    try:
        text = str(exception)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = "(its message can't be shown)"
    return ": ".join(filter(None, (type(exception).__name__, text)))
