"""Rules: which calls are allowed, asked about or denied, by tool, arguments and who asks."""

import fnmatch
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

from typing_extensions import Unpack

from wieldy.core.call import Around, Scope, check_id
from wieldy.core.names import check_options, provider_name
from wieldy.core.tool import Tool

from .argument_reach import PLAIN, ArgumentNames
from .conditions import Matcher, compile_matcher, reading_matches, readings_match
from .criteria import NO_CRITERIA, Criteria, RuleOptions


class Verdict(Enum):
    """What a rule says. The order is the order in which rules count."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


_RANKS = {verdict: rank for rank, verdict in enumerate(Verdict)}
_OPTIONS = frozenset(RuleOptions.__annotations__)
_ANYBODY = (None, None, None, None)
EVERY_NAME = "*"
_WILD = re.compile(r"[*?[]")


class Rule:
    """One verdict on the tools and arguments that match.

    A rule that restricts matches if any reading of an argument matches; a rule that allows
    matches only if every reading does. So a list, or a path that can be read in two ways,
    never slips past a denial nor into a permission.

    A rule may be limited to one agent, session or caller, to a time, and to tools with certain
    fingerprints. `id` is that of a stored rule. With `elicitation=False`, a rule that asks wants an
    answer of somebody else than the user of the MCP client that makes the call.
    """

    __slots__ = (
        "_name",
        "_names_one",
        "_restricts",
        "_where",
        "agent",
        "caller",
        "criteria",
        "elicitation",
        "expires_at",
        "fingerprints",
        "id",
        "pattern",
        "reason",
        "session",
        "verdict",
        "where",
    )

    def __init__(
        self,
        verdict: Verdict,
        pattern: str,
        where: Mapping[str, Matcher] | None = None,
        reason: str | None = None,
        *,
        agent: str | None = None,
        session: str | None = None,
        caller: str | None = None,
        criteria: Criteria = NO_CRITERIA,
        elicitation: bool | None = None,
        expires_at: float | None = None,
        fingerprints: Collection[str] | None = None,
        id: str | None = None,
    ) -> None:
        check_holders(agent, session, caller)
        check_elicitation(verdict, elicitation)
        self.verdict = verdict
        self._restricts = verdict is not Verdict.ALLOW
        self.pattern = pattern
        if not isinstance(where or {}, Mapping):
            raise TypeError(f"where names arguments, such as {{'path': '/etc/**'}}, not {where!r}")
        self.where = dict(where or {})
        for name in self.where:
            if not isinstance(name, str):
                raise TypeError(f"where names arguments by their text, not {name!r:.200}")
        self.reason = reason
        self.agent = agent
        self.session = session
        self.caller = caller
        self.criteria = criteria
        self.elicitation = elicitation is not False
        self.id = id
        self.expires_at = expires_at
        self.fingerprints = fingerprints
        self._names_one = not _WILD.search(pattern)
        self._name = re.compile(fnmatch.translate(pattern)).match
        self._where = [
            (name, name.split("."), compile_matcher(matcher))
            for name, matcher in self.where.items()
        ]

    def concerns(self, tool: Tool) -> bool:
        """Whether the rule can apply to this tool.

        A rule that restricts also matches the name that the tool's server or maker gave it; a rule
        that allows matches only the tool's name here.
        """
        own, every = tool.once("called", _read_names)
        names: tuple[str, ...] = every if self._restricts else own
        # This is a plain loop, because it runs for each rule after each change of rules.
        for name in names:
            if self._name(name):
                return self.criteria is NO_CRITERIA or self.criteria.hold_for(tool)
        return False

    @property
    def always(self) -> bool:
        """Whether the rule holds at any time and for every caller."""
        return (self.agent, self.session, self.caller, self.expires_at) == _ANYBODY

    def holds_for(self, scope: Scope) -> bool:
        """Whether the rule holds now, for calls made on this behalf.

        A rule that restricts also holds if it is for one of the calls around them.
        """
        if self.expires_at is not None and time.time() >= self.expires_at:
            return False
        return self._is_for(scope) or (
            self._restricts and any(self._is_for(each) for each in scope.around)
        )

    def _is_for(self, whose: Scope | Around) -> bool:
        return (
            (self.agent is None or self.agent == whose.agent)
            and (self.session is None or self.session == whose.session)
            and (self.caller is None or self.caller == whose.caller)
        )

    def fits_marks(self, tainted: Sequence[bool]) -> bool:
        """Whether the rule means sessions as they are on the way to a call, its own first.

        A mark of any of them counts, but allows nothing that is allowed to marked sessions only.
        """
        wanted = self.criteria.untrusted
        if wanted is None:
            return True
        if self._restricts:
            return wanted in tainted
        return tainted[0] if wanted else not any(tainted)

    def matches(self, values: Mapping[str, Any], names: ArgumentNames) -> bool:
        """Whether the arguments that the function would get match the rule's conditions."""
        restricts = self._restricts
        for name, path, match in self._where:
            own = names.own.get(name, name)
            value = values.get(own)
            if len(path) == 1 and type(value) in PLAIN and own in values:
                # A plain value can be read in one way only. What can't be compared restricts.
                met = reading_matches(match, value, restricts)
                if met or (met is None and restricts):
                    continue
                return False
            found = names.readings(values, path)
            held = [reading_matches(match, each, restricts) for each in found]
            if not held and restricts and self._names_one and not names.may_have(path):
                # A condition on an argument that the tool does not have can't be compared.
                continue
            if not readings_match(held, restricts):
                return False
        return True

    def copy_with(self, *, pattern: str | None = None, agent: str | None = None) -> "Rule":
        """The same rule for tools with another name, or for the calls of one agent."""
        return Rule(
            self.verdict,
            pattern or self.pattern,
            self.where,
            self.reason,
            agent=agent or self.agent,
            session=self.session,
            caller=self.caller,
            criteria=self.criteria,
            elicitation=None if self.elicitation else False,
            expires_at=self.expires_at,
            fingerprints=self.fingerprints,
            id=self.id,
        )

    def __str__(self) -> str:
        said = [] if self.criteria is NO_CRITERIA else [str(self.criteria)]
        said += [] if self.elicitation else ["elicitation=False"]
        more = f" with {', '.join(said)}" if said else ""
        return f"{self.verdict.value} {self.pattern!r}{more}"

    def __repr__(self) -> str:
        where = f", where={self.where!r}" if self.where else ""
        return f"Rule({self}{where})"


