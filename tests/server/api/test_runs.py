"""Runs of agents over the API: what was said in them, and how they go on."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.server.api.api_client import ApiClient, api_of
from wieldy import Call
from wieldy.agent import Agent, ServedAgent
from wieldy.testing import Answer, ScriptedModel

REFUND = Call("refund", {"order": "A-17"})


def make_served(folder: Path, *answers: Any) -> ServedAgent:
    """An agent that pays back, if a person agrees."""
    model = ScriptedModel(answers)
    store = f"sqlite:///{folder}/desk.db"
    agent = Agent(model, name="desk", tool_strategy="native", store=store)

    def refund(order: str) -> str:
        return f"paid {order}"

    agent.toolbox.add(refund, tags=[agent.tag], permission="confirm")
    return ServedAgent(agent)


async def ask(client: ApiClient, who: str) -> tuple[str, str]:
    """The ids of a run that waits for a person, and of the call that it waits for."""
    await client.post("/api/calls", {"tool": "desk", "arguments": {"query": "Pay A-17."}}, who)
    run = (await client.get("/api/runs", "adam"))["runs"][0]
    pending = (await client.get("/api/pending", "adam"))["pending"][0]
    return run["run_id"], pending["call_id"]


async def test_a_run_tells_what_was_said(tmp_path: Path) -> None:
    script = Answer("Let me pay.", [REFUND], thinking="Hm."), "It is paid."
    served = make_served(tmp_path, *script)
    options: dict[str, Any] = {"agents": [served], "view": served.view}
    async with api_of(served.box, **options) as client:
        run_id, call_id = await ask(client, "cal")
        waiting = await client.get(f"/api/runs/{run_id}", "adam")
        await client.post(f"/api/pending/{call_id}/approve", {}, "ann")
        done = await client.get(f"/api/runs/{run_id}", "adam")
        hidden = await client.refused("GET", f"/api/runs/{run_id}", "bob")
    assert waiting["state"] == "interrupted"
    said = [(each["role"], each["content"]) for each in done["messages"]]
    assert said[-3][1] == "Let me pay." and said[-1] == ("assistant", "It is paid.")
    assert "Pay A-17." in str(said[:-3])
    assert [each["thinking"] for each in done["messages"] if each["calls"]] == ["Hm."]
    assert [each["calls"] for each in done["messages"] if each["calls"]] == [[call_id]]
    answer = done["messages"][-2]
    assert (answer["role"], answer["tool"], answer["call_id"]) == ("tool", "refund", call_id)
    assert answer["content"] == [{"type": "text", "text": "paid A-17"}]
    assert (done["state"], done["resumable"]) == ("done", False)
    assert hidden == (404, "not_found")


async def test_a_run_that_failed_is_resumed_by_those_who_may(tmp_path: Path) -> None:
    broken = Answer("", error=RuntimeError("the model broke"))
    served = make_served(tmp_path, broken, "It is well.")
    agent = served.agent
    response = agent.input("Hello.").get_response()
    with pytest.raises(Exception, match="broke"):
        await response.async_get_text()
    run_id = response.run_id
    async with api_of(served.box, agents=[served], view=served.view) as client:
        before = await client.get(f"/api/runs/{run_id}", "adam")
        seen = await client.get(f"/api/runs/{run_id}", "ann")
        path = f"/api/runs/{run_id}/resume"
        by_others = [await client.refused("POST", path, who, json={}) for who in ("cal", "max")]
        resumed = await client.send("POST", path, "adam", json={})
        after = await client.get(f"/api/runs/{run_id}", "adam")
        again = await client.refused("POST", path, "adam", json={})
    assert (before["state"], before["resumable"], seen["resumable"]) == ("failed", True, False)
    assert by_others == [(404, "not_found"), (403, "role_needed")]
    assert (resumed.status_code, resumed.json()["state"]) == (202, "done")
    assert after["messages"][-1]["content"] == "It is well."
    assert again == (409, "not_resumable")


async def test_a_run_whose_agent_is_not_served_here_does_not_go_on(tmp_path: Path) -> None:
    served = make_served(tmp_path, Answer("", [REFUND]))
    async with api_of(served.box, view=served.view) as client:
        run_id, _ = await ask(client, "cal")
        told = await client.get(f"/api/runs/{run_id}", "adam")
        refused = await client.refused("POST", f"/api/runs/{run_id}/resume", "adam", json={})
    assert told["resumable"] is False
    assert refused == (409, "not_resumable")


async def test_a_call_of_a_run_that_has_ended_is_not_approved(tmp_path: Path) -> None:
    served = make_served(tmp_path, REFUND, "It is paid.")
    options: dict[str, Any] = {"agents": [served], "view": served.view}
    async with api_of(served.box, **options) as client:
        run_id, call_id = await ask(client, "cal")
        with closing(sqlite3.connect(tmp_path / "desk.db")) as other, other:
            other.execute("UPDATE wieldy_runs SET state = 'failed'")
        path = f"/api/pending/{call_id}"
        refused = await client.send("POST", f"{path}/approve", "ann", json={})
        denied = await client.post(f"{path}/deny", {}, "ann")
    said = refused.json()["error"]
    assert (refused.status_code, said["code"]) == (409, "run_ended")
    assert said["details"] == {"run": run_id, "state": "failed"}
    assert denied["state"] == "denied"
