"""The state of a run: plain values for what has happened and what comes next."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from wieldy.core.call import Call, Outcome
from wieldy.models.model import Reply, Turn

# All runs share it, because each dict of its own brings the next garbage collection closer.
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Step(StrEnum):
    """The next step of a run."""

    PLAN = "plan"
    ASK = "ask"
    CALL = "call"
    CHECK = "check"
    DONE = "done"
    INTERRUPTED = "interrupted"


class RunState:
    """A run between two steps.

    Attributes:
        step: What comes next.
        turns: The conversation so far, from the system message on.
        round: How many rounds with tools there have been.
        retries: How many times the model was asked again for keys that were missing.
        reply: The model's last answer.
        text: Its visible text.
        calls: The calls in it that are to be run.
        partial: The ids of those whose arguments were not kept, because they held secrets.
        pending: The ids of the calls that wait for a decision.
        answered: The outcomes of the other calls, while some wait.
        judged: Whether the question about a tool was answered, where there is one.
        purpose: What the tool is used for, as that answer has it.
        requests: How many requests were sent.
        usage: The tokens of all requests, as far as the provider counted them.
        limited: Whether the model was told that it has reached a limit.
        spent: What of a budget was used up when the run was last written.
        logs: What programs are told of the calls.
    """

    __slots__ = (
        "answered",
        "calls",
        "judged",
        "limited",
        "logs",
        "partial",
        "pending",
        "purpose",
        "reply",
        "requests",
        "retries",
        "round",
        "spent",
        "step",
        "text",
        "turns",
        "usage",
    )

    def __init__(self) -> None:
        self.step = Step.PLAN
        self.turns: list[Turn] = []
        self.round = 0
        self.retries = 0
        self.reply: Reply | None = None
        self.text = ""
        self.calls: Sequence[Call] = ()
        self.partial: Collection[str] = ()
        self.pending: Sequence[str] = ()
        self.answered: Sequence[Outcome] = ()
        self.judged = False
        self.purpose = ""
        self.requests = 0
        self.limited = False
        self.spent: Mapping[str, Any] = _NOTHING
        self.usage: Mapping[str, int] = _NOTHING
        self.logs: tuple[dict[str, Any], ...] = ()

    @property
    def ended(self) -> bool:
        """Whether there is no next step."""
        return self.step in (Step.DONE, Step.INTERRUPTED)

    def __repr__(self) -> str:
        return f"RunState({self.step.value}, round {self.round}, {len(self.turns)} turns)"


def new_result() -> dict[str, Any]:
    """An empty `full_result_data`, which handlers and programs read."""
    return {"text_result": "", "parsed_result": None, "meta": {}, "errors": [], "extra": {}}
