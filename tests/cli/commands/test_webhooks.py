"""`wieldy webhooks`: what the store knows of webhooks, and sending again."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from wieldy import Toolbox
from wieldy.store.outbox.outbox import SendResult
from wieldy.store.outbox.subscriptions import Subscription


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with a webhook and a message to it that has failed."""
    url = f"sqlite:///{tmp_path}/calls.db"

    async def fill() -> None:
        async with Toolbox(store=url) as box:
            outbox = box.store.outbox
            wanted = Subscription("chat", frozenset(("call.failed",)), "n*", "mark")
            await outbox.subscribe([wanted])
            await box.call("nothing")
            await outbox.make_deliveries(lambda event: "{}")
            (claimed,) = await outbox.claim("chat", 1)
            await outbox.settle(claimed, SendResult("failed", 500, "it answered 500 \x1b[31mNo"))

    asyncio.run(fill())
    return url


def test_webhooks_and_messages_are_listed_and_sent_again(command: Command, store: str) -> None:
    at = ("--store", store)
    listed = json.loads(command("webhooks", "list", "--json", *at).stdout)
    facts = {"events": ["call.failed"], "tools": "n*", "stopped_at": None, "error": None}
    assert listed == [{"name": "chat", **facts, "waiting": 0, "failed": 1}]
    assert "chat" in command("webhooks", "list", *at).stdout
    failed = ("webhooks", "deliveries", "--state", "failed", *at)
    (message,) = json.loads(command(*failed, "--json").stdout)
    assert (message["webhook"], message["status"], message["tool"]) == ("chat", 500, "nothing")
    shown = command(*failed).stdout
    assert message["id"] in shown and "\x1b" not in shown
    again = command("webhooks", "retry", message["id"], *at)
    assert (again.exit_code, message["id"] in again.stdout) == (0, True)
    assert "no such message" in command(*failed).stderr
    (waits,) = json.loads(command("webhooks", "deliveries", "--json", *at).stdout)
    assert (waits["state"], waits["attempts"]) == ("waiting", 0)


def test_what_is_not_there_is_said(command: Command, store: str, tmp_path: Path) -> None:
    lost = command("webhooks", "retry", "msg_0", "--store", store)
    assert lost.exit_code != 0 and "msg_0" in lost.stderr
    empty = f"sqlite:///{tmp_path}/empty.db"
    command("token", "make", "ann", "--store", empty)
    assert "[[webhooks]]" in command("webhooks", "list", "--store", empty).stderr
    assert command("webhooks", "deliveries", "--state", "lost", "--store", store).exit_code == 2
