"""Which webhooks there are on a store, and what each of them wants to hear."""

import fnmatch
import hashlib
import re
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json, parse_json
from wieldy.store.databases.damaged_values import show_value
from wieldy.store.databases.prepared_statements import insert_or_update
from wieldy.store.databases.tables import (
    IS_UNSENT,
    changed_tools,
    outbox_events,
    webhook_deliveries,
    webhooks,
)
from wieldy.store.process_owner import shared_clock
from wieldy.store.row_values import refuse_damaged

from .event_capture import capture_events, end_capture

# A webhook that no gateway has had for this time was removed while none ran.
UNSEEN_SECONDS = 7 * 86_400.0
_REMOVED = "the webhook was removed before this could be sent"


@dataclass(frozen=True)
class Subscription:
    """What one webhook wants to hear.

    Attributes:
        name: The webhook's name.
        events: The kinds of events.
        tools: A pattern that the tool's name has to fit, or None for all tools.
        mark: A digest of the receiver's address.
        stopped_at: When the receiver said that it wants no more, or None.
        error: Why its row can't be read, so that it hears of nothing, or None.
    """

    name: str
    events: frozenset[str]
    tools: str | None
    mark: str
    stopped_at: float | None = None
    error: str | None = None

    @cached_property
    def _fits(self) -> re.Pattern[str]:
        return re.compile(fnmatch.translate(self.tools or "*"))

    def wants(self, kind: str, tool: str) -> bool:
        """Whether it wants to hear of this event."""
        wanted = self.stopped_at is None and kind in self.events
        return wanted and self._fits.match(tool) is not None


def read_subscriptions(connection: Connection) -> list[Subscription]:
    """The webhooks of all gateways, by name."""
    rows = connection.execute(select(webhooks).order_by(webhooks.c.name)).all()
    return [_read_subscription(row) for row in rows]


def _read_subscription(row: Any) -> Subscription:
    """The webhook of a row. One that can't be read hears nothing until a gateway writes it anew."""
    try:
        refuse_damaged(row._mapping)
        events = parse_json(row.events)
        if not (isinstance(events, list) and all(isinstance(each, str) for each in events)):
            raise ValueError("events is no list of texts")
    except ValueError as error:
        why = f"its row can't be read ({error})"
        return Subscription(show_value(row.name), frozenset(), None, "", error=why)
    return Subscription(row.name, frozenset(events), row.tools, row.mark, row.stopped_at)


def subscribe(connection: Connection, wanted: Iterable[Subscription]) -> None:
    """Let webhooks hear of what happens from now on.

    One whose receiver wanted no more is told again if it has another address now.
    """
    now = shared_clock(connection)
    for each in wanted:
        said = {"events": dump_json(sorted(each.events)), "tools": each.tools, "mark": each.mark}
        moved = webhooks.c.name == each.name, webhooks.c.mark != each.mark
        connection.execute(update(webhooks).where(*moved).values(stopped_at=None))
        row = {"name": each.name, "seen_at": now, **said}
        connection.execute(
            insert_or_update(connection.dialect, webhooks, row, {**said, "seen_at": now})
        )
    capture_events(connection)


def unsubscribe(connection: Connection, names: Collection[str]) -> None:
    """Let webhooks hear of nothing more; what was not sent to them has failed."""
    connection.execute(delete(webhooks).where(webhooks.c.name.in_(names)))
    fail_unsent(connection, names, _REMOVED)
    if not _has_webhooks(connection):
        connection.execute(delete(changed_tools))
        end_capture(connection)


def stop_webhook(connection: Connection, name: str, why: str) -> None:
    """Note that a receiver wants no more; what was not sent to it has failed."""
    stopped = update(webhooks).where(webhooks.c.name == name)
    connection.execute(stopped.values(stopped_at=shared_clock(connection)))
    fail_unsent(connection, [name], why)


def start_webhook(connection: Connection, name: str) -> None:
    """Note that a receiver takes messages again."""
    connection.execute(update(webhooks).where(webhooks.c.name == name).values(stopped_at=None))


def forget_unseen(connection: Connection) -> int:
    """Remove the webhooks that no gateway has any more; returns how many."""
    now = shared_clock(connection)
    # A clock that was set back must not keep them for ever.
    unseen = or_(
        webhooks.c.seen_at < now - UNSEEN_SECONDS, webhooks.c.seen_at > now + UNSEEN_SECONDS
    )
    names = connection.scalars(select(webhooks.c.name).where(unseen)).all()
    if names:
        unsubscribe(connection, names)
    return len(names)


def fail_unsent(connection: Connection, names: Collection[str], why: str) -> None:
    """Give up what is still to be sent to these webhooks."""
    own = webhook_deliveries.c.webhook.in_(names)
    ended = {"state": "failed", "ended_at": shared_clock(connection), "error": why, "claim": None}
    connection.execute(update(webhook_deliveries).where(IS_UNSENT, own).values(ended))


def note_tool(connection: Connection, tool: str, fingerprint: str, facts: dict[str, Any]) -> None:
    """Make an event of a tool that differs from the lock, once for each of its definitions."""
    now = shared_clock(connection)
    said = {"tool": tool, "fingerprint": fingerprint, "at": now}
    insert_tool: Any = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(
        changed_tools
    )
    # Of two processes that see the same change at once, one finds that it is noted already.
    noted = insert_tool.values(key=_tool_key(tool), **said).on_conflict_do_update(
        index_elements=["key"], set_=said, where=changed_tools.c.fingerprint != fingerprint
    )
    if connection.execute(noted.returning(changed_tools.c.key)).first() is not None:
        event = {"id": uuid.uuid4().hex, "kind": "tool.changed", "at": now, "tool": tool}
        connection.execute(
            insert(outbox_events).values(**event, facts=dump_json(facts, MAX_WRAPPED))
        )


def read_changed_tools(connection: Connection) -> dict[str, str]:
    """The tools that were made events of, and their fingerprints then."""
    return {row.tool: row.fingerprint for row in connection.execute(select(changed_tools)).all()}


def forget_tool(connection: Connection, tool: str) -> None:
    """Note that a tool is as it was locked, so that its next change is an event again."""
    connection.execute(delete(changed_tools).where(changed_tools.c.key == _tool_key(tool)))


def _tool_key(tool: str) -> str:
    return hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()


def _has_webhooks(connection: Connection) -> bool:
    return connection.execute(select(webhooks.c.name).limit(1)).first() is not None
