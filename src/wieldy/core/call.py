"""The values that travel: a call, the decision on it, and its outcome."""

import os
import re
import threading
from collections.abc import Mapping
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from .block import Block, Image, join_text, to_blocks
from .errors import CallError, CallPending, InputNeeded, ToolFailed
from .forking import at_fork
from .names import check_options
from .short_text import cut_text

_MAX_ID = 500
_DIGITS = 12


class Status(StrEnum):
    """How a call stands. Every status except `PENDING` is final."""

    OK = "ok"
    ERROR = "error"
    PENDING = "pending"
    DENIED = "denied"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class Around(NamedTuple):
    """Whose a call is that other calls are nested in: what rules, modes and marks go by."""

    agent: str | None
    session: str | None
    caller: str | None


class Scope:
    """On whose behalf a call is made.

    Args:
        agent: The agent whose view makes the call.
        session: The conversation, or other unit of work, that the call belongs to.
        parent: The id of the call whose tool makes this call.
        caller: Who asks: the name of a token or of a person.
        run: The run of an agent that the call is part of.
        around: Whose the calls are that this one is nested in, where that differs, the nearest
            first. What restricts one of them restricts this call too. It is set by the toolbox.

    Example:
        `Call("search", {"query": "tea"}, Scope(agent="researcher"))`
    """

    __slots__ = ("agent", "around", "caller", "parent", "run", "session")

    def __init__(
        self,
        agent: str | None = None,
        session: str | None = None,
        parent: str | None = None,
        caller: str | None = None,
        run: str | None = None,
        around: tuple[Around, ...] = (),
    ) -> None:
        self.agent = agent
        self.session = session
        self.parent = parent
        self.caller = caller
        self.run = run
        self.around = around

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope) and _scope_fields(self) == _scope_fields(other)

    def __hash__(self) -> int:
        return hash(_scope_fields(self))

    def __repr__(self) -> str:
        said = (f"{fact}={text!r}" for fact, text in self.to_dict().items() if text is not None)
        return f"Scope({', '.join(said)})"

    def within(self, outer: "Scope", parent: str | None = None) -> "Scope":
        """This scope, with each empty field taken from another scope, and with this parent."""
        return Scope(
            self.agent or outer.agent,
            self.session or outer.session,
            self.parent or parent,
            self.caller or outer.caller,
            self.run or outer.run,
            _join_around(self.around, outer.around),
        )

    def nested_in(self, outer: "Scope", parent: str) -> "Scope":
        """This scope, for a call nested in one of another scope, whose restrictions hold too."""
        nested = self.within(outer, parent)
        whose = Around(outer.agent, outer.session, outer.caller)
        if whose != (nested.agent, nested.session, nested.caller):
            nested.around = _join_around((whose,), nested.around)
        return nested

    def on_the_way(self) -> tuple[Around, ...]:
        """Whose the call is, and whose the calls are that it is nested in, the nearest first."""
        return _join_around((Around(self.agent, self.session, self.caller),), self.around)

    def sessions(self) -> tuple[str | None, ...]:
        """The sessions on the way to the call, its own first."""
        if not self.around:
            return (self.session or None,)
        return tuple(dict.fromkeys(each.session or None for each in self.on_the_way()))

    def callers(self) -> tuple[str | None, ...]:
        """Everybody on the way to the call, who asks for it first."""
        if not self.around:
            return (self.caller,)
        return tuple(dict.fromkeys(each.caller for each in self.on_the_way()))

    def to_dict(self) -> dict[str, str | None]:
        """The fields as a plain dict."""
        return {
            "agent": self.agent,
            "session": self.session,
            "parent": self.parent,
            "caller": self.caller,
            "run": self.run,
        }


_scope_fields = attrgetter("agent", "session", "parent", "caller", "run", "around")
NO_SCOPE = Scope()


def _join_around(nearer: tuple[Around, ...], further: tuple[Around, ...]) -> tuple[Around, ...]:
    return tuple(dict.fromkeys((*nearer, *further))) if nearer and further else nearer or further


def read_around(data: Any) -> tuple[Around, ...]:
    """Whose the calls around are, from JSON data."""
    return tuple(Around(*each) for each in data or ())