class StoredRules(Protocol):
    """Rules that are kept elsewhere, and may be changed there by others."""

    # Counts the changes that were seen here.
    edition: int
    # Until when, on the monotonic clock, the rules count as up to date.
    good_until: float

    async def renew(self) -> None:
        """Read them again."""

    def __iter__(self) -> Iterator[Rule]: ...


class Rules:
    """The rules of one toolbox, in the order they were made."""

    def __init__(
        self,
        changed: Callable[[], None] = lambda: None,
        tools: Callable[[], Iterable[Tool]] = tuple,
    ) -> None:
        self._rules: list[Rule] = []
        self._changed = changed
        # The tools that are here, to tell whoever makes a rule that it would never match.
        self._tools = tools
        # Counts the changes, so that what was derived from the rules can be seen to be out of date.
        self.edition = 0

    def allow(
        self,
        pattern: str | None = None,
        where: Mapping[str, Matcher] | None = None,
        **options: Unpack[RuleOptions],
    ) -> Rule:
        """Let matching calls run without asking.

        Args:
            pattern: The name of a tool, or a pattern such as "file_*". None means every name, and
                needs a criterion in `options`.
            where: Conditions on arguments by name, such as `{"path": "/etc/**"}`.
            **options: What the tool must be (`read_only`, `idempotent`, `destructive`,
                `open_world`, `trusted`, `tags`, `group`, `source`), whose calls are meant
                (`agent`, `session`, `caller`), and with `untrusted=True` only calls in sessions
                that have a result from outside in them.

        Returns:
            The rule, which `remove` takes back.

        Raises:
            ValueError: The rule names neither a tool nor a criterion, or no tool here that it is
                for has what a condition compares.
            TypeError: A condition can't be read.

        Example:
            `box.rules.allow("read_file", where={"path": "/srv/**"})`
        """
        check_options(Rules.allow, options, _OPTIONS)
        return self._add_rule(make_rule(Verdict.ALLOW, pattern, where, None, options))

    def ask(
        self,
        pattern: str | None = None,
        where: Mapping[str, Matcher] | None = None,
        reason: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> Rule:
        """Ask a person before matching calls run.

        Args:
            pattern: The name of a tool, or a pattern such as "file_*". None means every name, and
                needs a criterion in `options`.
            where: Conditions on arguments by name, such as `{"path": "/etc/**"}`.
            reason: Why, for the person who decides.
            **options: What the tool must be (`read_only`, `idempotent`, `destructive`,
                `open_world`, `trusted`, `tags`, `group`, `source`), whose calls are meant
                (`agent`, `session`, `caller`), and with `untrusted=True` only calls in sessions
                that have a result from outside in them. With `elicitation=False` the user of an
                MCP client can't answer the question of the client's own call.

        Returns:
            The rule, which `remove` takes back.

        Raises:
            ValueError: The rule names neither a tool nor a criterion, or no tool here that it is
                for has what a condition compares.
            TypeError: A condition can't be read.

        Example:
            `box.rules.ask("send_*", reason="it leaves the house")`
        """
        check_options(Rules.ask, options, _OPTIONS)
        return self._add_rule(make_rule(Verdict.ASK, pattern, where, reason, options))

    def deny(
        self,
        pattern: str | None = None,
        where: Mapping[str, Matcher] | None = None,
        reason: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> Rule:
        """Never let matching calls run.

        Args:
            pattern: The name of a tool, or a pattern such as "file_*". None means every name, and
                needs a criterion in `options`.
            where: Conditions on arguments by name, such as `{"path": "/etc/**"}`.
            reason: Why; the model is told.
            **options: What the tool must be (`read_only`, `idempotent`, `destructive`,
                `open_world`, `trusted`, `tags`, `group`, `source`), whose calls are meant
                (`agent`, `session`, `caller`), and with `untrusted=True` only calls in sessions
                that have a result from outside in them.

        Returns:
            The rule, which `remove` takes back.

        Raises:
            ValueError: The rule names neither a tool nor a criterion, or no tool here that it is
                for has what a condition compares.
            TypeError: A condition can't be read.

        Example:
            `box.rules.deny("delete_*", where={"path": "/etc/**"})`
        """
        check_options(Rules.deny, options, _OPTIONS)
        return self._add_rule(make_rule(Verdict.DENY, pattern, where, reason, options))

    def remove(self, rule: Rule) -> None:
        """Take a rule back.

        Args:
            rule: A rule that `allow`, `ask` or `deny` returned.

        Raises:
            ValueError: The rule is not among these rules.
        """
        self._rules.remove(rule)
        self.count_change()

    def replace(self, rules: Iterable[Rule]) -> None:
        """Replace all rules.

        Args:
            rules: The rules that hold from now on, in order.
        """
        self._rules = list(rules)
        self.count_change()

    def __iter__(self) -> Iterator[Rule]:
        return iter(tuple(self._rules))

    def __len__(self) -> int:
        return len(self._rules)

    def __bool__(self) -> bool:
        # A list without rules is still a list: `rules or default` must not replace it.
        return True

    def _add_rule(self, rule: Rule) -> Rule:
        if rule.where:
            # Most toolboxes have no condition, and the check takes time to load.
            from .condition_fit import check_conditions  # noqa: PLC0415

            check_conditions(rule, self._tools())
        self._rules.append(rule)
        self.count_change()
        return rule

    def count_change(self) -> None:
        """Note a change of the rules or modes, so that everything derived from them is renewed."""
        self.edition += 1
        self._changed()


def make_rule(
    verdict: Verdict,
    pattern: str | None,
    where: Mapping[str, Matcher] | None,
    reason: str | None,
    options: RuleOptions,
) -> Rule:
    """Make a rule; one without a pattern and without criteria is refused."""
    criteria = Criteria.of(options)
    return Rule(
        verdict,
        check_pattern(pattern, criteria, verdict, options),
        where,
        reason,
        agent=options.get("agent"),
        session=options.get("session"),
        caller=options.get("caller"),
        criteria=criteria,
        elicitation=options.get("elicitation"),
    )


def check_pattern(
    pattern: str | None, criteria: Criteria, verdict: Verdict, options: RuleOptions
) -> str:
    """The pattern of a rule, which may be left out if something else says what is meant.

    Whose calls are meant is enough for a rule that restricts. One that allows all that somebody
    calls says so.
    """
    whose = any(options.get(each) is not None for each in ("agent", "session", "caller"))
    if pattern is None and (
        criteria is not NO_CRITERIA or (whose and verdict is not Verdict.ALLOW)
    ):
        return EVERY_NAME
    if not isinstance(pattern, str) or not pattern:
        raise ValueError(
            f"a rule needs a tool's name or pattern, not {pattern!r}; "
            'for all tools say "*", or name a criterion such as destructive=True'
        )
    return pattern


def check_elicitation(verdict: Verdict, elicitation: bool | None) -> None:
    """Refuse a rule that says something about questions and does not ask."""
    if elicitation not in (None, True, False):
        raise ValueError(f"elicitation is True or False, not {elicitation!r}")
    if elicitation is not None and verdict is not Verdict.ASK:
        raise ValueError("elicitation is only for rules that ask")


def check_holders(agent: str | None, session: str | None, caller: str | None) -> None:
    """Refuse an invalid agent, session or caller."""
    for what, name in (("an agent", agent), ("a session", session), ("a caller", caller)):
        if name is not None:
            check_id(what, name)


def rules_concerning(rules: Iterable[Rule], tool: Tool) -> list[Rule]:
    """The rules that can apply to a tool, in the order in which they count."""
    found = [rule for rule in rules if rule.concerns(tool)]
    return sorted(found, key=lambda rule: _RANKS[rule.verdict]) if found else found


def _read_names(tool: Tool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a tool here, and these together with its original names."""
    own = (tool.name, provider_name(tool.name))
    others = [each for name in tool.original_names for each in (name, provider_name(name))]
    return tuple(dict.fromkeys(own)), tuple(dict.fromkeys((*own, *others)))
