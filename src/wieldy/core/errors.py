"""Everything that can go wrong, as one tree.

WieldyError
├── DefinitionError      the tool as written can't be offered: change the code
│   └── NameTaken        the name belongs to another tool: choose a policy
├── CallNotFound         no parked call has this id
├── AlreadyDecided       somebody decided otherwise before
├── AnswerNeeded         the call asks for answers, and a yes is none
├── InputNeeded          raised by a tool that can't go on without answers
├── NotKept              the store has no session, state or rule of this name
├── SessionTaken         there is a session of this name already
├── StoreError           the store can't do what was asked
│   ├── StoreUnavailable it is locked, full, or can't be reached: try again
│   ├── StoreTooNew      a newer version made it: upgrade
│   └── CorruptRow       one of its rows can't be read
├── ArtifactError        an artifact can't be read or changed as asked
│   ├── ArtifactNotFound this session has none of this id, or not this version
│   ├── ArtifactTaken    the session has one of this id: change it, or choose another id
│   ├── VersionConflict  somebody changed it meanwhile: read it again
│   ├── PassageNotFound  the text to replace is not there: send it as it stands there
│   └── PassageRepeated  it is there more than once: send more of what is around it
├── DocumentError        a document of tools can't be used: change it, or what is said about it
├── ServiceError         a service a tool asked gave an error, or no answer; `temporary` says retry
├── InvalidSource        what was given names no server: change it
├── ServerUnavailable    an MCP server can't be started, reached or understood
├── RemoteFailure        an MCP server said that the call failed
├── ModelError           a model gave no answer that can be used (in model_errors)
│   ├── UnknownModel     no model can be made of this name: change it
│   ├── ModelUnavailable it can't be reached, is overloaded, silent or broke off: try later
│   ├── ModelRefused     it won't answer this request: change the request, the key or the address
│   ├── ContextTooLong   the messages don't fit its context: send less
│   └── ModelAnswerTooLarge  the answer outgrew its limit, and the rest was not read
├── RunError             an agent's request ended without an answer (in run_errors)
│   ├── RunInterrupted   its calls wait for a person: decide on them
│   ├── RunCancelled     somebody stopped it
│   └── KeysMissing      the answers never had the keys that were asked for
├── LockError            the lock file can't be relied upon
├── RecordedFailure      stands for what a tool raised in a call read from the store
└── CallError            what an outcome carries; `Outcome.unwrap` raises it
    ├── ToolNotFound     no such tool for this caller
    ├── InvalidArguments the model should send other arguments
    ├── InvalidResult    it ran, and its result is not what its tool promises
    ├── CallDenied       a rule, a mode or a person said no
    ├── CallPending      a person has to decide first
    ├── CallTimeout      it took longer than its limit
    ├── CallInterrupted  somebody stopped it
    ├── CallUnknown      it started and nobody knows how it ended
    ├── NotRecorded      it did not run, because it could not be recorded
    │   └── NotChecked   it did not run, because the standing rules could not be read
    ├── KeyTaken         its idempotency key belongs to another call
    └── ToolFailed       the function raised; `original` is what it raised
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .canonical import plain_json


class WieldyError(Exception):
    """The root of all errors raised by this library."""


class DefinitionError(WieldyError, ValueError):
    """A tool can't be described or registered as it is written."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"Tool {tool!r}: {reason}")
        self.tool = tool
        self.reason = reason


class NameTaken(DefinitionError):
    """The name, or the name that providers would see, belongs to another tool."""

    def __init__(self, tool: str, holder: str) -> None:
        clash = "is registered already" if tool == holder else f"looks like {holder!r} to providers"
        super().__init__(
            tool, f'the name {clash}. Pass name="…", or on_conflict="override", "skip" or "rename".'
        )
        self.holder = holder


class CallNotFound(WieldyError, LookupError):
    """No call with this id is or was parked here, or, if `recorded`, is in the ledger."""

    def __init__(self, call_id: str, recorded: bool = False) -> None:
        kind, listing = ("recorded", "ledger.list()") if recorded else ("parked", "pending()")
        super().__init__(f"No {kind} call has the id {call_id!r}. `{listing}` lists them.")
        self.call_id = call_id


class AlreadyDecided(WieldyError):
    """The call was decided the other way before."""

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
    """The call waits for answers; `missing` are those that were not given."""

    def __init__(self, call_id: str, missing: Sequence[str]) -> None:
        wanted = ", ".join(map(repr, missing))
        super().__init__(f"Call {call_id} waits for answers to {wanted}. Give them with answer().")
        self.call_id = call_id
        self.missing = tuple(missing)


