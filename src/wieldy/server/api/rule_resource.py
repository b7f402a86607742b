"""Permission: rules, permission modes, and tools that differ from the lock."""

import asyncio
import re
import time
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from wieldy.core.choices import PermissionMode
from wieldy.core.errors import NotKept
from wieldy.core.permission.rules import Rule
from wieldy.lock.lock_review import find_lock_state
from wieldy.store.stored_rules import StandingRule

from .answer_shapes import AnswerShape, Input, JsonValue, Moment, PlainText
from .api_operations import Asked, operation
from .api_problems import not_found, wrong_value

Verdict = Literal["allow", "ask", "deny"]
_SPECIAL = re.compile(r"[*?\[]")
_NAME = Field(None, min_length=1, max_length=500)


class RuleFacts(AnswerShape):
    """A rule."""

    id: PlainText | None = Field(description="Null for a rule of the program or its file.")
    verdict: Verdict
    pattern: PlainText
    where: dict[str, JsonValue]
    criteria: dict[str, JsonValue]
    elicitation: bool = Field(description="Whether a client's own user may be asked.")
    reason: PlainText | None
    agent: PlainText | None
    session: PlainText | None
    caller: PlainText | None
    by: PlainText | None
    made_at: Moment | None
    expires_at: Moment | None
    dead: PlainText | None = Field(description="Why it no longer holds.")


class RuleList(AnswerShape):
    """Rules, those of the program first."""

    rules: list[RuleFacts]


class NewRule(Input):
    """A standing rule to make."""

    verdict: Verdict
    pattern: str | None = Field(
        None, min_length=1, max_length=500, description='A name, or a pattern such as "file_*".'
    )
    tool: str | None = Field(
        None, min_length=1, max_length=200, description="In place of a pattern, exactly this tool."
    )
    where: dict[str, Any] | None = Field(
        None, description="Conditions on arguments by name; a text is a pattern."
    )
    equals: dict[str, str | int | float | bool | None] | None = Field(
        None, description="Arguments that must be exactly these, by name."
    )
    reason: str | None = Field(None, max_length=10_000)
    expires_in: float | None = Field(None, gt=0, le=10**9, description="Seconds.")
    expires_at: AwareDatetime | None = Field(None, description="In place of seconds, a moment.")
    agent: str | None = _NAME
    session: str | None = _NAME
    caller: str | None = _NAME
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    trusted: bool | None = None
    untrusted: bool | None = None
    elicitation: bool | None = Field(
        None, description="For `ask`: whether an MCP client may put the question to its own user."
    )
    tags: list[str] | None = None
    group: str | None = Field(None, max_length=500)
    source: str | None = Field(None, max_length=500)


class Removal(AnswerShape):
    """What was removed."""

    removed: str


class ModeFacts(AnswerShape):
    """A permission mode, and the calls that it is for."""

    mode: PermissionMode
    agent: PlainText | None
    session: PlainText | None


class ModeList(AnswerShape):
    """The permission modes that are set. Of those that apply to a call, the strictest wins."""

    modes: list[ModeFacts]


class NewMode(Input):
    """A permission mode to set."""

    mode: PermissionMode | None = Field(description="Null takes back the one that was set.")
    agent: str | None = _NAME
    session: str | None = _NAME


class ChangedTool(AnswerShape):
    """A tool that differs from the lock."""

    tool: PlainText
    source: PlainText
    state: Literal["changed", "new"] = Field(description="`new` is from outside and not locked.")
    blocked: bool = Field(description="Whether it can't be called; otherwise see `on_change`.")
    reason: PlainText = Field(description="What differs, and what to do.")
    diff: PlainText = Field(description="The lines of the definition that differ, with context.")


class LockChangeList(AnswerShape):
    """The tools that differ from the lock."""

    changes: list[ChangedTool]


@operation("GET", "/rules", RuleList, roles=("approve",))
async def list_rules(asked: Asked) -> RuleList:
    """List the rules that decide on calls."""
    own = [_describe_rule(rule) for rule in asked.box.rules]
    standing = await asked.box.standing.list() if asked.box.recorded else []
    return RuleList(rules=[*own, *map(_describe_rule, standing)])


