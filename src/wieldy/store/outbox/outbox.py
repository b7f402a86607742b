"""Messages to webhooks: made of events, claimed by one process, sent until they arrive."""

import hashlib
import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, or_, select, update

from wieldy.core.bounded_json import MAX_WRAPPED, parse_json
from wieldy.core.choices import DeliveryState
from wieldy.core.errors import NotKept
from wieldy.store.databases.damaged_values import DAMAGED, show_value
from wieldy.store.databases.prepared_statements import insert_new
from wieldy.store.databases.tables import (
    IS_UNDELIVERED,
    IS_UNSENT,
    calls,
    outbox_events,
    webhook_deliveries,
)
from wieldy.store.process_owner import shared_clock
from wieldy.store.row_values import refuse_damaged
from wieldy.store.store_access import StoreAccess

from . import subscriptions
from .subscriptions import Subscription

DELIVERY_STATES: tuple[DeliveryState, ...] = get_args(DeliveryState)
# A message that was claimed is sent again after this time, if nobody has said how that ended.
LEASE_SECONDS = 60.0
_EVENTS_AT_ONCE = 100
_OF = webhook_deliveries.c
_UNREADABLE = "its row can't be read"
_NEWEST_FIRST = (_OF.created_at.desc(), _OF.id.desc())
Place = tuple[float, str]
_log = logging.getLogger("wieldy")


class OutboxEvent:
    """Something that happened; `row` is the call as it stands now, if it is one and still kept."""

    __slots__ = ("at", "call", "facts", "id", "kind", "row", "state", "tool")

    def __init__(self, found: Any, row: Row[Any] | None) -> None:
        self.id: str = found.id
        self.kind: str = found.kind
        self.at: float = found.at
        self.call: str | None = found.call
        self.tool: str = found.tool
        self.state: str | None = found.state
        self.facts: str | None = found.facts
        self.row = row


