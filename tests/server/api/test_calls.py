"""Calls over the API: made, listed, read, decided on, and seen only by those who may."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.api.api_client import ApiClient, People, api_of, make_box
from wieldy import Secret, Toolbox


async def make(client: ApiClient, who: str | None, tool: str, **arguments: Any) -> Any:
    return await client.post("/api/calls", {"tool": tool, "arguments": arguments}, who)


async def test_a_call_is_made_recorded_and_told_with_its_story(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        made = await make(client, "cal", "add", a=1, b="2")
        again = await client.get(f"/api/calls/{made['call_id']}", "cal")
    assert made == again
    assert (made["state"], made["value"], made["caller"]) == ("ok", 3, "cal")
    assert [(line["kind"], line["count"]) for line in made["story"]] == [
        ("proposed", None),
        ("repaired", 1),
        ("judged", None),
        ("started", None),
        ("ended", None),
    ]
    assert (made["story"][0]["by"], made["story"][-1]["state"]) == ("cal", "ok")


async def test_a_call_tells_the_calls_that_its_tool_made(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        made = await make(client, "cal", "outer")
        listed = await client.get("/api/calls", "cal", parent=made["call_id"])
    assert [child["tool"] for child in made["children"]] == ["add"]
    assert listed["calls"] == made["children"]


async def test_calls_are_listed_page_by_page_without_gaps(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    async with api_of(box) as client:
        made = [(await make(client, "cal", "add", a=n, b=0))["call_id"] for n in range(7)]
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await client.get("/api/calls", "cal", limit=3, **cursor)
            found += [call["call_id"] for call in page["calls"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
    assert found == made[::-1]


@pytest.mark.parametrize("recorded", [True, False])
async def test_waiting_calls_are_listed_page_by_page_to_those_who_may_see_them(
    recorded: bool, tmp_path: Path
) -> None:
    box = make_box(tmp_path)
    if not recorded:
        box = Toolbox()
        box.add(lambda path: path, name="wipe", permission="confirm")
    async with api_of(box) as client:
        made = [
            (await make(client, who, "wipe", path=str(number)))["call_id"]
            for number, who in enumerate(("cal", "bob", "cal", "bob", "cal"))
        ]
        # What somebody is just running leaves a gap in a page, and not its end.
        await client.post(f"/api/pending/{made[1]}/approve", {}, "ann")
        pages = {who: await read_pending(client, who) for who in ("cal", "bob", "ann")}
        one = await client.get(f"/api/pending/{made[2]}", "cal")
        gone = await client.refused("GET", f"/api/pending/{made[1]}", "bob")
    assert pages == {
        "cal": [[made[0], made[2]], [made[4]]],
        "bob": [[made[3]]],
        "ann": [[made[0], made[2]], made[3:]],
    }
    assert (one["call_id"], gone) == (made[2], (404, "not_found"))


async def read_pending(client: ApiClient, who: str) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await client.get("/api/pending", who, limit=2, **cursor)
        pages.append([call["call_id"] for call in page["pending"]])
        if page["next_cursor"] is None:
            return pages
        cursor = {"cursor": page["next_cursor"]}


async def test_filters_choose_among_calls(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        await make(client, "cal", "add", a=1, b=1)
        await make(client, "bob", "wipe", path="x")
        for params, tools in (
            ({"state": "pending"}, ["wipe"]),
            ({"tool": "add"}, ["add"]),
            ({"caller": "bob"}, ["wipe"]),
            ({"session": "cal"}, ["add"]),
            ({"since": "2100-01-01T00:00:00Z"}, []),
            ({"until": "2100-01-01T00:00:00Z"}, ["wipe", "add"]),
        ):
            page = await client.get("/api/calls", "ann", **params)
            assert [call["tool"] for call in page["calls"]] == tools, params


async def test_words_find_calls_and_no_secrets(tmp_path: Path) -> None:
    box = make_box(tmp_path)

    @box.tool(permission="confirm")
    def login(password: Secret, note: str) -> str:
        return "in"

    async with api_of(box) as client:
        ids = {
            "add": (await make(client, "cal", "add", a=4711, b=2))["call_id"],
            "wipe": (await make(client, "bob", "wipe", path="/Grüße/100%_sure"))["call_id"],
            "login": (await make(client, "bob", "login", password="hunter2-hunter2", note="Night"))[
                "call_id"
            ],
        }

        async def find(words: str, who: str = "ann") -> set[str]:
            found = (await client.get("/api/calls", who, search=words))["calls"]
            return {each["tool"] for each in found}

        found = {
            words: await find(words)
            for words in (
                "4711",
                "ADD",
                "grüße",
                "100%_sure",
                "100x_sure",
                "bob night",
                "bob 4711",
                "hunter2",
                "%",
                ids["wipe"],
                "' OR 1=1 --",
                "!",
            )
        }
        hidden = await find("4711", "bob"), await find("4711", "cal")
    assert found == {
        "4711": {"add"},
        "ADD": {"add"},
        "grüße": {"wipe"},
        "100%_sure": {"wipe"},
        "100x_sure": set(),
        "bob night": {"login"},
        "bob 4711": set(),
        "hunter2": set(),
        "%": {"wipe"},
        ids["wipe"]: {"wipe"},
        "' OR 1=1 --": set(),
        "!": set(),
    }
    assert hidden == (set(), {"add"})


async def test_nobody_sees_what_belongs_to_others_without_a_role(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    await box.sessions.append("cal", {"role": "user", "content": "hello"})
    await box.artifacts.create("plan", "# Plan", session="cal")
    request, step = '{"prompt": {"input": "hi"}}', json.dumps(_STEP)
    await box.store.runs.begin("run-1", "helper", request, step, session="cal")
    async with api_of(box) as client:
        done = await make(client, "cal", "add", a=1, b=1)
        waits = await make(client, "cal", "wipe", path="x")
        for path in ("calls", "pending", "sessions", "artifacts", "runs"):
            for who, count in (("cal", 1), ("ann", 1), ("adam", 1), ("bob", 0)):
                told = (await client.get(f"/api/{path}", who))[path]
                assert len(told) >= count if count else told == [], (path, who)
        await client.get(f"/api/calls/{done['call_id']}", "ann")
        for kind, own in (
            ("calls", done["call_id"]),
            ("pending", waits["call_id"]),
            ("sessions", "cal"),
            ("artifacts", "plan"),
            ("artifact-versions", "plan"),
            ("runs", "run-1"),
        ):
            await client.get(f"/api/{kind}/{own}", "cal")
            theirs = await client.send("GET", f"/api/{kind}/{own}", "bob")
            nothing = await client.send("GET", f"/api/{kind}/nothing", "bob")
            assert (theirs.status_code, theirs.content) == (404, nothing.content), kind
        for decision in ("approve", "deny", "answer"):
            body: dict[str, Any] = {"answers": {}} if decision == "answer" else {}
            theirs = await client.send(
                "POST", f"/api/pending/{waits['call_id']}/{decision}", "bob", json=body
            )
            nothing = await client.send("POST", f"/api/pending/x/{decision}", "bob", json=body)
            assert (theirs.status_code, theirs.content) == (404, nothing.content), decision
        stop = await client.refused(
            "POST", f"/api/calls/{done['call_id']}/interrupt", "bob", json={}
        )
        asked = await client.send("GET", "/api/artifacts/plan", "bob", params={"session": "cal"})
        listed = await client.get("/api/calls", "bob", caller="cal")
    assert stop == (404, "not_found")
    assert asked.status_code == 404
    assert listed["calls"] == []


_STEP = {"calls": [], "requests": 0, "usage": None}


async def test_an_approver_edits_the_arguments_and_says_why(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        waits = await make(client, "cal", "wipe", path="/home")
        path = f"/api/pending/{waits['call_id']}"
        own = await client.refused("POST", f"{path}/approve", "cal", json={})
        wrong = await client.refused(
            "POST", f"{path}/approve", "ann", json={"arguments": {"way": 1}}
        )
        body = {"arguments": {"path": "/tmp/x"}, "reason": "only that"}
        done = await client.post(f"{path}/approve", body, "ann")
        seen = await client.get(f"/api/calls/{waits['call_id']}", "cal")
    assert own == (403, "role_needed")
    assert wrong == (422, "invalid_arguments")
    assert (done["value"], done["arguments"]) == ("wiped /tmp/x", {"path": "/tmp/x"})
    decided = {key: seen["decision"][key] for key in ("approved", "by", "reason")}
    assert decided == {"approved": True, "by": "ann", "reason": "only that"}


@pytest.mark.parametrize(
    ("one", "other"), [("approve", "approve"), ("approve", "deny"), ("deny", "deny")]
)
async def test_of_two_who_decide_at_once_one_is_told_who_was_first(
    one: str, other: str, tmp_path: Path
) -> None:
    async with api_of(make_box(tmp_path)) as client:
        waits = await make(client, "cal", "wipe", path="x")
        path = f"/api/pending/{waits['call_id']}"
        answers = await asyncio.gather(
            client.send("POST", f"{path}/{one}", "ann", json={}),
            client.send("POST", f"{path}/{other}", "amy", json={}),
        )
        again = await client.send("POST", f"{path}/{one}", "max", json={})
        made = (await client.get(f"/api/calls/{waits['call_id']}", "ann"))["decision"]
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    late = next(answer for answer in answers if answer.status_code == 409).json()["error"]
    assert (late["code"], late["details"]["by"]) == ("already_decided", made["by"])
    assert (again.status_code, again.json()["error"]["details"]["by"]) == (409, made["by"])


async def test_whoever_repeats_their_own_decision_gets_the_same_answer(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        waits = await make(client, "cal", "wipe", path="x")
        path = f"/api/pending/{waits['call_id']}/approve"
        first, second = await client.post(path, {}, "ann"), await client.post(path, {}, "ann")
    assert first == second


async def test_a_caller_answers_the_questions_of_their_own_calls(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        waits = await make(client, "cal", "order")
        path = f"/api/pending/{waits['call_id']}"
        asked = await client.get(path, "cal")
        early = await client.refused("POST", f"{path}/approve", "ann", json={})
        missing = await client.refused("POST", f"{path}/answer", "cal", json={"answers": {}})
        done = await client.post(f"{path}/answer", {"answers": {"answer": "large"}}, "cal")
    assert list(asked["requests"]) == ["answer"]
    assert early == missing == (409, "answer_needed")
    assert done["value"] == "ordered large"


async def test_where_nobody_approves_their_own_calls_the_api_keeps_to_it(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        waits = await make(client, "max", "wipe", path="x")
        path = f"/api/pending/{waits['call_id']}"
        own = await client.refused("POST", f"{path}/approve", "max", json={})
        done = await client.post(f"{path}/approve", {}, "ann")
    assert own == (403, "own_call")
    assert done["state"] == "ok"


async def test_calls_with_one_key_run_once_and_keys_are_each_callers_own(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path)) as client:
        body = {"tool": "add", "arguments": {"a": 1, "b": 1}, "idempotency_key": "k"}
        first = await client.post("/api/calls", body, "cal")
        second = await client.post("/api/calls", body, "cal")
        other = await client.post("/api/calls", body, "bob")
    assert first["call_id"] == second["call_id"] != other["call_id"]
    assert other["caller"] == "bob"


async def test_a_running_call_is_interrupted_by_its_caller_and_by_no_approver(
    tmp_path: Path,
) -> None:
    box, entered = make_box(tmp_path), asyncio.Event()

    @box.tool
    async def sleep() -> None:
        entered.set()
        await asyncio.Event().wait()

    async with api_of(box) as client:
        running = await client.send("POST", "/api/calls", "cal", json={"tool": "sleep", "wait": 1})
        await entered.wait()
        call_id = running.json()["call_id"]
        live = (await client.get("/api/calls", "cal", state="started"))["calls"]
        path = f"/api/calls/{call_id}/interrupt"
        refused = await client.refused("POST", path, "ann", json={})
        stopped = await client.post(path, {}, "cal")
        await box.outcome(call_id)
        ended = await client.get(f"/api/calls/{call_id}", "cal")
        late = await client.refused("POST", path, "cal", json={})
    assert (running.status_code, running.json()["state"]) == (202, "started")
    assert [call["call_id"] for call in live] == [call_id]
    assert refused == (403, "role_needed")
    assert stopped["interrupted"] and ended["state"] == "interrupted"
    assert late == (409, "not_running")


async def test_long_parts_are_cut_and_can_be_read_whole(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        made = await make(client, None, "long", size=50_000)
        whole = await client.get(f"/api/calls/{made['call_id']}", whole="true")
    assert {part["part"] for part in made["cut"]} >= {"value"}
    assert len(made["value"]) == 20_000
    assert whole["value"] == "x" * 50_000


async def test_secrets_stay_covered_in_every_answer(tmp_path: Path) -> None:
    box = make_box(tmp_path)

    @box.tool(permission="confirm")
    def login(password: Secret) -> str:
        return "in"

    async with api_of(box, tokens=False) as client:
        waits = await make(client, None, "login", password="hunter2-hunter2")
        texts = [str(waits), str(await client.get("/api/pending"))]
        texts += [
            str(await client.get(f"/api/{kind}/{waits['call_id']}"))
            for kind in ("calls", "pending")
        ]
        done = await client.post(f"/api/pending/{waits['call_id']}/approve", {}, "ann")
        texts += [str(done), str(await client.get("/api/calls"))]
    assert done["value"] == "in"
    assert not any("hunter2" in text for text in texts)


async def test_a_caller_sees_and_calls_the_tools_of_their_view(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    box.rules.deny("long")
    options: dict[str, Any] = {
        "identifiers": [People({"cal": "sums", "bob": "gone"})],
        "views": {"sums": box.view(tags=["sums"])},
    }
    async with api_of(box, **options) as client:
        listed = {
            who: [tool["name"] for tool in (await client.get("/api/tools", who))["tools"]]
            for who in ("cal", "bob", "adam")
        }
        hidden = await client.refused("GET", "/api/tools/wipe", "cal")
        denied = await client.refused("GET", "/api/tools/long", "adam")
        body = {"tool": "wipe", "arguments": {"path": "x"}}
        called = await client.refused("POST", "/api/calls", "cal", json=body)
        explained = await client.refused("POST", "/api/explain", "cal", json=body)
        tool = await client.get("/api/tools/add", "cal")
    assert listed == {"cal": ["add"], "bob": [], "adam": ["add", "wipe", "order", "outer"]}
    assert hidden == denied == called == explained == (404, "not_found")
    assert tool["input_schema"]["required"] == ["a", "b"] and tool["tokens"] > 0
    assert "negative" in tool["description"]


async def test_explain_says_which_rule_decides(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    box.rules.ask("add", {"a": 13}, reason="unlucky")
    async with api_of(box) as client:
        runs = await client.post(
            "/api/explain", {"tool": "add", "arguments": {"a": 1, "b": 1}}, "cal"
        )
        asks = await client.post(
            "/api/explain", {"tool": "add", "arguments": {"a": 13, "b": 1}}, "cal"
        )
        recorded = (await client.get("/api/calls", "ann"))["calls"]
    assert (runs["decision"], asks["decision"]) == ("run", "ask")
    assert "unlucky" in asks["because"]
    assert recorded == []


async def test_where_a_view_is_served_the_api_shows_that_view(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    async with api_of(box, view=box.view(names=["add"])) as client:
        listed = (await client.get("/api/tools", "cal"))["tools"]
        hidden = await client.refused("POST", "/api/calls", "cal", json={"tool": "outer"})
    assert [tool["name"] for tool in listed] == ["add"]
    assert hidden == (404, "not_found")
