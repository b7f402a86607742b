"""Explain why a call would run, be asked about or be denied, without running it."""

from dataclasses import dataclass
from typing import Any

from wieldy.core.block import to_text
from wieldy.core.limits.call_limits import LimitState
from wieldy.core.short_text import cut_middle

from .rules import Rule
from .rulings import DecisionName

_MAX_LENGTH = 10_000


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision that a call would get, and the reason.

    Attributes:
        decision: What would happen: `run`, `ask`, `deny` or `dry-run`.
        because: The rule, trait or mode that decides, as a sentence. The ledger and the
            person who is asked get the same sentence.
        matched: Every rule that matches the call, in the order in which rules are applied.
        question: The question that a person would be asked; None if nobody would be asked.
        limits: The limits on calls that hold for the call, and how much of them is used.
    """

    decision: DecisionName
    because: str
    matched: tuple[Rule, ...] = ()
    question: str | None = None
    limits: tuple[LimitState, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON data."""
        return {
            "decision": self.decision,
            "because": self.because,
            "matched": [_rule_data(rule) for rule in self.matched],
            "question": self.question,
            "limits": [limit.to_dict() for limit in self.limits],
        }


def shown_call(tool: str, arguments: Any) -> str:
    """A call as text: the tool, and the arguments as a person may see them."""
    return f"{tool} with {cut_middle(to_text(arguments), _MAX_LENGTH)}" if arguments else tool


def _rule_data(rule: Rule) -> dict[str, Any]:
    holders = {"agent": rule.agent, "session": rule.session, "caller": rule.caller}
    return {
        "id": rule.id,
        "rule": str(rule),
        "verdict": rule.verdict.value,
        "pattern": rule.pattern,
        "where": {name: str(matcher) for name, matcher in rule.where.items()},
        **rule.criteria.to_dict(),
        **{name: value for name, value in holders.items() if value is not None},
        **({} if rule.elicitation else {"elicitation": False}),
        "reason": rule.reason,
    }
