"""Work out once per tool how its calls are judged, by its permission, the rules and the mode."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from wieldy.core.active_call import ActiveCall
from wieldy.core.call import Scope
from wieldy.core.choices import PermissionMode
from wieldy.core.schema.signature import known_values
from wieldy.core.tool import Permission, Tool

from .argument_reach import ArgumentNames
from .modes import Holder, applying_modes
from .rules import Rule, Verdict, rules_concerning

DecisionName = Literal["run", "ask", "deny", "dry-run"]


class Ruling(NamedTuple):
    """The decision about a call, and a sentence with the reason.

    `asks` means that a person's approval would let the call run, even in a mode in which
    nobody is asked.
    """

    decision: DecisionName
    because: str
    asks: bool = False


Judge = Callable[[ActiveCall], Ruling]
NOTHING_HOLDS = Ruling("run", "nothing holds it back")
# A rule depends on whether the call's session is untrusted, which has to be found out first.
SESSION_UNKNOWN = Ruling("deny", "it is not known whether a result from outside is in the session")
# Whether a rule holds for a scope, where that differs; whether it matches arguments; whether it
# is about sessions with a result from outside, or about those without; and what it says.
_RuleVerdict = tuple[
    Callable[[Scope], bool] | None,
    Callable[[Mapping[str, Any], ArgumentNames], bool],
    Callable[[Sequence[bool]], bool] | None,
    Ruling,
]
_VERDICTS: dict[Verdict, DecisionName] = {
    Verdict.DENY: "deny",
    Verdict.ASK: "ask",
    Verdict.ALLOW: "run",
}
_EVERY = tuple(Verdict)
# Reading a member of an enum takes as long as all other checks of a plain tool together.
_AUTO, _DENY = Permission.AUTO, Permission.DENY
_WEIGHTS = {"run": 0, "ask": 1, "dry-run": 2, "deny": 4}
_WITHOUT_ASKING = 3


def judge_by_modes(
    tool: Tool, rules: Iterable[Rule], table: Mapping[Holder, PermissionMode]
) -> Judge | None:
    """The judge of a tool's calls, by the modes that apply to each; None if every call may run."""
    found = list(rules)
    modes = {*table.values(), *applying_modes(table, Scope())}
    judges = {mode: judge_by_mode(tool, found, mode) for mode in modes}
    if not any(judges.values()):
        return None

    def judge(active: ActiveCall) -> Ruling:
        # A person's answer stays valid in a mode in which nobody would be asked any more.
        answered = active.was_answered
        heaviest = NOTHING_HOLDS
        for mode in applying_modes(table, active.call.scope):
            judge_one = judges[mode]
            ruling = NOTHING_HOLDS if judge_one is None else judge_one(active)
            if ruling is SESSION_UNKNOWN:
                return ruling
            if heaviest is NOTHING_HOLDS or _ruling_weight(ruling, answered) > _ruling_weight(
                heaviest, answered
            ):
                heaviest = ruling
        return heaviest

    return judge


def judge_by_mode(tool: Tool, rules: Iterable[Rule], mode: PermissionMode) -> Judge | None:
    """The judge of a tool's calls in one mode, or None if nothing holds them back.

    The tool's own DENY comes first, then deny, ask and allow rules, then the tool's own
    permission. For a tool on hold, only a denial is stronger than the hold. The mode has the
    last word on the result.
    """
    settled = _settled_ruling(tool, mode)
    if settled.decision == "deny":
        return lambda active: settled
    otherwise = _in_mode(tool, mode, settled)
    concerning = rules_concerning(rules, tool)
    if not concerning and otherwise is NOTHING_HOLDS:
        return None
    heeded = _heeded_verdicts(tool, mode)
    verdicts = [
        (
            None if rule.always else rule.holds_for,
            rule.matches,
            None if rule.criteria.untrusted is None else rule.fits_marks,
            _in_mode(tool, mode, _ruling_of(rule)),
        )
        for rule in concerning
        if rule.verdict in heeded and _means_tool(rule, tool)
    ]
    if not verdicts and otherwise is NOTHING_HOLDS:
        return None
    return _judge_of(tool, verdicts, otherwise)


def _judge_of(tool: Tool, verdicts: Sequence[_RuleVerdict], otherwise: Ruling) -> Judge:
    names = tool.argument_names
    known = known_values(tool.function)

    def judge(active: ActiveCall) -> Ruling:
        values = active.values
        if not known.keys() <= values.keys():
            # Defaults and bound values of the function are matched like arguments that were sent.
            values = {**known, **values}
        for holds_for, matches, fits_marks, ruling in verdicts:
            if holds_for is not None and not holds_for(active.call.scope):
                continue
            if not matches(values, names):
                continue
            if fits_marks is None:
                return ruling
            if active.tainted is None:
                return SESSION_UNKNOWN
            if fits_marks(active.tainted):
                return ruling
        return otherwise

    return judge