@operation("POST", "/rules", RuleFacts, body=NewRule, roles=("administer",), statuses=(201,))
async def make_rule(asked: Asked) -> RuleFacts:
    """Make a standing rule, which holds for every process on the store."""
    wanted: NewRule = asked.body
    told = {"verdict", "pattern", "tool", "where", "equals", "expires_at", "expires_in"}
    given = wanted.model_dump(exclude_none=True, exclude=told)
    if wanted.verdict == "allow" and wanted.reason is not None:
        raise wrong_value("A rule that allows has no reason: nobody is told it.")
    try:
        made = await getattr(asked.store.standing, wanted.verdict)(
            _read_pattern(wanted),
            _read_where(wanted),
            expires_in=_read_expiry(wanted),
            by=asked.name,
            **given,
        )
    except (TypeError, ValueError) as error:
        raise wrong_value(str(error)) from error
    return _describe_rule(made)


@operation("DELETE", "/rules/{rule_id}", Removal, roles=("administer",))
async def remove_rule(asked: Asked) -> Removal:
    """Take a standing rule back."""
    try:
        await asked.store.standing.remove(asked.part("rule_id"))
    except NotKept:
        raise not_found("standing rule", "GET /api/rules") from None
    return Removal(removed=asked.part("rule_id"))


@operation("GET", "/modes", ModeList, roles=("approve",))
async def list_modes(asked: Asked) -> ModeList:
    """List the permission modes that are set."""
    found = asked.box.modes_in_force
    return ModeList(
        modes=[
            ModeFacts(mode=mode, agent=agent, session=session)
            for (agent, session), mode in found.items()
        ]
    )


@operation("PUT", "/modes", ModeList, body=NewMode, roles=("administer",))
async def set_mode(asked: Asked) -> ModeList:
    """Set the permission mode of all calls, or of those of an agent or a session."""
    wanted: NewMode = asked.body

    def change() -> None:
        asked.box.set_mode(wanted.mode, wanted.agent, wanted.session, by=asked.name)

    # The change is in the ledger when this returns, so it waits for the store.
    await asyncio.to_thread(change)
    found: ModeList = await list_modes.run(asked)
    return found


@operation("GET", "/lock-changes", LockChangeList, roles=("approve",))
async def list_lock_changes(asked: Asked) -> LockChangeList:
    """List the tools that differ from the lock, with the lines that differ."""
    review = asked.box.review
    states = ((tool, find_lock_state(review, tool)) for tool in asked.box.all_tools())
    return LockChangeList(
        changes=[
            ChangedTool(
                tool=tool.name,
                source=tool.source,
                state=found.state,
                blocked=tool.hold is not None and not tool.hold.asks,
                reason=found.reason or "",
                diff=found.diff,
            )
            for tool, found in states
            if found.state in ("changed", "new")
        ]
    )


def _read_pattern(wanted: NewRule) -> str | None:
    if wanted.tool is None:
        return wanted.pattern
    if wanted.pattern is not None:
        raise wrong_value("A rule is for one `tool` or for a `pattern`, not for both.")
    # A tool's name may hold what means something in a pattern.
    return _SPECIAL.sub(r"[\g<0>]", wanted.tool)


def _read_where(wanted: NewRule) -> dict[str, Any] | None:
    equals = wanted.equals or {}
    both = equals.keys() & (wanted.where or {}).keys()
    if both:
        raise wrong_value(f"{', '.join(both)}: an argument is in `where` or in `equals`.")
    exact = {
        name: re.compile(re.escape(value)) if isinstance(value, str) else value
        for name, value in equals.items()
    }
    return {**(wanted.where or {}), **exact} or None


def _read_expiry(wanted: NewRule) -> float | None:
    if wanted.expires_at is None:
        return wanted.expires_in
    left = wanted.expires_at.timestamp() - time.time()
    if wanted.expires_in is not None or left <= 0:
        raise wrong_value("`expires_at` is in the future, and in place of `expires_in`.")
    return left


def _describe_rule(rule: Rule | StandingRule) -> RuleFacts:
    verdict = rule.verdict if isinstance(rule, StandingRule) else rule.verdict.value
    shared = ("id", "pattern", "reason", "agent", "session", "caller", "expires_at")
    stored = {name: getattr(rule, name, None) for name in ("by", "made_at", "dead")}
    return RuleFacts.model_validate(
        {
            "verdict": verdict,
            "where": {name: str(matcher) for name, matcher in rule.where.items()},
            "criteria": rule.criteria.to_dict(),
            "elicitation": rule.elicitation,
            **{name: getattr(rule, name) for name in shared},
            **stored,
        }
    )
