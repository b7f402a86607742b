"""What happens on a store is sent until it arrives, by one process, to those who want it."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.webhooks.receiver import Answer, Message, Receiver, is_signed, reply
from tests.store.child import eventually
from wieldy import NotKept, Secret, Toolbox
from wieldy.lock.lockfile import Lock
from wieldy.server.webhooks.dispatch import MAX_AT_ONCE, Webhooks
from wieldy.server.webhooks.posting import Postman
from wieldy.server.webhooks.webhook import Webhook
from wieldy.store.outbox.outbox import Delivery

QUICK = (0.01, 0.01)


def make_box(url: str, **options: Any) -> Toolbox:
    box = Toolbox(store=url, **options)

    @box.tool(permission="confirm")
    def wipe(path: str, key: Secret = Secret("")) -> str:  # noqa: B008 - the usual form
        """Wipe a path."""
        return f"wiped {path}"

    @box.tool
    def fail(word: str = "no") -> str:
        """Fail."""
        raise ValueError(word)

    @box.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return box


def box_in(folder: Path) -> Toolbox:
    return make_box(f"sqlite:///{folder}/calls.db")


@asynccontextmanager
async def sending(box: Toolbox, *hooks: Webhook, **options: Any) -> AsyncIterator[Webhooks]:
    """The webhooks of a box while they run, known to the store."""
    webhooks = Webhooks(box, postman=Postman(**{"pauses": QUICK, **options}), pause=0.05)
    async with webhooks.running():
        await webhooks.use(hooks)
        yield webhooks


async def ended(webhooks: Webhooks, count: int = 1) -> list[Delivery]:
    """All messages, as soon as this many have ended."""

    async def are_over() -> bool:
        found = await webhooks.outbox.list(limit=500)
        return sum(each.state != "waiting" for each in found) >= count

    await eventually(are_over)
    return await webhooks.outbox.list()


def kinds(messages: list[Message]) -> list[tuple[str, str]]:
    return sorted((each.content["type"], each.content["data"]["tool"]) for each in messages)


async def test_what_waits_is_decided_and_fails_is_sent_and_signed(
    url: str, receiver: Receiver
) -> None:
    async with make_box(url) as box, sending(box, receiver.hook()) as webhooks:
        await box.call("add", {"a": 1, "b": 2})
        given = {"path": "a", "key": "hush-hush-hush"}
        parked = await box.call("wipe", given, session="cal")
        (waits,) = await receiver.wait_for(1)
        await box.approve(parked.call.id, by="ann", reason="fine")
        await box.call("fail")
        received = await receiver.wait_for(3)
        delivered = await ended(webhooks, 3)

    assert kinds(received) == [
        ("call.decided", "wipe"),
        ("call.failed", "fail"),
        ("call.pending", "wipe"),
    ]
    assert waits.headers["content-type"] == "application/json"
    data = waits.content["data"]
    assert (data["call_id"], data["state"]) == (parked.call.id, "pending")
    assert (data["call"]["session"], data["arguments"]["path"]) == ("cal", "a")
    assert b"hush" not in b"".join(each.body for each in received)
    told = {each.content["type"]: each.content["data"] for each in received}
    decision = told["call.decided"]["call"]["decision"]
    assert (decision["approved"], decision["by"], decision["reason"]) == (True, "ann", "fine")
    assert "no" in told["call.failed"]["call"]["error"]
    assert {each.id for each in received} == {each.id for each in delivered}
    assert {(each.state, each.status, each.attempts) for each in delivered} == {
        ("delivered", 200, 1)
    }


async def test_a_webhook_hears_what_it_wants_and_nothing_of_before(
    url: str, receiver: Receiver
) -> None:
    some = receiver.hook("some", events=["call.failed"], tools="f*")
    other = receiver.hook("other", events=["call.failed"])
    async with make_box(url) as box:
        await box.call("fail")
        async with sending(box, some, other) as webhooks:
            await box.call("nothing")
            await box.call("wipe", {"path": "a"})
            await box.call("fail")
            received = await receiver.wait_for(3)
            await ended(webhooks, 3)
    assert sorted((each.path, each.content["data"]["tool"]) for each in received) == [
        ("/other", "fail"),
        ("/other", "nothing"),
        ("/some", "fail"),
    ]
    assert len({each.id for each in received}) == 3


async def test_a_message_is_sent_again_with_its_id_until_it_is_taken(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answers = [reply("500 Oh no"), reply("503 Later", "retry-after: 0")]
    async with box_in(tmp_path) as box, sending(box, receiver.hook()) as webhooks:
        await box.call("fail")
        received = await receiver.wait_for(3)
        (delivery,) = await ended(webhooks)
    assert {each.id for each in received} == {delivery.id}
    assert (delivery.state, delivery.attempts, delivery.error) == ("delivered", 3, None)
    assert webhooks.attempts == {("here", "retried"): 2, ("here", "delivered"): 1}


async def test_what_never_arrives_is_given_up_listed_and_sent_again_when_asked(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answers = [reply("500 Oh no")] * 3
    async with box_in(tmp_path) as box, sending(box, receiver.hook()) as webhooks:
        await box.call("fail")
        (failed,) = await ended(webhooks)
        assert (failed.state, failed.attempts, failed.status) == ("failed", 3, 500)
        assert failed.error == "it answered 500 Oh no"
        assert await webhooks.outbox.list("failed") == [failed]
        assert await webhooks.outbox.count() == {("here", "failed"): 1}
        again = await webhooks.outbox.retry(failed.id)
        assert (again.state, again.attempts) == ("waiting", 0)
        await receiver.wait_for(4)
        (taken,) = await ended(webhooks)
    assert (taken.id, taken.state) == (failed.id, "delivered")


async def stay_silent(message: Message, writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    await asyncio.Event().wait()


async def never_end_head(message: Message, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x-more: and more\r\n")
        await writer.drain()
        await asyncio.sleep(0)


async def send_without_end(message: Message, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"4\r\nmore\r\n")
        await writer.drain()


async def hang_up(message: Message, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def talk_nonsense(message: Message, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff nonsense\r\n\r\n")
    writer.close()


TEN_MEGABYTES = reply("200 OK", body=b"x" * 10_000_000)
ODD_ANSWERS: list[tuple[Answer, str, int | None, str]] = [
    (TEN_MEGABYTES, "delivered", 200, ""),
    (send_without_end, "delivered", 200, ""),
    (reply("204 Nothing"), "delivered", 204, ""),
    (reply("200 OK", "content-encoding: gzip", body=b"no gzip"), "delivered", 200, ""),
    (stay_silent, "failed", None, "did not answer within 0.5 s"),
    (never_end_head, "failed", None, ""),
    (hang_up, "failed", None, "failed"),
    (talk_nonsense, "failed", None, "failed"),
    (reply("302 Found", "location: http://127.0.0.1:1/"), "failed", 302, "not followed"),
    (reply("308 Moved", "location: /elsewhere"), "failed", 308, "not followed"),
    (reply("404 \x1b[31mNone"), "failed", 404, "it answered 404 "),
]


@pytest.mark.parametrize(("answer", "state", "status", "said"), ODD_ANSWERS)
async def test_a_receiver_that_answers_oddly_is_bounded(
    answer: Answer, state: str, status: int | None, said: str, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answers = [answer]
    options: dict[str, Any] = {"pauses": (), "seconds": 0.5}
    async with box_in(tmp_path) as box, sending(box, receiver.hook(), **options) as webhooks:
        await box.call("fail")
        (delivery,) = await ended(webhooks)
    assert (delivery.state, delivery.status) == (state, status)
    assert said in (delivery.error or "") and "\x1b" not in (delivery.error or "")
    assert len(receiver.received) == 1, "no redirect was followed"


async def test_a_receiver_that_is_gone_is_told_no_more_until_it_takes_a_test(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answers = [reply("410 Gone"), reply("410 Gone")]
    hook = receiver.hook()
    async with box_in(tmp_path) as box, sending(box, hook) as webhooks:
        await box.call("fail")
        (gone,) = await ended(webhooks)
        assert (gone.state, gone.attempts) == ("failed", 1)

        async def is_off() -> bool:
            return (await webhooks.outbox.list_subscriptions())[0].stopped_at is not None

        await eventually(is_off)
        await box.call("fail")
        await eventually(lambda: _has_no_events(webhooks))
        assert (await webhooks.test("here")).state == "failed"
        assert await is_off(), "it was asked, and is still gone"
        assert (await webhooks.test("here")).state == "delivered"
        await box.call("fail")
        received = await receiver.wait_for(4)
        await ended(webhooks, 4)
    types = [each.content["type"] for each in received]
    assert types == ["call.failed", "webhook.test", "webhook.test", "call.failed"]


async def test_another_address_is_told_again(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers = [reply("410 Gone")]
    async with box_in(tmp_path) as box, sending(box, receiver.hook()) as webhooks:
        await webhooks.test("here")
        await webhooks.use([Webhook("here", f"{receiver.url}/new", _secret(), allow_private=True)])
        await box.call("fail")
        received = await receiver.wait_for(2)
    assert received[1].path == "/new"


def _secret() -> str:
    return "a text of more than 24 characters"


async def test_both_secrets_sign_while_one_is_changed(tmp_path: Path, receiver: Receiver) -> None:
    old, new = _secret_of(b"o"), _secret_of(b"n")
    hook = receiver.hook(secret=new, old_secret=old)
    async with box_in(tmp_path) as box, sending(box, hook) as webhooks:
        await webhooks.test("here")
    (message,) = receiver.received
    assert is_signed(message, old) and is_signed(message, new)
    assert not is_signed(message, _secret_of(b"x"))


def _secret_of(letter: bytes) -> str:
    return "whsec_" + base64.b64encode(letter * 32).decode()


async def test_processes_on_one_store_send_each_message_once(url: str, receiver: Receiver) -> None:
    boxes = [make_box(url) for _ in range(3)]
    hook = receiver.hook()
    async with (
        boxes[0],
        boxes[1],
        boxes[2],
        sending(boxes[0], hook) as first,
        sending(boxes[1], hook),
        sending(boxes[2], hook),
    ):
        await asyncio.gather(*(box.call("fail") for box in boxes for _ in range(20)))
        await ended(first, 60)
    ids = [each.id for each in receiver.received]
    assert len(ids) == len({*ids}) == 60


async def test_a_slow_receiver_holds_up_nobody_else(tmp_path: Path) -> None:
    async with (
        Receiver() as slow,
        Receiver() as quick,
        box_in(tmp_path) as box,
        sending(box, slow.hook("slow"), quick.hook("quick")) as webhooks,
    ):
        slow.answers = [stay_silent] * 30
        for _ in range(20):
            await box.call("fail")
        await quick.wait_for(20)
        assert len(slow.received) <= MAX_AT_ONCE
        await webhooks.use([])


async def test_a_removed_webhook_is_sent_nothing_and_calls_leave_no_trace(
    url: str, receiver: Receiver
) -> None:
    receiver.answers = [reply("500 Oh no")] * 5
    hook, hour = receiver.hook(), (3600.0,)
    async with make_box(url) as box, sending(box, hook, pauses=hour) as webhooks:
        await box.call("fail")
        await receiver.wait_for(1)
        await webhooks.use([])
        await box.call("fail")
        (failed,) = await ended(webhooks)
        assert (failed.state, "removed" in str(failed.error)) == ("failed", True)
        assert await webhooks.outbox.find_work() == (False, frozenset())
        assert await webhooks.outbox.list_subscriptions() == []
        with pytest.raises(NotKept):
            await webhooks.test("here")
    assert len(receiver.received) == 1


NEAR = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "::ffff:192.168.0.1"]


@pytest.mark.parametrize("address", NEAR)
async def test_a_name_that_leads_to_a_near_address_is_refused(tmp_path: Path, address: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return [address]

    hook = Webhook("far", "https://far.example.com/", _secret())
    async with box_in(tmp_path) as box, sending(box, hook, resolve=resolve) as webhooks:
        tried = await webhooks.test("far")
    assert (tried.state, tried.status) == ("failed", None)
    assert "far.example.com is on this machine or its network" in str(tried.error)


@pytest.mark.parametrize("error", [OSError("no such name"), RuntimeError(), UnicodeError("odd")])
async def test_a_name_that_can_t_be_resolved_is_tried_again(
    tmp_path: Path, error: Exception
) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        raise error

    hook = Webhook("far", "https://far.example.com/", _secret())
    async with box_in(tmp_path) as box, sending(box, hook, resolve=resolve) as webhooks:
        await box.call("fail")
        (failed,) = await ended(webhooks)
    assert (failed.state, failed.attempts, len(asked)) == ("failed", 3, 3)
    assert failed.error


async def test_a_name_that_changes_its_address_is_checked_each_time(
    tmp_path: Path, receiver: Receiver
) -> None:
    asked: list[str] = []

    async def rebind(host: str, port: int) -> list[str]:
        asked.append(host)
        # The first answer is far and takes no connection, the second one is this machine.
        return ["192.0.2.1", "127.0.0.1"] if len(asked) == 1 else ["127.0.0.1"]

    port = receiver.url.rpartition(":")[2]
    hook = Webhook("far", f"https://far.example.com:{port}/", _secret())
    async with box_in(tmp_path) as box, sending(box, hook, resolve=rebind) as webhooks:
        tried = [await webhooks.test("far") for _ in range(3)]
    assert len(asked) == 3 and all("on this machine" in str(each.error) for each in tried)
    assert receiver.received == []


async def test_a_tool_that_differs_from_the_lock_is_told_once_for_each_definition(
    url: str, tmp_path: Path, receiver: Receiver
) -> None:
    lock = tmp_path / "tools.lock"
    Lock.of(make_box(url).all_tools()).write(lock)
    hook = receiver.hook(events=["tool.changed"])

    def change(box: Toolbox, words: str) -> None:
        box.add(lambda a: a, name="add", description=words, on_conflict="override")

    async with make_box(url, lock=lock) as box, sending(box, hook) as webhooks:
        change(box, "Add otherwise.")
        await receiver.wait_for(1)
        change(box, "Add otherwise.")
        change(box, "Add in a third way.")
        await receiver.wait_for(2)
        await ended(webhooks, 2)
    async with make_box(url, lock=lock, on_change="warn") as box, sending(box, hook) as webhooks:
        # It has seen that the tool is as it was locked.
        await eventually(lambda: _knows_no_change(webhooks))
        change(box, "Add in a third way.")
        received = await receiver.wait_for(3)
    told = [each.content["data"] for each in received]
    assert [(each["tool"], each["blocked"]) for each in told] == [
        ("add", True),
        ("add", True),
        ("add", False),
    ]
    assert all("changed since it was locked" in each["reason"] for each in told)
    assert len({each.id for each in received}) == 3


async def _has_no_events(webhooks: Webhooks) -> bool:
    return not (await webhooks.outbox.find_work())[0]


async def _knows_no_change(webhooks: Webhooks) -> bool:
    return await webhooks.outbox.list_changed_tools() == {}


async def test_webhooks_need_a_store_and_names_of_their_own(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with Toolbox() as box:
        with pytest.raises(ValueError, match="need a toolbox with a store"):
            Webhooks(box)
    async with box_in(tmp_path) as box:
        with pytest.raises(ValueError, match="same name"):
            Webhooks(box, [receiver.hook(), receiver.hook()])
