"""`wieldy webhooks`: list webhooks and the messages to them, and send a message again."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wieldy.cli import exits, screen
from wieldy.cli.store_choice import StoreChoice
from wieldy.core.choices import DeliveryState

if TYPE_CHECKING:
    # It loads SQLAlchemy, which a command without a store does not need.
    from wieldy.store.outbox.outbox import Delivery

_WEBHOOKS = ("name", "events", "tools", "state", "waiting", "failed")
_DELIVERIES = ("id", "webhook", "event", "state", "attempts", "made", "status", "about", "error")


def run_list_webhooks(choice: StoreChoice, as_json: bool) -> int:
    """Print the webhooks of all gateways on the store; returns the exit code."""

    async def read() -> int:
        async with choice.read() as box:
            found = await box.store.outbox.list_subscriptions()
            counts = await box.store.outbox.count()
        rows = [
            {
                "name": each.name,
                "events": sorted(each.events),
                "tools": each.tools,
                "stopped_at": each.stopped_at,
                "error": each.error,
                "waiting": counts.get((each.name, "waiting"), 0),
                "failed": counts.get((each.name, "failed"), 0),
            }
            for each in found
        ]
        if as_json:
            screen.put(rows)
        elif rows:
            screen.table(_WEBHOOKS, [_webhook_row(each) for each in rows])
        else:
            hint = "Write [[webhooks]] into a gateway's file, and serve it."
            screen.say(f"There is no webhook in {box.store.address}. {hint}")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(read()))


def run_list_deliveries(
    choice: StoreChoice, state: DeliveryState | None, limit: int, as_json: bool
) -> int:
    """Print the newest messages; returns the exit code."""

    async def read() -> int:
        async with choice.read() as box:
            found = await box.store.outbox.list(state, limit=limit)
        if as_json:
            screen.put([each.to_dict() for each in found])
        elif found:
            screen.table(_DELIVERIES, [_delivery_row(each) for each in found])
        else:
            screen.say(f"There is no such message in {box.store.address}.")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(read()))


def run_retry_delivery(choice: StoreChoice, delivery_id: str, as_json: bool) -> int:
    """Have a message sent again; returns the exit code."""

    async def retry() -> int:
        async with choice.open() as box:
            delivery = await box.store.outbox.retry(delivery_id)
        if as_json:
            screen.put(delivery.to_dict())
        else:
            screen.show(f"A gateway with the webhook {delivery.webhook} sends {delivery.id} again.")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(retry()))


def _webhook_row(facts: Mapping[str, object]) -> tuple[object, ...]:
    events = facts["events"]
    named = ", ".join(events) if isinstance(events, list) else ""
    state = facts["error"] or ("off" if facts["stopped_at"] else "on")
    return (
        facts["name"],
        named,
        facts["tools"] or "",
        state,
        facts["waiting"],
        facts["failed"],
    )


def _delivery_row(delivery: "Delivery") -> tuple[object, ...]:
    return (
        delivery.id,
        delivery.webhook,
        delivery.kind,
        delivery.state,
        delivery.attempts,
        screen.local(delivery.created_at),
        "" if delivery.status is None else delivery.status,
        delivery.call or delivery.tool,
        delivery.error or "",
    )