MakeBody = Callable[[OutboxEvent], str]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message to a webhook.

    Attributes:
        id: The message's id, which is the same in every attempt.
        webhook: The name of the webhook.
        kind: The kind of event.
        call: The call that it is about, or None.
        tool: The tool that it is about.
        body: The message.
        state: `waiting`, `delivered`, or `failed` if it was given up.
        attempts: How often it was sent.
        due_at: When it is sent next, while it waits.
        created_at: When it was made, in seconds since the epoch.
        ended_at: When it was delivered or given up.
        status: The HTTP status of the last answer, or None if there was none.
        error: Why the last attempt failed, or None.
        claim: The mark of whoever sends it now.
    """

    id: str
    webhook: str
    kind: str
    call: str | None
    tool: str
    body: str
    state: DeliveryState
    attempts: int
    due_at: float
    created_at: float
    ended_at: float | None
    status: int | None
    error: str | None
    claim: str | None

    def to_dict(self) -> dict[str, Any]:
        """Convert it for programs.

        Returns:
            Plain JSON, without the message itself.
        """
        hidden = ("body", "claim")
        return {name: getattr(self, name) for name in self.__slots__ if name not in hidden}


@dataclass(frozen=True, slots=True)
class SendResult:
    """How an attempt ended: delivered, to be tried again after `retry_after` seconds, or failed."""

    state: DeliveryState
    status: int | None = None
    error: str | None = None
    retry_after: float = 0.0


class Outbox:
    """The webhooks of a store, and the messages to them."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def subscribe(
        self, wanted: Sequence[Subscription], removed: Collection[str] = ()
    ) -> None:
        """Let webhooks hear of what happens from now on, and others of nothing more."""

        def write(connection: Connection) -> None:
            if wanted:
                subscriptions.subscribe(connection, wanted)
            if removed:
                subscriptions.unsubscribe(connection, removed)

        await self._store.write(write)

    async def list_subscriptions(self) -> list[Subscription]:
        """The webhooks of all gateways on the store, by name."""
        return await self._store.read(subscriptions.read_subscriptions)

    async def note_tool(self, tool: str, fingerprint: str, facts: dict[str, Any]) -> None:
        """Make an event of a tool that differs from the lock, unless it was one before."""
        await self._store.write(lambda c: subscriptions.note_tool(c, tool, fingerprint, facts))

    async def list_changed_tools(self) -> dict[str, str]:
        """The tools that were made events of, and their fingerprints then."""
        return await self._store.read(subscriptions.read_changed_tools)

    async def forget_tool(self, tool: str) -> None:
        """Note that a tool is as it was locked."""
        await self._store.write(lambda c: subscriptions.forget_tool(c, tool))

    async def find_work(self) -> tuple[bool, frozenset[str]]:
        """Whether there are events, and the webhooks to which something is to be sent now."""

        def look(connection: Connection) -> tuple[bool, frozenset[str]]:
            now = shared_clock(connection)
            has_events = connection.execute(select(outbox_events.c.id).limit(1)).first()
            due = select(_OF.webhook).where(IS_UNSENT, _OF.due_at <= now).distinct()
            return has_events is not None, frozenset(connection.scalars(due))

        return await self._store.read(look)

    async def make_deliveries(self, make_body: MakeBody) -> int:
        """Make messages of events for every webhook that wants them; returns of how many events."""
        return await self._store.write(lambda c: _make_deliveries(c, make_body))

    async def claim(self, webhook: str, most: int) -> list[Delivery]:
        """Take messages that are due; for a while no other process takes them."""
        mark = uuid.uuid4().hex

        def take(connection: Connection) -> list[Delivery]:
            now = shared_clock(connection)
            due = select(_OF.id).where(IS_UNSENT, _OF.webhook == webhook, _OF.due_at <= now)
            some = due.order_by(_OF.due_at).limit(most).with_for_update(skip_locked=True)
            taken = {"claim": mark, "due_at": now + LEASE_SECONDS, "attempts": _OF.attempts + 1}
            claimed = update(webhook_deliveries).where(_OF.id.in_(some)).values(taken)
            rows = connection.execute(claimed.returning(*_OF)).all()
            found = [_read_delivery(row) for row in rows]
            good = [each for each in found if each.state == "waiting"]
            if len(good) < len(found):
                _give_up_damaged(connection, mark, [each.id for each in good])
            return good

        return await self._store.write(take)

    async def settle(self, delivery: Delivery, result: SendResult) -> None:
        """Record how an attempt ended, unless another process has taken the message since."""

        def write(connection: Connection) -> None:
            now = shared_clock(connection)
            own = and_(_OF.id == delivery.id, _OF.claim == delivery.claim, _OF.state == "waiting")
            ended = None if result.state == "waiting" else now
            values = {
                "state": result.state,
                "status": result.status,
                "error": result.error,
                "due_at": now + result.retry_after,
                "ended_at": ended,
                "claim": None,
            }
            connection.execute(update(webhook_deliveries).where(own).values(values))

        await self._store.write(write)

    async def stop(self, webhook: str, why: str) -> None:
        """Send nothing more to a receiver that wants no more."""
        await self._store.write(lambda c: subscriptions.stop_webhook(c, webhook, why))

    async def start(self, webhook: str) -> None:
        """Send to a receiver again that wanted no more."""
        await self._store.write(lambda c: subscriptions.start_webhook(c, webhook))

    async def add_claimed(self, webhook: str, kind: str, body: str) -> Delivery:
        """Make a message that its maker sends at once, and nobody else."""
        delivery_id, mark = f"msg_{uuid.uuid4().hex}", uuid.uuid4().hex

        def write(connection: Connection) -> Row[Any]:
            now = shared_clock(connection)
            row = _new_row(delivery_id, webhook, kind, None, "", body, now)
            row |= {"attempts": 1, "claim": mark, "due_at": now + LEASE_SECONDS}
            connection.execute(insert_new(connection.dialect, webhook_deliveries, row))
            return connection.execute(_select_one(delivery_id)).one()

        return _read_delivery(await self._store.write(write))

    async def list(
        self, state: DeliveryState | None = None, after: Place | None = None, limit: int = 50
    ) -> list[Delivery]:
        """List messages, the newest first.

        Args:
            state: Only those in this state.
            after: The place of the last one of the page before: when it was made, and its id.
            limit: The most to list.

        Returns:
            The messages.
        """
        if state is not None and state not in DELIVERY_STATES:
            raise ValueError(f"state must be one of {', '.join(DELIVERY_STATES)}, not {state!r}")
        query = select(webhook_deliveries).order_by(*_NEWEST_FIRST).limit(limit)
        if state is not None:
            query = query.where(_OF.state == state)
        if state in ("waiting", "failed"):
            query = query.where(IS_UNDELIVERED)
        if after is not None:
            earlier = or_(_OF.created_at < after[0], _OF.id < after[1])
            query = query.where(_OF.created_at <= after[0], earlier)
        rows = await self._store.read(lambda connection: [*connection.execute(query)])
        return [_read_delivery(row) for row in rows]

    async def find(self, delivery_id: str) -> Delivery:
        """Find one message.

        Raises:
            NotKept: The store has none with this id.
        """
        found = await self._store.read(lambda c: c.execute(_select_one(delivery_id)).first())
        if found is None:
            raise NotKept("delivery", delivery_id)
        return _read_delivery(found)

    async def retry(self, delivery_id: str) -> Delivery:
        """Send a message again, now and then as often as a new one.

        Args:
            delivery_id: Its id.

        Returns:
            The message as it is now.

        Raises:
            NotKept: The store has none with this id, or its webhook was removed.
        """
        webhook = (await self.find(delivery_id)).webhook

        def write(connection: Connection) -> None:
            known = subscriptions.read_subscriptions(connection)
            if webhook not in {each.name for each in known}:
                # Nobody would ever send it.
                raise NotKept("webhook", webhook)
            now = shared_clock(connection)
            again = {"state": "waiting", "attempts": 0, "due_at": now, "ended_at": None}
            # One that is on its way is left alone.
            free = or_(_OF.claim.is_(None), _OF.due_at <= now)
            which = update(webhook_deliveries).where(_OF.id == delivery_id, free)
            connection.execute(which.values(again))

        await self._store.write(write)
        return await self.find(delivery_id)

    async def count(self) -> dict[tuple[str, DeliveryState], int]:
        """How many messages to each webhook wait, and how many have failed."""
        query = (
            select(_OF.webhook, _OF.state, func.count())
            .where(IS_UNDELIVERED)
            .group_by(_OF.webhook, _OF.state)
        )
        rows = await self._store.read(lambda connection: connection.execute(query).all())
        return {(webhook, state): count for webhook, state, count in rows}