def check_id(what: str, text: str) -> None:
    """Refuse an id that a database could not find again; `what` is the name for the message."""
    if not isinstance(text, str) or not 0 < len(text) <= _MAX_ID:
        raise ValueError(f"{what} is text of 1 to {_MAX_ID} characters")


class Decision:
    """What a person, or an approver, decided about one call.

    It is valid only for the tool as it was defined then, and for the arguments of then.

    Attributes:
        approved: Whether the call may run.
        fingerprint: The fingerprint of the tool's definition.
        arguments_digest: The digest of the arguments.
        at: When it was decided, in seconds since the epoch.
        by: Who decided, if they said.
        reason: Why, if they said.
        answers: The answers, if the tool had asked for input.
        state: The state in which such a tool had stopped.
        claims: Digests, by name, of the claims of the caller that the call was made with.
    """

    __slots__ = (
        "answers",
        "approved",
        "arguments_digest",
        "at",
        "by",
        "claims",
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
        claims: Mapping[str, str] | None = None,
    ) -> None:
        self.claims: Mapping[str, str] = claims or {}
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
    """Makes ids: a random prefix and a counter of fixed width.

    All ids have the same length, so that none is the beginning of another.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Draw a new prefix; a forked child would otherwise repeat its parent's ids."""
        # Reentrant: a signal handler may ask for an id while its own thread holds the lock.
        self._lock = threading.RLock()
        self._draw_prefix()

    def give(self, call: "Call") -> tuple[str, bool]:
        """The call's id, and whether the call got it just now. Safe from any thread."""
        made = next(self._made, None)
        while made is None:
            # If several threads find the counter used up, only the first draws a new prefix.
            with self._lock:
                made = next(self._made, None)
                if made is None:
                    self._draw_prefix()
        with self._lock:
            new = call._id is None
            call._id = call._id or made
            return call._id, new

    def _draw_prefix(self) -> None:
        # One iterator makes the whole id: a thread can't pair an old prefix with a new counter.
        form = f"call_{os.urandom(6).hex()}_%0{_DIGITS}d"
        self._made = map(form.__mod__, range(1, 10**_DIGITS))


_ids = _Ids()
at_fork(_ids.renew)


