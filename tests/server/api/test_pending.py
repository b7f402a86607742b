"""What a person is told about a call that waits, and how they edit it."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.api.api_client import ApiClient, api_of, make_box
from tests.server.test_app import http
from wieldy import CallsNeeded, Context, InputNeeded, Secret, Status, Toolbox
from wieldy.core.choices import Role
from wieldy.lock.lockfile import Lock
from wieldy.server import app

TEXT = {"type": "object", "properties": {"object": {"type": "string"}}}


async def park(client: ApiClient, tool: str, who: str | None = None, **arguments: Any) -> str:
    made = await client.post("/api/calls", {"tool": tool, "arguments": arguments}, who)
    assert made["state"] == "pending"
    return str(made["call_id"])


async def problems(client: ApiClient, who: str | None = None, **body: Any) -> list[tuple[str, str]]:
    checked = await client.post("/api/check-arguments", body, who)
    return [(each["path"], each["message"]) for each in checked["problems"]]


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ({"a": 1, "b": 2}, []),
        ({"a": 1, "b": "2"}, []),
        ({"a": 1}, ["b"]),
        ({"a": "x", "b": [1]}, ["a", "b"]),
        ({"a": 1, "b": 2, "c": 3}, ["c"]),
    ],
)
async def test_arguments_are_checked_as_a_call_would_without_making_one(
    arguments: dict[str, Any], places: list[str], tmp_path: Path
) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        found = await problems(client, tool="add", arguments=arguments)
        recorded = (await client.get("/api/calls"))["calls"]
    assert [place for place, _ in found] == places
    assert all(message for _, message in found)
    assert recorded == []


async def test_nobody_checks_arguments_of_a_tool_or_call_that_they_do_not_see(
    tmp_path: Path,
) -> None:
    box = make_box(tmp_path)
    box.rules.deny("long")
    async with api_of(box) as client:
        waits = await park(client, "wipe", "cal", path="x")
        body: dict[str, Any] = {"tool": "wipe", "arguments": {"path": 1}, "call_id": waits}
        denied = {"tool": "long", "arguments": {}}
        assert [place for place, _ in await problems(client, "ann", **body)] == ["path"]
        for who, wanted in (("bob", body), ("cal", denied), ("cal", {**body, "call_id": "x"})):
            said = await client.refused("POST", "/api/check-arguments", who, json=wanted)
            assert said == (404, "not_found")


async def test_a_waiting_call_comes_with_its_rule_its_schema_and_its_origin(
    tmp_path: Path,
) -> None:
    box = make_box(tmp_path)
    box.rules.ask("add", {"a": 13}, reason="unlucky")
    async with api_of(box) as client:
        waits = await park(client, "add", "cal", a="13", b=1)
        found = await client.get(f"/api/pending/{waits}", "ann")
        own = await client.get(f"/api/pending/{waits}", "cal")
        hidden = await client.refused("GET", f"/api/pending/{waits}", "bob")
    assert found["caller"] == found["session"] == "cal"
    assert found["repairs"] and found["arguments"] == {"a": 13, "b": 1}
    assert "unlucky" in found["rule"]["because"]
    assert found["rule"]["decision"] == "ask"
    assert [rule["reason"] for rule in found["rule"]["matched"]] == ["unlucky"]
    assert found["input_schema"]["required"] == ["a", "b"]
    assert found["description"].startswith("Add two numbers.")
    assert found["traits"]["read_only"] is True
    assert found["lock"]["state"] == "none" and found["tool_changed"] is False
    assert found["origin"] == {"source": "python", "trusted": True, "untrusted_session": False}
    assert found["questions"] == []
    assert (found["decidable"], own["decidable"]) == (True, False)
    assert hidden == (404, "not_found")


async def test_whoever_may_not_approve_their_own_calls_is_told_so(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        waits = await park(client, "wipe", "max", path="x")
        assert (await client.get(f"/api/pending/{waits}", "max"))["decidable"] is False
        assert (await client.get(f"/api/pending/{waits}", "ann"))["decidable"] is True


async def test_a_thousand_clients_ask_for_one_call_and_it_runs_once(tmp_path: Path) -> None:
    box, wiped = make_box(tmp_path), list[str]()
    box.add(wiped.append, name="note", permission="confirm", input_schema=TEXT)
    async with api_of(box) as client:
        waits = await park(client, "note", "cal", object="x")
        people = ["cal", "bob", "nora", None, "max", "ann", "amy", "ann", "amy", "cal"] * 100
        path = f"/api/pending/{waits}/approve"
        answers = await asyncio.gather(*(client.send("POST", path, who, json={}) for who in people))
        call = await client.get(f"/api/calls/{waits}", "ann")
    said = {(who, answer.status_code) for who, answer in zip(people, answers, strict=True)}
    refused = {("cal", 403), ("bob", 404), ("nora", 403), (None, 401)}
    assert wiped == ["x"]
    assert {each for each in said if each[0] not in ("max", "ann", "amy")} == refused
    # Whoever comes later gets the recorded end, or is told that somebody else has decided.
    assert {status for _, status in said - refused} <= {200, 202, 409}
    assert call["state"] == "ok" and call["decision"]["by"] in ("ann", "amy", "max")


async def test_what_changed_since_the_tool_was_locked_and_asked_for_is_told(
    tmp_path: Path,
) -> None:
    first = Toolbox()
    first.add(lambda: "a", name="greet", description="Greet.")
    Lock.of(first).write(tmp_path / "tools.lock")
    box = make_box(tmp_path, lock=tmp_path / "tools.lock", on_change="quarantine")
    box.add(lambda: "a", name="greet", description="Greet all.")
    async with api_of(box, tokens=False) as client:
        waits = await park(client, "greet")
        found = await client.get(f"/api/pending/{waits}")
        box.add(lambda: "b", name="greet", description="Greet nobody.", on_conflict="override")
        changed = await client.get(f"/api/pending/{waits}")
        box.remove("greet")
        gone = await client.get(f"/api/pending/{waits}")
    assert found["lock"]["state"] == "changed" and '+    "Greet all."' in found["lock"]["diff"]
    assert [each["tool_changed"] for each in (found, changed, gone)] == [False, True, False]
    assert (gone["description"], gone["lock"], gone["rule"]["decision"]) == (None, None, None)


async def test_a_tool_that_asks_comes_with_its_questions_and_the_schema_of_the_answer(
    tmp_path: Path,
) -> None:
    box = make_box(tmp_path)
    schema = {"type": "object", "properties": {"size": {"type": "string"}}}

    @box.tool
    def ask() -> str:
        link = {"mode": "url", "url": "javascript:alert(1)", "message": "Open this"}
        raise InputNeeded(
            {
                "form": {
                    "method": "elicitation/create",
                    "params": {"message": "Which size?", "requestedSchema": schema},
                },
                "link": {"method": "elicitation/create", "params": link},
                "odd": {"method": "sampling/createMessage", "params": []},
            }
        )

    async with api_of(box, tokens=False) as client:
        waits = await park(client, "ask")
        found = (await client.get(f"/api/pending/{waits}"))["questions"]
    assert [(each["name"], each["kind"], each["message"]) for each in found] == [
        ("form", "form", "Which size?"),
        ("link", "url", "Open this"),
        ("odd", "other", ""),
    ]
    assert found[0]["answer_schema"] == schema
    assert found[1]["url"] == "javascript:alert(1)"


async def test_a_covered_secret_is_not_sent_along_with_edited_arguments(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    sent: list[str] = []

    @box.tool(permission="confirm")
    def upload(url: str, password: Secret) -> str:
        sent.append(password.get_secret_value())
        return url

    async with api_of(box, tokens=False) as client:
        waits = await park(client, "upload", url="https://ours", password="hunter2-hunter2")
        shown = (await client.get(f"/api/pending/{waits}"))["arguments"]
        edited = {**shown, "url": "https://theirs"}
        body: dict[str, Any] = {"tool": "upload", "arguments": edited, "call_id": waits}
        told = await problems(client, **body)
        path = f"/api/pending/{waits}/approve"
        refused = await client.refused("POST", path, "ann", json={"arguments": edited})
        again = {**edited, "password": "another-password"}
        fine = await problems(client, **{**body, "arguments": again})
        done = await client.post(path, {"arguments": again}, "ann")
    assert [place for place, _ in told] == ["password"]
    assert refused == (422, "wrong_value")
    assert fine == [] and done["value"] == "https://theirs"
    assert sent == ["another-password"]


@pytest.mark.parametrize("twice", [True, False])
async def test_nobody_decides_on_a_call_inside_their_own_with_any_token_of_their_name(
    twice: bool, tmp_path: Path
) -> None:
    deciding: list[Role] = ["approve", "administer"]
    async with Toolbox(store=f"sqlite:///{tmp_path / 'wieldy.db'}") as box:
        box.add(lambda: "wiped", name="wipe", permission="confirm")
        others = box.view(caller="somebody else", agent="helper")

        @box.tool
        async def tidy(context: Context) -> str:
            if context.answers is None:
                raise CallsNeeded([await context.call("wipe"), await others.call("wipe")])
            return "tidied"

        stored = await box.store.tokens.make("bob", deciding)
        ann = await box.store.tokens.make("ann", ["approve"])
        tokens = {"bob": "bob-given"} if twice else None
        made_with = "bob-given" if twice else stored
        async with http(app(box, tokens, stored_tokens=True)) as client:

            async def send(path: str, token: str) -> httpx2.Response:
                bearer = {"Authorization": f"Bearer {token}"}
                return await client.post(path, json={"tool": "tidy"} if "calls" in path else {},
                                         headers=bearer)  # fmt: skip

            assert (await send("/api/calls", made_with)).json()["state"] == "pending"
            below = [each for each in await box.pending() if each.tool == "wipe"]
            paths = [f"/api/pending/{each.id}/approve" for each in below]
            own = [await send(path, token) for path in paths for token in (stored, made_with)]
            done = [await send(path, ann) for path in paths]
    assert {each.scope.caller for each in below} == {"bob", "somebody else"}
    assert [each.json()["error"]["code"] for each in own] == ["own_call"] * 4
    assert [each.json()["state"] for each in done] == ["ok", "ok"]


async def test_a_call_whose_tool_has_changed_is_not_approved_and_can_be_denied(
    tmp_path: Path,
) -> None:
    box = make_box(tmp_path)

    def ask() -> str:
        """Ask something."""
        raise InputNeeded({"name": {"method": "elicitation/create", "params": {}}})

    box.add(ask, permission="auto")
    async with api_of(box) as client:
        decided = await park(client, "wipe", "cal", path="y")
        await client.post(f"/api/pending/{decided}/approve", {}, "ann")
        waits, asks = await park(client, "wipe", "cal", path="x"), await park(client, "ask", "cal")
        for name in ("wipe", "ask"):
            box.add(lambda path="": "other", name=name, on_conflict="override")
        body: dict[str, Any] = {"answers": {"name": {"action": "accept", "content": {}}}}
        for path, sent in ((f"{waits}/approve", {}), (f"{asks}/answer", body)):
            said = await client.refused("POST", f"/api/pending/{path}", "ann", json=sent)
            assert said == (409, "tool_changed")
            assert (await client.get(f"/api/calls/{waits}", "ann"))["state"] == "pending"
        again = await client.post(f"/api/pending/{decided}/approve", {}, "ann")
        denied = await client.post(f"/api/pending/{waits}/deny", {}, "ann")
    assert (again["state"], denied["state"]) == ("ok", "denied")


async def test_a_call_whose_tool_is_missing_for_a_while_is_approved_and_runs_when_it_is_back(
    tmp_path: Path,
) -> None:
    box = make_box(tmp_path)
    wipe = box.get("wipe")
    assert wipe is not None
    async with api_of(box) as client:
        waits = await park(client, "wipe", "cal", path="x")
        box.remove("wipe")
        assert (await client.get(f"/api/pending/{waits}", "ann"))["tool_changed"] is False
        said = await client.send("POST", f"/api/pending/{waits}/approve", "ann", json={})
        assert (said.status_code, said.json()["state"]) == (202, "approved")
        box.add(wipe)
        outcome = await box.wait(waits)
    assert (outcome.status, outcome.value) == (Status.OK, "wiped x")