class InputNeeded(WieldyError):
    """Raised by a tool that can't go on until somebody answers.

    The call then waits like one that needs approval: it can be stored, and its
    function runs again from the start when `Toolbox.answer` is called, with the
    answers and the `state` in its `Context`. `requests` are by a name of the tool's
    choosing, each in the form of MCP's input requests; both are plain JSON.
    """

    def __init__(self, requests: Mapping[str, Mapping[str, Any]], state: Any = None) -> None:
        if not requests:
            raise ValueError("InputNeeded: name at least one request")
        self.requests: dict[str, Any] = plain_json(requests, "InputNeeded: requests")
        self.state = plain_json(state, "InputNeeded: state")
        self.message = " ".join(filter(None, map(_question, self.requests.values())))
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
        """One question to a person; `schema` is of the object that answers it."""
        wanted = schema or {"type": "object", "properties": {}}
        params = {"mode": "form", "message": message, "requestedSchema": wanted}
        return cls({name: {"method": "elicitation/create", "params": params}}, state)


def _question(request: Any) -> str:
    params = request.get("params") if isinstance(request, dict) else None
    message = params.get("message") if isinstance(params, dict) else None
    return message if isinstance(message, str) else ""


class NotKept(WieldyError, LookupError):
    """The store keeps nothing of this kind under this name."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"The store has no {kind} {_short(name)}.")
        self.kind = kind
        self.name = name


class SessionTaken(WieldyError, ValueError):
    """There is a session of this name, and it is not written over."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"There is a session {_short(session)} already. Delete it first, or use another name."
        )
        self.session = session


class StoreError(WieldyError):
    """The store can't do what was asked; `next_step` says what helps."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(f"The store: {reason}. {next_step}")
        self.reason = reason
        self.next_step = next_step


class StoreUnavailable(StoreError):
    """The store can't be used now; later it may."""


class StoreTooNew(StoreError):
    """The database was made by a newer version of this library."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"its database is at step {found}, and this version of wieldy knows {known}",
            "Upgrade wieldy, or use another store.",
        )
        self.found = found
        self.known = known


class CorruptRow(StoreError):
    """A row of the store can't be read, and is not acted upon."""

    def __init__(self, call_id: str, reason: str) -> None:
        super().__init__(
            f"the row of call {call_id} can't be read ({reason})",
            "Restore it from a copy, or delete it from wieldy_calls.",
        )
        self.call_id = call_id


class ArtifactError(WieldyError):
    """An artifact can't be read or changed as asked."""


class ArtifactNotFound(ArtifactError, LookupError):
    """The session has no artifact of this id, or the artifact has no such version."""

    def __init__(self, id: str, version: int | None = None, current: int | None = None) -> None:
        if current is None:
            said = f"There is no artifact {_short(id)} in this session."
        else:
            said = f"Artifact {_short(id)} has no version {version}. Its last is {current}."
        super().__init__(said)
        self.id = id
        self.version = version
        self.current = current


class ArtifactTaken(ArtifactError):
    """The session has an artifact of this id already."""

    def __init__(self, id: str) -> None:
        super().__init__(
            f"There is an artifact {_short(id)} in this session already. "
            "Update or rewrite it, or choose another id."
        )
        self.id = id


class VersionConflict(ArtifactError):
    """The artifact is not at the version that the writer has seen; nothing was changed."""

    def __init__(self, id: str, expected: int, current: int) -> None:
        super().__init__(
            f"Artifact {_short(id)} is at version {current}, and the change was made for "
            f"version {expected}. Read it again and change that."
        )
        self.id = id
        self.expected = expected
        self.current = current


class PassageNotFound(ArtifactError):
    """The text to replace is not in the artifact, nor anything near enough to it.

    `closest` is the passage that comes nearest, None if it was not looked for.
    """

    def __init__(
        self, id: str, reason: str, closest: str | None = None, similarity: float = 0.0
    ) -> None:
        shown = ""
        if closest:
            most = 2000
            rest = len(closest) - most
            cut = f"… ({rest:,} more characters)" if rest > 0 else ""
            shown = f" The closest passage is {similarity:.0%} alike:\n{closest[:most]}{cut}"
        super().__init__(f"Artifact {_short(id)} was not changed: {reason}{shown}")
        self.id = id
        self.reason = reason
        self.closest = closest
        self.similarity = similarity


class PassageRepeated(ArtifactError):
    """The text to replace is in the artifact more than once."""

    def __init__(self, id: str, count: int) -> None:
        super().__init__(
            f"Artifact {_short(id)} was not changed: the passage to replace is in it {count} "
            "times. Send more of the text around the one that is meant."
        )
        self.id = id
        self.count = count


