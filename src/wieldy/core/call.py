"""The values that travel: a call, the decision on it, and its outcome."""

import os
import threading
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from .block import Block, join_text, to_blocks
from .errors import CallError, CallPending, InputNeeded, ToolFailed
from .forking import at_fork
from .keyword_check import check_options

_LONGEST_ID = 500
_DIGITS = 12


class Status(StrEnum):
    """How a call stands. All but `PENDING` are ends."""

    OK = "ok"
    ERROR = "error"
    PENDING = "pending"
    DENIED = "denied"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class Scope:
    """On whose behalf a call is made.

    Attributes:
        agent: The agent whose view makes the call.
        session: The conversation, or other unit of work, that the call belongs to.
        parent: The id of the call that this one is nested in.
        caller: Who asks: the name of a token or of a person.
        run: The run of an agent that the call is part of.
    """

    __slots__ = ("agent", "caller", "parent", "run", "session")

    def __init__(
        self,
        agent: str | None = None,
        session: str | None = None,
        parent: str | None = None,
        caller: str | None = None,
        run: str | None = None,
    ) -> None:
        self.agent = agent
        self.session = session
        self.parent = parent
        self.caller = caller
        self.run = run

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.agent, self.session, self.parent, self.caller, self.run))

    def __repr__(self) -> str:
        said = (f"{fact}={text!r}" for fact, text in self.to_dict().items() if text is not None)
        return f"Scope({', '.join(said)})"

    def within(self, outer: "Scope", parent: str | None = None) -> "Scope":
        """This scope with what it leaves unsaid taken from another, and with this parent."""
        return Scope(
            self.agent or outer.agent,
            self.session or outer.session,
            self.parent or parent,
            self.caller or outer.caller,
            self.run or outer.run,
        )

    def to_dict(self) -> dict[str, str | None]:
        """The facts as a plain dict."""
        return {
            "agent": self.agent,
            "session": self.session,
            "parent": self.parent,
            "caller": self.caller,
            "run": self.run,
        }


NO_SCOPE = Scope()


def check_id(what: str, text: str) -> None:
    """Refuse an id that a database could not find again; `what` says what it names."""
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_ID:
        raise ValueError(f"{what} is text of 1 to {_LONGEST_ID} characters")


class Decision:
    """What a person, or an approver, said about one call.

    It holds for the tool as it was defined and for the arguments as they were
    then, and for nothing else. A call that had asked for input carries the
    `answers`, and the `state` in which its tool left off.
    """

    __slots__ = (
        "answers",
        "approved",
        "arguments_digest",
        "at",
        "by",
        "fingerprint",
        "reason",
        "state",
    )

    def __init__(
        self,
        approved: bool,
        fingerprint: str,
        arguments_digest: str,
        *,
        at: float,
        by: str | None = None,
        reason: str | None = None,
        answers: Mapping[str, Any] | None = None,
        state: Any = None,
    ) -> None:
        self.approved = approved
        self.fingerprint = fingerprint
        self.arguments_digest = arguments_digest
        self.at = at
        self.by = by
        self.reason = reason
        self.answers = answers
        self.state = state

    def __repr__(self) -> str:
        return f"Decision(approved={self.approved}, by={self.by!r}, reason={self.reason!r})"


class _Ids:
    """Ids: a prefix drawn at random, and a counter of fixed width.

    All are of one length, so that none is the beginning of another.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Draw anew; a forked child would otherwise go on with its parent's ids."""
        # Whoever holds it may be interrupted by a signal, whose handler asks for an id too.
        self._lock = threading.RLock()
        self._draw()

    def give(self, call: "Call") -> tuple[str, bool]:
        """The call's id, and whether it has got it just now. From any thread."""
        made = next(self._made, None)
        while made is None:
            # Of the threads that have come to the end, one draws anew and the others go on.
            with self._lock:
                made = next(self._made, None)
                if made is None:
                    self._draw()
        with self._lock:
            new = call._id is None
            call._id = call._id or made
            return call._id, new

    def _draw(self) -> None:
        # One iterator makes the whole id: a thread can't pair an old prefix with a new counter.
        form = f"call_{os.urandom(6).hex()}_%0{_DIGITS}d"
        self._made = map(form.__mod__, range(1, 10**_DIGITS))


_ids = _Ids()
at_fork(_ids.renew)