class Call:
    """A request to run one tool. It is never changed after it is made.

    Args:
        tool: The tool's name.
        arguments: The arguments as they were sent: a mapping, JSON text, or None.
        scope: On whose behalf the call is made.
        id: Our id, which names this call alone; by default a new one.
        provider_id: The id that the model gave the call.
        decision: What was decided about the call. It is set by the toolbox.
        idempotency_key: A key that makes repeated calls one: the first runs, and all get its
            outcome.

    Example:
        `Call("weather", {"city": "Oslo"})`
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

    @property
    def was_named(self) -> bool:
        """Whether the call has its id already: it was given, or somebody has asked for it."""
        return self._id is not None

    def named(self) -> tuple[str, bool]:
        """Our id, and whether it is new: it was neither given nor asked for before."""
        # The id is made when it is first asked for, because most calls are never looked up.
        return _ids.give(self) if self._id is None else (self._id, False)

    def replace(self, **changes: Any) -> "Call":
        """Make the same call, with the same id, from other fields.

        Args:
            **changes: The fields to change, by the names that `Call` takes.

        Returns:
            The new call.

        Raises:
            TypeError: A name is not one of those.
        """
        facts = {name: getattr(self, name) for name in self.__slots__[1:]}
        check_options(Call.replace, changes, (*facts, "id"))
        return Call(**{"id": self.id, **facts, **changes})

    def nested_in(self, outer: "Call") -> "Call":
        """The same call, made inside another one.

        Args:
            outer: The call around it.

        Returns:
            A call with the same id, whose scope is within that of the outer call.

        Example:
            `nested = call.nested_in(context.call)`
        """
        return Call(
            self.tool,
            self.arguments,
            self.scope.nested_in(outer.scope, outer.id),
            self.id,
            self.provider_id,
            self.decision,
            self.idempotency_key,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy is the same call, so the id is made before the call is copied.
        facts = (self.tool, self.arguments, self.scope, self.id, self.provider_id)
        return Call, (*facts, self.decision, self.idempotency_key)

    def __repr__(self) -> str:
        # Only the names are shown: arguments may hold secrets, and reprs end up in logs.
        sent = self.arguments
        names = "…" if isinstance(sent, str) else ", ".join(map(str, sent or ()))
        return f"Call({self.tool}({names}), id={self.id!r})"


class Outcome:
    """How a call ended, or the receipt of a call that waits.

    Args:
        call: The call.
        status: How it stands.
        value: What the function returned.
        error: Why there is no value.
        content: What the tool showed; by default the value as blocks.
        metadata: What happened on the way.
        seconds: How long the call took.

    Example:
        `outcome.value if outcome.ok else outcome.text`
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
        """Facts about the execution, such as `duration_ms`, `repairs`, `attempts` and `cost`."""
        if self._metadata is None:
            self._metadata = {}
        if self.seconds is not None:
            self._metadata["duration_ms"] = self.seconds * 1000
        return self._metadata

    @property
    def ok(self) -> bool:
        """Whether the call ran and returned a value."""
        return self.status is Status.OK

    @property
    def content(self) -> tuple[Block, ...]:
        """What the tool showed, as blocks in order; for a failure or a receipt, its message."""
        if self._content is None:
            self._content = self.peek_content()
        return self._content

    def peek_content(self) -> tuple[Block, ...]:
        """The content, without keeping it: whether a tool showed blocks itself stays known."""
        if self._content is not None:
            return self._content
        plain = self.error is None and self.status is not Status.PENDING
        return to_blocks(self.value if plain else self._error_message)

    @property
    def text(self) -> str:
        """The text of the content; for a failure or a receipt, its message for the model."""
        return join_text(self.content) if self.error is None else str(self.error)

    @property
    def _error_message(self) -> str:
        return str(self.error or CallPending(self.call.tool, self.call.id))

    def _repr_html_(self) -> str:
        """The outcome for a notebook: how it stands, its text, and its pictures."""
        from .visible_text import html_table, html_text  # noqa: PLC0415

        took = "" if self.seconds is None else f"{self.seconds * 1000:.1f} ms"
        head = html_table((), [(self.call.tool, self.status.value, took)])
        shown = [
            f'<img src="data:{block.mime_type};base64,{block.data}">'
            if isinstance(block, Image) and _is_picture(block)
            else html_text(join_text([block]) or repr(block))
            for block in self.content
        ]
        return head + "".join(shown)

    def unwrap(self) -> Any:
        """Return the value, or raise what went wrong.

        Returns:
            What the function returned.

        Raises:
            CallPending: The call waits for a decision.
            CallError: The call was refused, stopped, or did not run.
            Exception: The exception that the tool raised, if it contains no secret.

        Example:
            `weather = (await box.call("weather", {"city": "Oslo"})).unwrap()`
        """
        if self.status is Status.OK:
            return self.value
        if self.error is None:
            raise CallPending(self.call.tool, self.call.id)
        if isinstance(self.error, ToolFailed) and not self.error.redacted:
            raise self.error.original
        raise self.error

    def to_dict(self) -> dict[str, Any]:
        """Convert the outcome for logs and programs.

        Returns:
            Plain data with `call_id`, `tool`, `status`, `content`, `error` and `metadata`. The
            arguments are not in it.
        """
        return {
            "call_id": self.call.id,
            "tool": self.call.tool,
            "status": self.status.value,
            "content": [block.to_dict() for block in self.content],
            "error": None if self.error is None else str(self.error),
            "metadata": self.metadata,
        }

    def __repr__(self) -> str:
        # The text is shown and not the value, because secrets are covered in the text.
        shown = cut_text(self.text, 80)
        return f"Outcome({self.call.tool}, {self.status.value}, {shown!r}, id={self.call.id!r})"


def asked_for(outcome: Outcome) -> InputNeeded | None:
    """The `InputNeeded` that the tool raised, if the call ended with one."""
    error = outcome.error
    if isinstance(error, ToolFailed) and isinstance(error.original, InputNeeded):
        return error.original
    return None


def nested_run_id(call_id: str) -> str:
    """The id of an agent's run inside a call: always the same, so that the call finds it again."""
    import hashlib  # noqa: PLC0415

    return hashlib.sha256(f"subagent {call_id}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_picture(block: Image) -> bool:
    """Whether a picture can be put into a page: neither its kind nor its data can end the tag."""
    return block.mime_type in _PICTURES and _BASE64.fullmatch(block.data) is not None


_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*", re.ASCII)
