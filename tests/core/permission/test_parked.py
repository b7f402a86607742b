"""What is shown of a call that waits holds no secret, with and without a store."""

import json
import logging
from pathlib import Path
from typing import Any

import pydantic
import pytest
from pydantic import SecretBytes, SecretStr

from wieldy import Call, Context, InputNeeded, Parked, Scope, Secret, Status, Toolbox
from wieldy.core.secrets.secret import MASK

KEY = "hunter2-hunter2"


@pytest.fixture(params=["memory", "store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return None if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.mark.parametrize(
    ("kind", "sent", "shown"),
    [
        (Secret, KEY, MASK),
        (SecretStr, KEY, MASK),
        (SecretBytes, KEY, MASK),
        (SecretStr | None, KEY, MASK),
        (list[Secret], [KEY, "b"], [MASK, MASK]),
        (pydantic.Secret[int], 12345678, MASK),
        (Any, {"a": [Secret(KEY)]}, {"a": [MASK]}),
        (str, f"the token {KEY}", f"the token {MASK}"),
    ],
)
async def test_shown_holds_no_secret_argument(
    store: str | None, kind: Any, sent: Any, shown: Any
) -> None:
    asked: list[Parked] = []
    async with Toolbox(store=store, approver=lambda parked: asked.append(parked)) as box:

        async def login(user: str, given: Any, token: str) -> str:
            return f"{user} with {KEY}"

        login.__annotations__["given"] = kind
        box.add(login, permission="confirm", presets={"token": KEY})
        receipt = await box.call("login", {"user": "ann", "given": sent}, session="s")
        [waiting] = await box.pending()

        for parked in (*asked, waiting):
            assert parked.shown == {"user": "ann", "given": shown}
            assert parked.to_dict()["arguments"] == parked.shown
            told = json.dumps(parked.to_dict())
            assert KEY not in told + repr(parked) and "12345678" not in told
        outcome = await box.approve(receipt.call.id)
        assert (outcome.status, outcome.text) == (Status.OK, f"ann with {MASK}")


async def test_shown_of_a_call_that_asks_holds_no_secret(store: str | None) -> None:
    async with Toolbox(store=store) as box:

        @box.tool
        async def login(password: Secret, context: Context) -> str:
            if context.answers is None:
                raise InputNeeded({"n": {"method": "elicitation/create", "params": {
                    "message": f"for {KEY}", "requestedSchema": {"type": "object"}}}})  # fmt: skip
            return "in"

        await box.call("login", {"password": KEY})
        [parked] = await box.pending()

        assert parked.shown == {"password": MASK}
        assert KEY not in json.dumps(parked.to_dict())
        assert parked.to_dict()["requests"]["n"]["params"]["message"] == f"for {MASK}"


async def test_to_dict_says_all_that_a_person_needs_as_plain_json(store: str | None) -> None:
    async with Toolbox(store=store, approval_ttl=60) as box:

        @box.tool(permission="confirm")
        async def wipe(path: str, times: int) -> None: ...

        scope = Scope("mailer", "monday", "call_0")
        await box.call(Call("wipe", {"path": "/a", "times": "2"}, scope, id="w1"))
        [parked] = await box.pending()

    told = parked.to_dict()
    assert json.loads(json.dumps(told)) == told
    when = told.pop("proposed_at"), told.pop("expires_at")
    assert when[0] < when[1] and when[0].endswith("Z")
    receipt = {"path": "times", "kind": "integer_from_text", "before": "2", "after": 2}
    assert told == {
        "call_id": "w1",
        "tool": "wipe",
        "arguments": {"path": "/a", "times": 2},
        "reason": "the tool asks for confirmation",
        "requests": None,
        "repairs": [receipt],
        "agent": "mailer",
        "session": "monday",
        "parent": "call_0",
        "caller": None,
        "run": None,
    }


async def test_pending_gives_the_calls_of_one_agent_or_session(store: str | None) -> None:
    async with Toolbox(store=store) as box:

        @box.tool(permission="confirm")
        async def wipe() -> None: ...

        for n, scope in enumerate((Scope(), Scope("a", "s"), Scope("a", "t"), Scope("b", "s"))):
            await box.call(Call("wipe", {}, scope, id=f"w{n}"))

        async def ids(**named: str) -> list[str]:
            return [parked.id for parked in await box.pending(**named)]

        assert await ids() == ["w0", "w1", "w2", "w3"]
        assert await ids(agent="a") == ["w1", "w2"]
        assert await ids(session="s") == ["w1", "w3"]
        assert await ids(agent="a", session="s") == ["w1"]
        assert await ids(agent="c") == await ids(agent="b", session="t") == []


async def test_what_is_shown_does_not_change_with_what_the_caller_sent() -> None:
    box = Toolbox()

    @box.tool(permission="confirm")
    async def wipe(paths: list[str]) -> None: ...

    paths = ["/a"]
    await box.call("wipe", {"paths": paths})
    paths.append("/b")
    [parked] = await box.pending()
    assert parked.shown == {"paths": ["/a"]}


async def test_what_an_approver_raises_is_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def approver(parked: Parked) -> bool:
        raise ValueError(f"can't judge {parked.arguments}")

    box = Toolbox(approver=approver)

    @box.tool(permission="confirm")
    async def login(password: Secret) -> None: ...

    with caplog.at_level(logging.DEBUG):
        await box.call("login", {"password": KEY})
    assert "can't judge" in caplog.text
    assert KEY not in caplog.text


async def test_answers_are_kept_until_the_last_has_come(store: str | None) -> None:
    async def ask(context: Context) -> str:
        if context.answers is None:
            form = InputNeeded.form("Which?").requests["answer"]
            raise InputNeeded({"left": form, "right": form})
        return f"{context.answers['left']} {context.answers['right']}"

    async with Toolbox(store=store) as box:
        box.add(ask)
        receipt = await box.call("ask")
        (parked,) = await box.pending()
        await box.desk.note_answers(parked, {"left": "L"})
        (kept,) = await box.pending()
        outcome = await box.answer(receipt.call.id, {"right": "R"})
        await box.desk.note_answers(parked, {"left": "too late"})

    assert (parked.given, kept.given, outcome.value) == ({}, {"left": "L"}, "L R")