class Call:
    """A request to run one tool. It is never changed after it is made.

    `arguments` are as they were sent: a dict, JSON text, or None. `id` is ours
    and names this call alone; `provider_id` is what the model called it. Calls
    with the same `idempotency_key` are one call: the first runs, all get its outcome.
    """

    __slots__ = (
        "_id",
        "arguments",
        "decision",
        "idempotency_key",
        "provider_id",
        "scope",
        "tool",
    )

    def __init__(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str | None = None,
        scope: Scope = NO_SCOPE,
        id: str | None = None,
        provider_id: str | None = None,
        decision: Decision | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        self.tool = tool
        self.arguments = arguments
        self.scope = scope
        self.provider_id = provider_id
        self.decision = decision
        self.idempotency_key = idempotency_key
        self._id = id or None

    @property
    def id(self) -> str:
        """Our id, which names this call alone."""
        return self.named()[0]

    def named(self) -> tuple[str, bool]:
        """Our id, and whether it is new: nobody has given it, nor asked for it before."""
        # It is made when first asked for: most calls are never looked up.
        return _ids.give(self) if self._id is None else (self._id, False)

    def replace(self, **changes: Any) -> "Call":
        """The same call, same id, with some facts changed."""
        facts = {name: getattr(self, name) for name in self.__slots__[1:]}
        check_options(Call.replace, changes, (*facts, "id"))
        return Call(**{"id": self.id, **facts, **changes})

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy is the same call, also where nobody has asked for its id yet.
        facts = (self.tool, self.arguments, self.scope, self.id, self.provider_id)
        return Call, (*facts, self.decision, self.idempotency_key)

    def __repr__(self) -> str:
        # Names only: arguments may hold secrets, and reprs end up in logs.
        sent = self.arguments
        names = "…" if isinstance(sent, str) else ", ".join(map(str, sent or ()))
        return f"Call({self.tool}({names}), id={self.id!r})"


class Outcome:
    """How a call ended, or the receipt that it waits.

    `value` is what the function returned, `content` the same as blocks, `error`
    why there is no value, `metadata` what happened on the way.
    """

    __slots__ = ("_content", "_metadata", "call", "error", "seconds", "status", "value")

    def __init__(
        self,
        call: Call,
        status: Status,
        value: Any = None,
        error: CallError | None = None,
        content: tuple[Block, ...] | None = None,
        metadata: dict[str, Any] | None = None,
        seconds: float | None = None,
    ) -> None:
        self.call = call
        self.status = status
        self.value = value
        self.error = error
        self._content = content
        self._metadata = metadata
        self.seconds = seconds

    @property
    def metadata(self) -> dict[str, Any]:
        """What happened on the way: duration, repairs, attempts, cost, where a large one went."""
        if self._metadata is None:
            self._metadata = {}
        if self.seconds is not None:
            self._metadata["duration_ms"] = self.seconds * 1000
        return self._metadata

    @property
    def ok(self) -> bool:
        """Whether the call ran and gave a value."""
        return self.status is Status.OK

    @property
    def content(self) -> tuple[Block, ...]:
        """What the tool showed, as blocks in order; for a failure or a receipt, its message."""
        if self._content is None:
            plain = self.error is None and self.status is not Status.PENDING
            self._content = to_blocks(self.value if plain else self._message)
        return self._content

    @property
    def text(self) -> str:
        """The content's text; for a failure or a receipt, its message for the model."""
        return join_text(self.content) if self.error is None else str(self.error)

    @property
    def _message(self) -> str:
        return str(self.error or CallPending(self.call.tool, self.call.id))

    def unwrap(self) -> Any:
        """The value, or raise what went wrong: the tool's own exception, or our error."""
        if self.status is Status.OK:
            return self.value
        if self.error is None:
            raise CallPending(self.call.tool, self.call.id)
        if isinstance(self.error, ToolFailed) and not self.error.redacted:
            raise self.error.original
        raise self.error

    def to_dict(self) -> dict[str, Any]:
        """A plain form for logs and programs; the arguments are not in it."""
        return {
            "call_id": self.call.id,
            "tool": self.call.tool,
            "status": self.status.value,
            "content": [block.to_dict() for block in self.content],
            "error": None if self.error is None else str(self.error),
            "metadata": self.metadata,
        }

    def __repr__(self) -> str:
        # The text, not the value: secrets are covered there.
        shown = self.text if len(self.text) <= 80 else self.text[:80] + "…"
        return f"Outcome({self.call.tool}, {self.status.value}, {shown!r}, id={self.call.id!r})"


def asked_for(outcome: Outcome) -> InputNeeded | None:
    """The question that a tool ended with instead of a value, if it did."""
    error = outcome.error
    if isinstance(error, ToolFailed) and isinstance(error.original, InputNeeded):
        return error.original
    return None
