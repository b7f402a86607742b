"""Standing rules, which a store keeps for every process that shares it."""

import asyncio
import logging
import math
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, Row, delete, select
from typing_extensions import Unpack

from wieldy.core.bounded_json import dump_json, parse_json
from wieldy.core.errors import NotKept, StoreError
from wieldy.core.names import check_options, find_near_names
from wieldy.core.permission.condition_fit import check_conditions
from wieldy.core.permission.conditions import Matcher
from wieldy.core.permission.criteria import Criteria, RuleOptions
from wieldy.core.permission.rules import Rule, Verdict, make_rule
from wieldy.core.permission.toolbox_state import export_where, import_where
from wieldy.core.registry import Registry

from .databases.damaged_values import show_value
from .databases.database import Database
from .databases.prepared_statements import insert_new
from .databases.tables import rules
from .process_owner import shared_clock
from .row_values import refuse_damaged
from .store_access import StoreAccess
from .wakeups import shared_future

Where = Mapping[str, Matcher] | None
_Found = tuple[float, Sequence[Row[Any]]]
# The longest time for which a process uses the rules that it has read without reading them again.
_SECONDS = 1.0
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
_VERDICTS = frozenset(verdict.value for verdict in Verdict)
_log = logging.getLogger("wieldy")


class StandingRule:
    """A stored rule. `dead` says why the rule no longer holds, and is None while it holds.

    `tools` maps the names of the tools that an allow rule was made for to their fingerprints.
    """

    __slots__ = (
        "agent",
        "by",
        "caller",
        "criteria",
        "dead",
        "elicitation",
        "expires_at",
        "id",
        "made_at",
        "pattern",
        "reason",
        "session",
        "tools",
        "verdict",
        "where",
    )

    def __init__(self, row: Any, dead: str | None = None) -> None:
        self.id: str = row.id
        self.verdict: str = row.verdict
        self.pattern: str = row.pattern
        self.where: dict[str, Matcher] = import_where(parse_json(row.conditions))
        self.reason: str | None = row.reason
        self.agent: str | None = row.agent
        self.session: str | None = row.session
        self.caller: str | None = row.caller
        said = parse_json(row.criteria or "{}")
        self.elicitation: bool = said.pop("elicitation", True)
        self.criteria = Criteria.from_dict(said)
        self.tools: dict[str, str] | None = None if row.tools is None else parse_json(row.tools)
        self.by: str | None = row.made_by
        self.made_at: float = row.made_at
        self.expires_at: float | None = row.expires_at
        self.dead = dead

    @classmethod
    def read(cls, row: Any) -> "StandingRule":
        """The rule of a row; `ValueError` if a column has another kind of value than it should."""
        refuse_damaged(row._mapping)
        return cls(row)

    def __repr__(self) -> str:
        dead = "" if self.dead is None else f", dead: {self.dead}"
        return f"StandingRule({self.verdict} {self.pattern!r}, id={self.id!r}{dead})"


