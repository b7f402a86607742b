"""A message says what happened, covers secrets, and is never large."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy import Secret, Toolbox
from wieldy.server.webhooks.messages import MAX_BODY, make_message
from wieldy.store.outbox.outbox import OutboxEvent
from wieldy.store.outbox.subscriptions import Subscription

WANTED = Subscription("all", frozenset(("call.pending", "call.failed")), None, "mark")


def make_box(folder: Path) -> Toolbox:
    box = Toolbox(store=f"sqlite:///{folder}/calls.db")

    @box.tool(permission="confirm")
    def wipe(path: str, key: Secret) -> str:
        """Wipe a path."""
        return path

    @box.tool(presets={"api_key": "preset-secret-1"})
    def ask(question: str, api_key: str) -> str:
        """Ask somebody."""
        raise ValueError(f"{question} was refused for {api_key}")

    return box


async def told_of(box: Toolbox, tool: str, **arguments: Any) -> Any:
    """The message about a call."""
    await box.store.outbox.subscribe([WANTED])
    await box.call(tool, arguments)
    await box.store.outbox.make_deliveries(make_message)
    (made, *_) = await box.store.outbox.list()
    assert len(made.body.encode()) <= MAX_BODY
    return json.loads(made.body)


async def test_secrets_are_covered_and_small_arguments_are_shown(tmp_path: Path) -> None:
    async with make_box(tmp_path) as box:
        waits = await told_of(box, "wipe", path="a", key="argument-secret-1")
        failed = await told_of(box, "ask", question="Why?")
    assert waits["type"] == "call.pending" and waits["timestamp"].endswith("Z")
    data = waits["data"]
    assert data["arguments"]["path"] == "a" and data["arguments_whole"] is False
    assert data["path"] == f"/api/calls/{data['call_id']}"
    assert "secret-1" not in json.dumps([waits, failed])
    assert "Why? was refused for" in failed["data"]["call"]["error"]
    assert "arguments" not in failed["data"]


@pytest.mark.parametrize("word", ["x", "ü", "😀", "\ud800", "\0"])
async def test_what_is_large_is_left_out(tmp_path: Path, word: str) -> None:
    async with make_box(tmp_path) as box:
        waits = await told_of(box, "wipe", path=word * 50_000, key="k" * 20)
        failed = await told_of(box, "ask", question=word * 50_000)
        unknown = await told_of(box, word * 50_000)
    assert waits["data"]["arguments"] is None and waits["data"]["call"]["state"] == "pending"
    assert len(failed["data"]["call"]["error"]) <= 1000
    assert len(unknown["data"]["tool"]) <= 1000


async def test_a_call_that_is_gone_is_told_by_its_id(tmp_path: Path) -> None:
    async with make_box(tmp_path) as box:
        await box.store.outbox.subscribe([WANTED])
        outcome = await box.call("ask", {"question": "x"}, session="s")
        await box.store.delete_session("s")
        await box.store.outbox.make_deliveries(make_message)
        (made,) = await box.store.outbox.list()
    data = json.loads(made.body)["data"]
    assert (data["call_id"], data["tool"], data["state"]) == (outcome.call.id, "ask", "error")
    assert data["call"] is None


class Row:
    """An event as the store has it."""

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(id="e", kind="tool.changed", at=1.5, call=None, state=None, **facts)


@given(st.text(max_size=40), st.dictionaries(st.text(max_size=9), st.text(max_size=3000)))
def test_any_text_gives_a_small_message(tool: str, facts: dict[str, str]) -> None:
    event = OutboxEvent(Row(tool=tool, facts=json.dumps(facts)), None)
    body = make_message(event)
    assert json.loads(body)["timestamp"] == "1970-01-01T00:00:01.500000Z"
    assert len(body.encode()) <= MAX_BODY


def test_a_row_that_can_t_be_shown_is_told_by_its_id() -> None:
    event = Row(tool="t", facts=None)
    event.__dict__.update(kind="call.failed", call="x", state="error")
    damaged: Any = object()
    data = json.loads(make_message(OutboxEvent(event, damaged)))["data"]
    assert (data["call_id"], data["call"]) == ("x", None)