def _make_deliveries(connection: Connection, make_body: MakeBody) -> int:
    some = select(outbox_events).order_by(outbox_events.c.at).limit(_EVENTS_AT_ONCE)
    found = connection.execute(some.with_for_update(skip_locked=True)).all()
    known = subscriptions.read_subscriptions(connection)
    now = shared_clock(connection)
    for row in found:
        try:
            refuse_damaged(row._asdict())
            wanted = [each.name for each in known if each.wants(row.kind, row.tool)]
            body = _make_body(connection, row, make_body) if wanted else ""
        except (ValueError, TypeError) as error:
            shown = show_value(row.id)
            _log.warning("The event %s can't be read, and no webhook hears it: %s", shown, error)
            continue
        for name in wanted:
            made = _new_row(
                _message_id(row.id, name), name, row.kind, row.call, row.tool, body, now
            )
            connection.execute(insert_new(connection.dialect, webhook_deliveries, made))
    if found:
        connection.execute(delete(outbox_events).where(_is_one_of(found)))
    return len(found)


def _make_body(connection: Connection, row: Any, make_body: MakeBody) -> str:
    call = None
    if row.call is not None:
        call = connection.execute(select(calls).where(calls.c.id == row.call)).first()
    return make_body(OutboxEvent(row, call))


def _is_one_of(rows: Sequence[Any]) -> ColumnElement[bool]:
    """The rows of events; a damaged id can't be bound as it is."""
    stored = outbox_events.c.id
    plain = [row.id for row in rows if not isinstance(row.id, DAMAGED)]
    damaged = [row.id for row in rows if isinstance(row.id, DAMAGED)]
    odd = [_bytes_of(each).hex().upper() for each in damaged]
    return or_(stored.in_(plain), func.hex(stored).in_(odd)) if odd else stored.in_(plain)


def _bytes_of(stored: Any) -> bytes:
    return stored if isinstance(stored, bytes) else str(stored).encode(errors="surrogateescape")


def _message_id(event_id: str, webhook: str) -> str:
    """The id of an event's message to a webhook. It has no dot, because the signature uses that."""
    text = f"{event_id} {webhook}".encode("utf-8", "surrogatepass")
    return f"msg_{hashlib.sha256(text).hexdigest()[:32]}"


def _new_row(
    delivery_id: str, webhook: str, kind: str, call: str | None, tool: str, body: str, now: float
) -> dict[str, Any]:
    return {
        "id": delivery_id,
        "webhook": webhook,
        "kind": kind,
        "call": call,
        "tool": tool,
        "body": body,
        "state": "waiting",
        "attempts": 0,
        "due_at": now,
        "created_at": now,
    }


def _select_one(delivery_id: str) -> Any:
    return select(webhook_deliveries).where(_OF.id == delivery_id)


def _read_delivery(row: Any) -> Delivery:
    """The message of a row; one that can't be read has failed, and `error` says why."""
    facts = {name: getattr(row, name) for name in Delivery.__slots__}
    try:
        refuse_damaged(facts)
        if row.state not in DELIVERY_STATES:
            raise ValueError(f"{row.state!r} is not a state")
        parse_json(row.body, MAX_WRAPPED)
    except ValueError as error:
        facts = {name: show_value(value) for name, value in facts.items()}
        facts |= {"state": "failed", "body": "null", "error": f"{_UNREADABLE} ({error})"}
    return Delivery(**facts)


def _give_up_damaged(connection: Connection, mark: str, good: Collection[str]) -> None:
    """Note that what was claimed and can't be read is not sent."""
    ended = {
        "state": "failed",
        "claim": None,
        "ended_at": shared_clock(connection),
        "error": _UNREADABLE,
    }
    damaged = update(webhook_deliveries).where(_OF.claim == mark, _OF.id.not_in(good))
    connection.execute(damaged.values(ended))