class Standing:
    """The standing rules of a store. They apply together with the rules of `box.rules`.

    An allow rule holds for the tools that match it when it is made, as they are at that time.
    A person is asked about a tool that changes or is added later. Rules that ask or deny hold
    for every tool that matches.
    """

    def __init__(self, store: StoreAccess, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._lock = threading.Lock()
        self._seen: Sequence[Row[Any]] = ()
        self._rules: tuple[Rule, ...] = ()
        self._reading: Future[None] | None = None
        self._source: Database | None = None
        self._changes = 0
        self.good_until = -math.inf
        # How many seconds the store's clock is ahead of the clock of this process.
        self._ahead = 0.0
        self.edition = 0

    async def allow(
        self,
        pattern: str | None = None,
        where: Where = None,
        *,
        expires_in: float | None = None,
        by: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> StandingRule:
        """Let matching calls run without asking, for tools that are here now and stay unchanged.

        Args:
            pattern: The name of a tool, or a pattern such as "file_*". None means every name, and
                needs a criterion in `options`.
            where: Conditions on arguments by name, such as `{"path": "/etc/**"}`.
            expires_in: Seconds for which the rule holds; None means always.
            by: Who makes the rule, for the record.
            **options: The options of `Rules.allow`.

        Returns:
            The stored rule.

        Raises:
            ValueError: No tool here matches the pattern, or a condition can't be stored.

        Example:
            `await box.standing.allow("read_*", by="ann", expires_in=3600)`
        """
        check_options(Standing.allow, options, RuleOptions.__annotations__)
        rule = self._make_rule(Verdict.ALLOW, pattern, where, None, options)
        tools = {
            tool.name: tool.fingerprint for tool in self._registry.tools() if rule.concerns(tool)
        }
        if not tools:
            raise ValueError(_no_tool(rule, self._registry.names()))
        return await self._put_rule(
            {**_rule_columns(rule, by), "tools": dump_json(tools)}, expires_in
        )

    async def ask(
        self,
        pattern: str | None = None,
        where: Where = None,
        reason: str | None = None,
        *,
        expires_in: float | None = None,
        by: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> StandingRule:
        """Ask a person before matching calls run.

        Args:
            pattern: The name of a tool, or a pattern such as "file_*". None means every name, and
                needs a criterion in `options`.
            where: Conditions on arguments by name, such as `{"path": "/etc/**"}`.
            reason: Why, for the person who decides.
            expires_in: Seconds for which the rule holds; None means always.
            by: Who makes the rule, for the record.
            **options: The options of `Rules.allow`.

        Returns:
            The stored rule.
        """
        check_options(Standing.ask, options, RuleOptions.__annotations__)
        rule = self._make_rule(Verdict.ASK, pattern, where, reason, options)
        return await self._put_rule(_rule_columns(rule, by), expires_in)

    async def deny(
        self,
        pattern: str | None = None,
        where: Where = None,
        reason: str | None = None,
        *,
        expires_in: float | None = None,
        by: str | None = None,
        **options: Unpack[RuleOptions],
    ) -> StandingRule:
        """Never let matching calls run.

        Args:
            pattern: The name of a tool, or a pattern such as "file_*". None means every name, and
                needs a criterion in `options`.
            where: Conditions on arguments by name, such as `{"path": "/etc/**"}`.
            reason: Why; the model is told.
            expires_in: Seconds for which the rule holds; None means always.
            by: Who makes the rule, for the record.
            **options: The options of `Rules.allow`.

        Returns:
            The stored rule.

        Example:
            `await box.standing.deny("delete_*", reason="not in this project")`
        """
        check_options(Standing.deny, options, RuleOptions.__annotations__)
        rule = self._make_rule(Verdict.DENY, pattern, where, reason, options)
        return await self._put_rule(_rule_columns(rule, by), expires_in)

    async def list(self) -> "list[StandingRule]":
        """List all rules, the oldest first, including those that no longer hold."""
        now, rows = await self._store.read(_select_rules)
        return [_list_rule(row, now, self._registry) for row in rows]

    async def remove(self, rule_id: str) -> None:
        """Take a rule back.

        Args:
            rule_id: The rule's id.

        Raises:
            NotKept: There is no rule of this id.
        """
        found: list[bool] = []

        def remove(connection: Connection) -> bool:
            gone = connection.execute(delete(rules).where(rules.c.id == rule_id))
            # An earlier attempt may have removed the rule and lost its connection afterwards.
            found.append(gone.rowcount > 0)
            return any(found)

        try:
            removed = await self._store.write(remove)
        finally:
            self.forget()
        if not removed:
            raise NotKept("standing rule", rule_id)

    def forget(self) -> None:
        """Have the rules read again before the next call, because this process changed them."""
        with self._lock:
            self._changes += 1
            self.good_until = -math.inf

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def _make_rule(
        self,
        verdict: Verdict,
        pattern: str | None,
        where: Where,
        reason: str | None,
        options: RuleOptions,
    ) -> Rule:
        rule = make_rule(verdict, pattern, where, reason, options)
        check_conditions(rule, self._registry.tools())
        return rule

    async def _put_rule(self, row: dict[str, Any], expires_in: float | None) -> StandingRule:
        if expires_in is not None and not 0 < expires_in < math.inf:
            raise ValueError(f"expires_in must be seconds above 0, not {expires_in!r}")

        def put(connection: Connection) -> Row[Any]:
            now = shared_clock(connection)
            ends = None if expires_in is None else now + expires_in
            values = {**row, "made_at": now, "expires_at": ends}
            connection.execute(insert_new(connection.dialect, rules, values))
            return connection.execute(select(rules).where(rules.c.id == row["id"])).one()

        try:
            return StandingRule.read(await self._store.write(put))
        finally:
            self.forget()

    async def renew(self) -> None:
        """Wait until the rules have been read after this method was called."""
        ours = False
        # A reading that began earlier may have missed a change. The one after it has not.
        for _ in range(2):
            database = (await self._store.opened()).database
            with self._lock:
                # A reading of a closed store, or of the parent process before a fork, never ends.
                ours = self._reading is None or self._source is not database
                if ours:
                    self._reading, self._source = shared_future(), database
                reading = self._reading
            assert reading is not None
            if ours:
                self._read_rules(database, reading)
            await asyncio.wrap_future(reading)
            if ours or time.monotonic() < self.good_until:
                return

    def _read_rules(self, database: Database, reading: "Future[None]") -> None:
        """Read the rules on a thread of the store, and wake everybody who waits for them."""
        changes, good_until = self._changes, time.monotonic() + _SECONDS

        def take(done: "Future[_Found]") -> None:
            try:
                found = done.result()
                if self._reading is reading:
                    self._keep_rules(*found)
            except BaseException as error:
                self._end_reading(reading)
                reading.set_exception(error)
            else:
                self._end_reading(reading, changes, good_until)
                reading.set_result(None)

        try:
            database.read(_select_rules).add_done_callback(take)
        except BaseException as error:
            self._end_reading(reading)
            reading.set_exception(error)

    def _end_reading(
        self, reading: "Future[None]", changes: int = -1, good_until: float = -math.inf
    ) -> None:
        with self._lock:
            if self._reading is reading:
                self._reading = None
                # A rule that changed during the reading may be missing from the result.
                if changes == self._changes:
                    self.good_until = good_until

    def _keep_rules(self, now: float, rows: Sequence[Row[Any]]) -> None:
        ahead = now - time.time()
        if list(rows) == list(self._seen) and abs(ahead - self._ahead) < _SECONDS:
            return
        made = [_make_stored_rule(row, ahead) for row in rows]
        self._rules = tuple(rule for rule in made if rule is not None)
        self._seen, self._ahead = rows, ahead
        self.edition += 1


def over_check(registry: Registry) -> Callable[[Row[Any], float], bool]:
    """A check whether a stored rule will never hold again; it says no once the registry is gone."""
    # The pruning thread must not keep a toolbox alive that its program has dropped.
    known = weakref.ref(registry)

    def is_over(row: Row[Any], now: float) -> bool:
        registry = known()
        return registry is not None and _is_over(row, now, registry)

    return is_over


def _is_over(row: Row[Any], now: float, registry: Registry) -> bool:
    try:
        rule = StandingRule.read(row)
        return _is_expired(rule, now) or _has_changed(rule, registry)
    except _UNREADABLE:
        # The rule can't be read, or a tool can't be described. A person has to look at such a
        # rule, so it is not pruned.
        return False


def _select_rules(connection: Connection) -> _Found:
    rows = connection.execute(select(rules).order_by(rules.c.made_at, rules.c.id)).all()
    return shared_clock(connection), rows


def _rule_columns(rule: Rule, by: str | None) -> dict[str, Any]:
    said = rule.criteria.to_dict() | ({} if rule.elicitation else {"elicitation": False})
    return {
        "id": uuid.uuid4().hex,
        "verdict": rule.verdict.value,
        "pattern": rule.pattern,
        "conditions": dump_json(export_where(rule.where)),
        "criteria": dump_json(said) if said else None,
        "reason": rule.reason,
        "agent": rule.agent,
        "session": rule.session,
        "caller": rule.caller,
        "made_by": by,
    }


def _make_stored_rule(row: Any, ahead: float) -> Rule | None:
    """The rule of a row, by this process's clock; None for an allow rule that can't be read."""
    try:
        stored = StandingRule.read(row)
        ends = None if stored.expires_at is None else stored.expires_at - ahead
        tools = None if stored.tools is None else frozenset(stored.tools.values())
        return Rule(
            Verdict(stored.verdict),
            stored.pattern,
            stored.where,
            stored.reason,
            agent=stored.agent,
            session=stored.session,
            caller=stored.caller,
            criteria=stored.criteria,
            elicitation=None if stored.elicitation else False,
            id=stored.id,
            expires_at=ends,
            # An allow rule that lists no tools allows nothing.
            fingerprints=tools or () if stored.verdict == "allow" else None,
        )
    except _UNREADABLE as error:
        if row.verdict == "allow":
            _log.warning("The standing rule %s can't be read and allows nothing: %s", row.id, error)
            return None
        next_step = "Remove that rule."
        raise StoreError(f"the rule {row.id} can't be read ({error})", next_step) from error


def _list_rule(row: Any, now: float, registry: Registry) -> StandingRule:
    try:
        rule = StandingRule.read(row)
        if rule.verdict not in _VERDICTS:
            raise ValueError(f"{rule.verdict!r} is not a verdict")
        rule.dead = _why_dead(rule, now, registry)
    except _UNREADABLE as error:
        known = {name: show_value(value) for name, value in row._mapping.items()}
        if known["verdict"] not in _VERDICTS:
            # Nothing runs until somebody has removed it.
            known["verdict"] = Verdict.DENY.value
        blank = {**known, "conditions": "{}", "criteria": None, "tools": None}
        rule = StandingRule(SimpleNamespace(**blank), f"it can't be read ({error})")
    return rule


def _why_dead(rule: StandingRule, now: float, registry: Registry) -> str | None:
    if _is_expired(rule, now):
        return "it has expired"
    if _has_changed(rule, registry):
        return f"its tools have changed: {', '.join(rule.tools or ())}"
    return None


def _is_expired(rule: StandingRule, now: float) -> bool:
    return rule.expires_at is not None and rule.expires_at <= now


def _has_changed(rule: StandingRule, registry: Registry) -> bool:
    """Whether every tool of an allow rule is here and has changed since the rule was made.

    A tool that is missing here may still exist unchanged in another process.
    """
    if rule.tools is None:
        return False
    here = {name: registry.find(name) for name in rule.tools}
    return all(
        tool is not None and tool.fingerprint != rule.tools[name] for name, tool in here.items()
    )


def _no_tool(rule: Rule, names: list[str]) -> str:
    hint = find_near_names(rule.pattern, [name for name in names if name != rule.pattern])
    meant = f" Did you mean {' or '.join(map(repr, hint))}?" if hint else ""
    wanted = str(rule).removeprefix(f"{rule.verdict.value} ")
    return (
        f"No tool here matches {wanted}, and an allow rule holds only for tools that are here "
        f"when it is made.{meant} Add the tool first."
    )
