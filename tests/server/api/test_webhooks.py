"""Webhooks over the API: listed, tried, and their messages retried, by those who administer."""

import re
from pathlib import Path

from tests.server.api.api_client import ApiClient, api_of, make_box
from tests.server.webhooks.receiver import Receiver, reply
from tests.store.child import eventually
from wieldy.server.webhooks.dispatch import Webhooks
from wieldy.server.webhooks.posting import Postman
from wieldy.store.outbox.subscriptions import Subscription

DELIVERIES = "/api/webhook-deliveries"


async def has_states(client: ApiClient, *states: str) -> bool:
    found = (await client.get(DELIVERIES, "adam"))["deliveries"]
    return [each["state"] for each in found] == [*states]


async def test_webhooks_are_listed_tried_and_retried(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    async with Receiver() as receiver:
        hook = receiver.hook("chat", tools="w*", events=["call.pending", "call.decided"])
        webhooks = Webhooks(box, [hook], Postman(pauses=()))
        async with api_of(box, webhooks=webhooks) as client:
            tried = await client.post("/api/webhooks/chat/test", {}, "adam")
            assert (tried["state"], tried["status"], tried["event"]) == (
                "delivered",
                200,
                "webhook.test",
            )
            receiver.answers = [reply("500 No")]
            made = await client.post(
                "/api/calls", {"tool": "wipe", "arguments": {"path": "a"}}, "cal"
            )
            await eventually(lambda: has_states(client, "failed", "delivered"))
            listed = await client.get("/api/webhooks", "adam")
            (failed,) = (await client.get(DELIVERIES, "adam", state="failed"))["deliveries"]
            whole = await client.get(f"{DELIVERIES}/{failed['id']}", "adam")
            figures = (await client._client.get("/metrics", headers=_token("adam"))).text
            again = await client.post(f"{DELIVERIES}/{failed['id']}/retry", {}, "adam")
            await eventually(lambda: has_states(client, "delivered", "delivered"))
            first = await client.get(DELIVERIES, "adam", limit=1)
            second = await client.get(DELIVERIES, "adam", limit=1, cursor=first["next_cursor"])
    assert listed == {
        "webhooks": [
            {
                "name": "chat",
                "url": hook.url,
                "events": ["call.decided", "call.pending"],
                "tools": "w*",
                "stopped_at": None,
                "error": None,
                "waiting": 0,
                "failed": 1,
            }
        ]
    }
    assert (failed["call_id"], failed["tool"], failed["error"]) == (
        made["call_id"],
        "wipe",
        "it answered 500 No",
    )
    assert whole["body"]["data"]["call_id"] == made["call_id"]
    assert again["state"] == "waiting"
    assert [first["deliveries"][0]["id"], second["deliveries"][0]["id"]] == [
        failed["id"],
        tried["id"],
    ]
    assert second["next_cursor"] is None
    assert re.search(r'wieldy_webhook_deliveries\{state="failed",webhook="chat"\} 1', figures)
    assert re.search(r'wieldy_webhook_attempts_total\{result="failed",webhook="chat"\} 1', figures)


def _token(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-secret"}


async def test_the_webhooks_of_another_gateway_are_listed_without_their_address(
    tmp_path: Path,
) -> None:
    box = make_box(tmp_path)
    other = Subscription("other", frozenset(("call.failed",)), None, "mark")
    await box.store.outbox.subscribe([other])
    async with api_of(box) as client:
        (listed,) = (await client.get("/api/webhooks", "adam"))["webhooks"]
        refused = await client.refused("POST", "/api/webhooks/other/test", "adam", json={})
    assert (listed["name"], listed["url"], refused) == ("other", None, (404, "not_found"))


async def test_a_message_to_a_webhook_that_was_removed_can_t_be_sent(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    outbox = box.store.outbox
    await outbox.subscribe([Subscription("gone", frozenset(("call.failed",)), None, "mark")])
    await box.call("nothing")
    await outbox.make_deliveries(lambda event: "{}")
    await outbox.subscribe([], ["gone"])
    async with api_of(box) as client:
        (failed,) = (await client.get(DELIVERIES, "adam"))["deliveries"]
        path = f"{DELIVERIES}/{failed['id']}/retry"
        said = await client.refused("POST", path, "adam", json={})
        for who in ("ann", "cal"):
            refused = await client.refused("POST", path, who, json={})
            assert refused == (403, "role_needed")
    assert (failed["state"], said) == ("failed", (409, "webhook_removed"))
