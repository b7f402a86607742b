"""Rules and the state of a toolbox as plain JSON, and back."""

import math
import re
from collections.abc import Mapping
from typing import Any

from wieldy.core.bounded_json import check_text_depth
from wieldy.core.registry import BASIC, Registry

from .argument_reach import LISTS
from .conditions import Matcher
from .criteria import NAMES as CRITERIA
from .criteria import Criteria
from .rules import Rule, Rules, Verdict

VERSION = 1
_KEYS = ("version", "active_groups", "rules")
_TEXTS = ("pattern", "reason", "agent", "session", "caller")
_RULE_KEYS = ("verdict", "where", "elicitation", *_TEXTS, *CRITERIA)
_REGEX_KEYS = {"regex", "flags"}
_NO_GROUP = re.compile(r"\\.|[^()]", re.DOTALL)


def export_state(registry: Registry, rules: Rules) -> dict[str, Any]:
    """The active groups and the rules; `ValueError` if a rule can't be written as JSON."""
    active = [group.name for group in registry.groups() if group.active and group.name != BASIC]
    return {
        "version": VERSION,
        "active_groups": active,
        "rules": [export_rule(rule) for rule in rules],
    }


def restore_state(registry: Registry, rules: Rules, state: Any, strict: bool) -> None:
    """Replace groups and rules with those of a state; `ValueError` names what is wrong.

    Unless `strict`, unknown keys and groups are ignored.
    """
    _check_keys(state, strict)
    active = _read_texts(state.get("active_groups", []), "active_groups")
    if not isinstance(state["rules"], list):
        raise ValueError("rules must be a list")
    made = [import_rule(each, f"rules[{n}]", strict) for n, each in enumerate(state["rules"])]
    if not strict:
        active = [name for name in active if registry.group(name) is not None]
    try:
        registry.switch_to([name for name in active if name != BASIC])
    except ValueError as error:
        raise ValueError(f"active_groups: {error}") from None
    rules.replace(made)


def export_rule(rule: Rule) -> dict[str, Any]:
    """A rule as JSON; `ValueError` if it has a function as a condition."""
    try:
        where = export_where(rule.where)
    except ValueError as error:
        raise ValueError(f"the rule {rule} can't be exported: {error}") from None
    return {
        "verdict": rule.verdict.value,
        "pattern": rule.pattern,
        "where": where,
        "reason": rule.reason,
        "agent": rule.agent,
        "session": rule.session,
        # Keys that an earlier version does not know are written only if they are set.
        **({} if rule.caller is None else {"caller": rule.caller}),
        **({} if rule.elicitation else {"elicitation": False}),
        **rule.criteria.to_dict(),
    }


def import_rule(data: Any, place: str, strict: bool = True) -> Rule:
    """Read a rule from JSON; `ValueError` names the place that is wrong."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{place} must be an object")
    unknown = [key for key in data if key not in _RULE_KEYS]
    if strict and unknown:
        raise ValueError(f"{place} has the unknown key {unknown[0]!r}")
    if data.get("verdict") not in [verdict.value for verdict in Verdict]:
        raise ValueError(f"{place}.verdict must be allow, ask or deny")
    for key in _TEXTS:
        if not isinstance(data.get(key), str if key == "pattern" else str | None):
            raise ValueError(f"{place}.{key} must be text")
    try:
        where = import_where(data.get("where", {}))
    except ValueError as error:
        raise ValueError(f"{place}.where: {error}") from None
    agent, session, caller = (data.get(name) for name in ("agent", "session", "caller"))
    try:
        criteria = Criteria.from_dict({name: data[name] for name in CRITERIA if name in data})
        made = Verdict(data["verdict"]), data["pattern"], where, data.get("reason")
        return Rule(
            *made,
            agent=agent,
            session=session,
            caller=caller,
            criteria=criteria,
            elicitation=data.get("elicitation"),
        )
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def export_where(where: Mapping[str, Matcher]) -> dict[str, Any]:
    """The conditions of a rule as JSON; a regular expression becomes `{"regex": …}`."""
    for name in where:
        if not isinstance(name, str):
            raise ValueError(f"the argument {name!r} is not named by text")
    return {name: _export_matcher(matcher, name) for name, matcher in where.items()}


def import_where(where: Any) -> dict[str, Matcher]:
    """Read the conditions of a rule from JSON."""
    if not isinstance(where, Mapping):
        raise ValueError("it must be an object")
    return {name: _import_matcher(matcher, name) for name, matcher in where.items()}


def _export_matcher(matcher: Any, name: str) -> Any:
    if matcher is None or isinstance(matcher, bool | int | str):
        return matcher
    if isinstance(matcher, float) and math.isfinite(matcher):
        return matcher
    if isinstance(matcher, re.Pattern) and isinstance(matcher.pattern, str):
        return {"regex": matcher.pattern, "flags": matcher.flags}
    if isinstance(matcher, LISTS) and not callable(matcher):
        return [_export_matcher(part, name) for part in matcher]
    raise ValueError(
        f"what {name!r} is compared with is a {type(matcher).__name__}, which JSON can't hold. "
        "Texts, numbers, booleans, None, lists of them and regular expressions can be kept"
    )


def _import_matcher(matcher: Any, name: str) -> Any:
    if isinstance(matcher, Mapping):
        return _import_regex(matcher, name)
    if isinstance(matcher, list):
        return [_import_matcher(part, name) for part in matcher]
    if matcher is None or isinstance(matcher, bool | int | float | str):
        return matcher
    raise ValueError(f"{name!r} is compared with a {type(matcher).__name__}, which is not JSON")


def _import_regex(data: Mapping[str, Any], name: str) -> re.Pattern[str]:
    if "regex" not in data or not data.keys() <= _REGEX_KEYS:
        raise ValueError(f'{name!r}: an object must be {{"regex": …, "flags": …}}')
    if not isinstance(data["regex"], str):
        raise ValueError(f"{name!r}: the regex must be text")
    try:
        # The compiler calls itself for each group in a group.
        check_text_depth(_NO_GROUP.sub("", data["regex"]).replace("(", "[").replace(")", "]"))
        return re.compile(data["regex"], data.get("flags", 0) & ~re.DEBUG)
    except (re.error, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name!r}: the regex can't be read ({error})") from None


def _check_keys(state: Any, strict: bool) -> None:
    if not isinstance(state, Mapping):
        raise ValueError(f"a state is an object with {', '.join(_KEYS)}")
    missing = [key for key in _KEYS if key not in state]
    if missing:
        raise ValueError(f"the state has no {missing[0]}")
    if type(state["version"]) is not int or state["version"] != VERSION:
        raise ValueError(f"version must be {VERSION}, not {state['version']!r}")
    unknown = [key for key in state if key not in _KEYS]
    if strict and unknown:
        raise ValueError(f"the state has the unknown key {unknown[0]!r}")


def _read_texts(data: Any, place: str) -> list[str]:
    if not isinstance(data, list) or not all(isinstance(each, str) for each in data):
        raise ValueError(f"{place} must be a list of texts")
    return data
