"""Webhooks and the messages to them: which there are, what became of each, try and retry."""

import re
from typing import get_args

from pydantic import Field

from wieldy.core.bounded_json import MAX_WRAPPED, parse_json
from wieldy.core.choices import DeliveryState, EventKind
from wieldy.core.errors import NotKept
from wieldy.store.outbox.outbox import Delivery

from .answer_shapes import (
    AnswerShape,
    Cursor,
    Input,
    JsonValue,
    Limit,
    Moment,
    PlainText,
    make_cursor,
)
from .api_operations import Asked, NoInput, operation
from .api_problems import Problem, not_found

_WEBHOOKS = "GET /api/webhooks"
_DELIVERIES = "GET /api/webhook-deliveries"
_ID = re.compile(r"msg_[0-9a-f]{32}")


class WebhookFacts(AnswerShape):
    """A webhook."""

    name: PlainText
    url: PlainText | None = Field(
        description="Where it is, without its query; null for a webhook of another gateway."
    )
    events: list[EventKind]
    tools: PlainText | None = Field(description="The pattern that a tool's name has to fit.")
    stopped_at: Moment | None = Field(description="When its receiver said that it wants no more.")
    error: PlainText | None = Field(description="Why it can't be read and hears of nothing.")
    waiting: int = Field(description="How many messages are still to be sent.")
    failed: int = Field(description="How many messages were given up.")


class WebhookList(AnswerShape):
    """The webhooks by name."""

    webhooks: list[WebhookFacts]


class DeliveryQuery(Input):
    """Which messages to list."""

    state: DeliveryState | None = Field(None, description="Only those in this state.")
    limit: Limit = 50
    cursor: Cursor = None


class DeliveryFacts(AnswerShape):
    """A message to a webhook."""

    id: str = Field(description="The same in every attempt, and in the header webhook-id.")
    webhook: PlainText
    event: str
    call_id: PlainText | None
    tool: PlainText | None
    state: DeliveryState
    attempts: int
    next_at: Moment | None = Field(description="When it is sent next, while it waits.")
    created_at: Moment
    ended_at: Moment | None
    status: int | None = Field(description="The HTTP status of the last answer.")
    error: PlainText | None = Field(description="Why the last attempt failed.")


class DeliveryDetail(DeliveryFacts):
    """A message in full."""

    body: JsonValue


class DeliveryPage(AnswerShape):
    """Messages, the newest first."""

    deliveries: list[DeliveryFacts]
    next_cursor: str | None


@operation("GET", "/webhooks", WebhookList, roles=("administer",))
async def list_webhooks(asked: Asked) -> WebhookList:
    """List the webhooks of all gateways on the store."""
    outbox = asked.store.outbox
    known, counts = await outbox.list_subscriptions(), await outbox.count()
    here = {hook.name: hook.shown_url for hook in asked.api.hooks}
    return WebhookList(
        webhooks=[
            WebhookFacts.model_validate(
                {
                    "name": each.name,
                    "url": here.get(each.name),
                    "events": sorted(each.events.intersection(get_args(EventKind))),
                    "tools": each.tools,
                    "stopped_at": each.stopped_at,
                    "error": each.error,
                    "waiting": counts.get((each.name, "waiting"), 0),
                    "failed": counts.get((each.name, "failed"), 0),
                }
            )
            for each in known
        ]
    )


@operation("POST", "/webhooks/{name}/test", DeliveryFacts, body=NoInput, roles=("administer",))
async def test_webhook(asked: Asked) -> DeliveryFacts:
    """Send a message that says nothing, once, and tell what came of it.

    A receiver that said it wants no more, and takes this, is sent messages again.
    """
    webhooks = asked.api.webhooks
    if webhooks is None:
        raise not_found("webhook of this gateway", _WEBHOOKS)
    try:
        return _describe(await webhooks.test(asked.part("name")))
    except NotKept:
        raise not_found("webhook of this gateway", _WEBHOOKS) from None


@operation("GET", "/webhook-deliveries", DeliveryPage, query=DeliveryQuery, roles=("administer",))
async def list_deliveries(asked: Asked) -> DeliveryPage:
    """List the messages to webhooks, the newest first."""
    query: DeliveryQuery = asked.query
    place = asked.place(float, str)
    after = None if place is None else (place[0], place[1])
    found = await asked.store.outbox.list(query.state, after, query.limit + 1)
    shown = found[: query.limit]
    more = make_cursor(shown[-1].created_at, shown[-1].id) if len(found) > len(shown) else None
    return DeliveryPage(deliveries=[_describe(each) for each in shown], next_cursor=more)


@operation("GET", "/webhook-deliveries/{delivery_id}", DeliveryDetail, roles=("administer",))
async def get_delivery(asked: Asked) -> DeliveryDetail:
    """Read one message, with what it says."""
    found = await _find(asked)
    return DeliveryDetail(**_describe(found).model_dump(), body=parse_json(found.body, MAX_WRAPPED))


@operation(
    "POST",
    "/webhook-deliveries/{delivery_id}/retry",
    DeliveryFacts,
    body=NoInput,
    roles=("administer",),
)
async def retry_delivery(asked: Asked) -> DeliveryFacts:
    """Send a message again, now and then as often as a new one; also one that was delivered."""
    found = await _find(asked)
    try:
        return _describe(await asked.store.outbox.retry(found.id))
    except NotKept:
        hint = f"Put it back into a gateway's file; {_WEBHOOKS} lists those there are."
        said = "Its webhook is not there any more."
        raise Problem(409, "webhook_removed", said, hint) from None


async def _find(asked: Asked) -> Delivery:
    delivery_id = asked.part("delivery_id")
    try:
        if _ID.fullmatch(delivery_id) is None:
            raise NotKept("delivery", delivery_id)
        return await asked.store.outbox.find(delivery_id)
    except NotKept:
        raise not_found("delivery", _DELIVERIES) from None


def _describe(delivery: Delivery) -> DeliveryFacts:
    same = ("id", "webhook", "state", "attempts", "created_at", "ended_at", "status", "error")
    return DeliveryFacts.model_validate(
        {
            **{name: getattr(delivery, name) for name in same},
            "event": delivery.kind,
            "call_id": delivery.call,
            "tool": delivery.tool or None,
            "next_at": delivery.due_at if delivery.state == "waiting" else None,
        }
    )