class DocumentError(WieldyError, ValueError):
    """A document that describes tools can't be used, as a whole or in one place."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class ServiceError(WieldyError):
    """A service that a tool asked gave an error, or no answer at all.

    A tool raises it. Only a `temporary` one is tried again, and not before
    `retry_after` seconds have passed.
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
    """What was given as a source of tools can't be one."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class ServerUnavailable(WieldyError, ConnectionError):
    """An MCP server can't be used; `stderr` has the last lines it wrote, where it is a process."""

    def __init__(self, server: str, reason: str, stderr: str = "") -> None:
        said = f"\nIts last words on stderr:\n{stderr}" if stderr else ""
        super().__init__(f"The MCP server {server!r} can't be used: {reason}{said}")
        self.server = server
        self.reason = reason
        self.stderr = stderr


class RemoteFailure(WieldyError):
    """An MCP server answered a call with an error; `content` is what it showed with it."""

    def __init__(
        self, message: str, content: Sequence[object] = (), code: int | None = None
    ) -> None:
        super().__init__(message)
        self.content = tuple(content)
        self.code = code


class LockError(WieldyError):
    """A lock file can't be relied upon, and nothing is taken from it."""

    def __init__(self, path: str, reason: str, next_step: str) -> None:
        super().__init__(f"The lock {path}: {reason}. {next_step}")
        self.path = path
        self.reason = reason
        self.next_step = next_step


class RecordedFailure(WieldyError):
    """What a tool raised, as the store remembers it: its words, not the exception itself."""


class CallError(WieldyError):
    """Why a call has no value. It travels in `Outcome.error` and is not raised by the engine."""


class ToolNotFound(CallError, LookupError):
    """The caller can't see a tool of this name."""

    def __init__(self, name: str, near: Sequence[str] = (), reason: str | None = None) -> None:
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__((reason or f"There is no tool named {_short(name)}.") + hint)
        self.name = name
        self.near = tuple(near)


class InvalidArguments(CallError, ValueError):
    """The arguments don't fit the tool's schema and could not be repaired."""

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(f"Invalid arguments for {tool}: {'; '.join(problems)}")
        self.tool = tool
        self.problems = tuple(problems)


class InvalidResult(CallError):
    """The call ran, and what it gave does not fit the tool's output schema.

    The outcome keeps the value.
    """

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"The result of {tool} does not fit its output schema: {problem}")
        self.tool = tool
        self.problem = problem


class CallDenied(CallError, PermissionError):
    """The call was not allowed to run, and did not."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"The call of {tool} was denied: {reason}")
        self.tool = tool
        self.reason = reason


class CallPending(CallError):
    """The call waits for a decision."""

    def __init__(self, tool: str, call_id: str) -> None:
        super().__init__(f"The call of {tool} waits for approval as {call_id}.")
        self.tool = tool
        self.call_id = call_id


class CallTimeout(CallError, TimeoutError):
    """The call took longer than its limit."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(f"{tool} did not finish within {seconds:g} s.")
        self.tool = tool
        self.seconds = seconds


class CallInterrupted(CallError):
    """The call was stopped before it ended."""

    def __init__(self, tool: str) -> None:
        super().__init__(f"The call of {tool} was interrupted.")
        self.tool = tool


class CallUnknown(CallError):
    """The function ran, or may have run, and its result is not recorded."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"It is not known how the call of {tool} ended: {reason}")
        self.tool = tool
        self.reason = reason


class NotRecorded(CallError):
    """The call was to be recorded before it ran; it could not be, and did not run."""

    obstacle = "it can't be recorded"

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"The call of {tool} was not run, because {self.obstacle}: {reason}")
        self.tool = tool
        self.reason = reason


class NotChecked(NotRecorded):
    """Nobody could say whether a standing rule forbids the call, and it did not run."""

    obstacle = "the standing rules can't be read"


class KeyTaken(CallError):
    """A call with this id or idempotency key exists, with another tool or other arguments."""

    def __init__(self, tool: str, first: str) -> None:
        super().__init__(
            f"The call of {tool} was not run: its id or idempotency key belongs to call {first}, "
            "which has another tool or other arguments. Use a new key."
        )
        self.tool = tool
        self.first = first


class ToolFailed(CallError):
    """The tool's function raised; `original` is the exception itself.

    `redacted` says that the original tells a secret, itself or by what it is chained to;
    `streaming` that it was raised by a generator, which may have given something before.
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
    """Say what an exception says, with its class, whatever its `__str__` does."""
    try:
        text = str(exception)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = "(its message can't be shown)"
    name = type(exception).__name__
    return f"{name}: {text}" if text else name


def _short(name: object, limit: int = 80) -> str:
    text = repr(name)
    return text if len(text) <= limit else text[:limit] + "…"