def matching_rules(
    tool: Tool,
    rules: Iterable[Rule],
    scope: Scope,
    values: Mapping[str, Any],
    tainted: Sequence[bool],
) -> tuple[Rule, ...]:
    """Every rule that matches this call, in the order in which the rules are applied."""
    values = {**known_values(tool.function), **values}
    return tuple(
        rule
        for rule in rules_concerning(rules, tool)
        if _means_tool(rule, tool)
        and rule.holds_for(scope)
        and rule.fits_marks(tainted)
        and rule.matches(values, tool.argument_names)
    )


def never_runs(
    tool: Tool, rules: Iterable[Rule], modes: Iterable[PermissionMode], scope: Scope
) -> bool:
    """Whether every call of a tool in this scope is denied, whatever its arguments are."""
    heeded = [rule for rule in rules_concerning(rules, tool) if rule.holds_for(scope)]
    sure = [rule for rule in heeded if not rule.where and rule.criteria.untrusted is None]
    every = {rule.verdict for rule in sure if _means_tool(rule, tool)}
    some = {rule.verdict for rule in heeded if _means_tool(rule, tool)}
    if Verdict.DENY in every:
        return True
    for mode in modes:
        settled = _settled_ruling(tool, mode)
        asked = settled.decision == "ask" and (tool.hold is not None or Verdict.ALLOW not in some)
        if settled.decision == "deny":
            return True
        if mode == "dont-ask" and (asked or Verdict.ASK in every):
            return True
    return False


def _ruling_weight(ruling: Ruling, answered: bool) -> int:
    """How strict a ruling is, compared with others."""
    if ruling.decision == "deny" and ruling.asks:
        return _WEIGHTS["ask"] if answered else _WITHOUT_ASKING
    return _WEIGHTS[ruling.decision]


def _ruling_of(rule: Rule) -> Ruling:
    decision = _VERDICTS[rule.verdict]
    return Ruling(decision, rule.reason or f"the rule {rule}", asks=decision == "ask")


def _means_tool(rule: Rule, tool: Tool) -> bool:
    return rule.fingerprints is None or tool.fingerprint in rule.fingerprints


def _heeded_verdicts(tool: Tool, mode: PermissionMode) -> tuple[Verdict, ...]:
    """The kinds of rules that can change the ruling of the tool itself."""
    if tool.hold is not None:
        return (Verdict.DENY,)
    return (Verdict.DENY, Verdict.ALLOW) if mode == "bypass" else _EVERY


def _settled_ruling(tool: Tool, mode: PermissionMode) -> Ruling:
    """The ruling by the tool itself and the mode, for a call that no rule matches."""
    permission = tool.permission
    if permission is _DENY:
        return Ruling("deny", "the tool is switched off")
    if mode == "read-only" and not tool.read_only:
        return Ruling("deny", "in the mode read-only, only read-only tools may run")
    if tool.hold is not None:
        return Ruling("ask", tool.hold.reason, asks=True)
    if permission is _AUTO:
        return NOTHING_HOLDS
    if mode == "bypass":
        return Ruling("run", "the mode bypass asks about nothing")
    if mode == "accept-edits" and not tool.is_destructive and not tool.is_open_world:
        return Ruling("run", "the mode accept-edits runs what is not destructive nor open-world")
    because = tool.asks_because or "the tool asks for confirmation"
    if mode == "accept-edits":
        because += f", and the mode accept-edits does not run what is {_risky_traits(tool)}"
    return Ruling("ask", because, asks=True)


def _risky_traits(tool: Tool) -> str:
    """The traits of a tool for which somebody is asked, and whether they were declared."""
    traits = {
        "destructive": (tool.is_destructive, tool.destructive),
        "open-world": (tool.is_open_world, tool.open_world),
    }
    named = [
        name if said else f"{name} for all that was declared"
        for name, (counts, said) in traits.items()
        if counts
    ]
    return " and ".join(named)


def _in_mode(tool: Tool, mode: PermissionMode, ruling: Ruling) -> Ruling:
    """The ruling after the mode has been applied to it."""
    if mode == "dont-ask" and ruling.decision == "ask":
        return Ruling("deny", f"in the mode dont-ask nobody is asked: {ruling.because}", asks=True)
    if mode == "dry-run" and ruling.decision in ("run", "ask") and not tool.read_only:
        would = "it would run" if ruling.decision == "run" else "a person would be asked"
        because = f"in the mode dry-run, only read-only tools run; without it {would}: "
        return Ruling("dry-run", because + ruling.because)
    return ruling
