"""Runs of subagents in a store: rows inside rows, which a crash leaves to be gone on with."""

from collections import Counter
from typing import Any

from tests.agent.subagents.conftest import Execute, Make, requests
from wieldy import Call
from wieldy.agent import Agent, Budget
from wieldy.testing import Answer

ASK = Call("researcher", {"query": "What is tea?"})
NOTE = Call("note", {"text": "tea"})


class Team:
    """A writer that asks a researcher, on one store, and what the researcher's tool did."""

    def __init__(self, make: Make, url: str, says: tuple[Any, ...], *told: Any, **bound: Any):
        self.ran: Counter[str] = Counter()
        self.researcher = make("researcher", *told, store=url).use_tools(self.note)
        self.writer = make("writer", *says, store=url, **bound).use_tools(self.researcher)

    async def note(self, text: str) -> str:
        """Note something."""
        self.ran[text] += 1
        return f"noted {text}"


async def runs_of(agent: Agent) -> dict[str, Any]:
    return {run.agent: run for run in await agent.toolbox.store.runs.list()}


async def test_the_run_of_a_subagent_is_a_row_inside_that_of_its_caller(
    make: Make, url: str
) -> None:
    team = Team(make, url, (ASK, "So it is."), NOTE, "Noted.")
    response = team.writer.input("Write.").get_response()
    assert await response.async_get_data() == "So it is."

    runs = await runs_of(team.writer)
    assert (runs["writer"].id, runs["writer"].parent) == (response.run_id, None)
    assert (runs["researcher"].parent, runs["researcher"].state) == (response.run_id, "done")
    assert runs["researcher"].answer["text"] == "Noted."
    inside = await team.writer.toolbox.store.runs.inside(response.run_id)
    assert [run.id for run in inside] == [runs["researcher"].id]
    entries = {e.call.tool: e.call for e in await team.writer.toolbox.ledger.list()}
    assert entries["note"].scope.parent == entries["researcher"].id
    assert entries["note"].scope.run == runs["researcher"].id
    assert entries["note"].scope.agent == "researcher"


async def test_a_run_that_a_tool_makes_itself_is_inside_too(make: Make, url: str) -> None:
    other = make("other", "Hi.", store=url)
    writer = make("writer", Call("ask", {}), "So.", store=url)

    @writer.tool_func
    async def ask() -> str:
        return str(await other.input("Hello.").async_start())

    response = writer.input("Go.").get_response()
    await response.async_get_data()

    assert (await runs_of(writer))["other"].parent == response.run_id


async def test_a_subagent_that_was_killed_goes_on_from_its_last_step(
    make: Make, url: str, execute: Execute
) -> None:
    first = Team(make, url, (ASK, RuntimeError("away")), NOTE, "Noted.")
    response = first.writer.input("Write.").get_response()
    try:
        await response.async_get_data()
    except RuntimeError:
        inner = (await runs_of(first.writer))["researcher"].id
    # As if the process had died after the researcher's note, before its next request.
    own = f"run = '{inner}'"
    execute("UPDATE wieldy_calls SET state = 'unknown', value = NULL WHERE tool = 'researcher'")
    execute(f"DELETE FROM wieldy_run_steps WHERE {own} AND number > 2")
    execute(f"DELETE FROM wieldy_run_steps WHERE run = '{response.run_id}' AND number > 1")
    execute("UPDATE wieldy_runs SET state = 'crashed', answer = NULL")
    execute(f"UPDATE wieldy_runs SET steps = 3 WHERE id = '{inner}'")
    execute(f"UPDATE wieldy_runs SET steps = 2 WHERE id = '{response.run_id}'")
    again = Team(make, url, ("So it is.",), "Noted again.")

    assert await again.writer.async_resume(response.run_id) == "So it is."

    assert (first.ran, again.ran) == ({"tea": 1}, {})
    assert "noted tea" in requests(again.researcher)[0].text
    assert "Noted again." in requests(again.writer)[0].last
    runs = await runs_of(again.writer)
    assert len(runs) == 2 and {run.state for run in runs.values()} == {"done"}


async def test_a_subagent_that_had_ended_is_not_asked_again(
    make: Make, url: str, execute: Execute
) -> None:
    first = Team(make, url, (ASK, RuntimeError("away")), NOTE, "Noted.")
    response = first.writer.input("Write.").get_response()
    try:
        await response.async_get_data()
    except RuntimeError:
        # As if the process had died before the end of the writer's call was written.
        execute("UPDATE wieldy_calls SET state = 'unknown', value = NULL WHERE tool = 'researcher'")
    execute(f"DELETE FROM wieldy_run_steps WHERE run = '{response.run_id}' AND number > 1")
    execute(f"UPDATE wieldy_runs SET state = 'crashed', steps = 2 WHERE id = '{response.run_id}'")
    again = Team(make, url, ("So it is.",))

    assert await again.writer.async_resume(response.run_id) == "So it is."

    assert requests(again.researcher) == [] and "Noted." in requests(again.writer)[0].last


async def test_what_a_subagent_has_used_up_counts_once_when_its_caller_goes_on(
    make: Make, url: str, execute: Execute
) -> None:
    told = Answer("Noted.", usage=(60, 0))
    budget = Budget(tokens=1000)
    first = Team(make, url, (ASK, RuntimeError("away")), told, budget=budget)
    response = first.writer.input("Write.").get_response()
    try:
        await response.async_get_data()
    except RuntimeError:
        execute("UPDATE wieldy_calls SET state = 'unknown', value = NULL WHERE tool = 'researcher'")
    execute(f"DELETE FROM wieldy_run_steps WHERE run = '{response.run_id}' AND number > 1")
    execute(f"UPDATE wieldy_runs SET state = 'crashed', steps = 2 WHERE id = '{response.run_id}'")
    again = Team(make, url, (Answer("So.", usage=(5, 0)),), budget=budget)
    resumed = again.writer.resume_response(response.run_id)

    assert await resumed.async_get_data() == "So."
    assert resumed.spent["tokens"] == 65


async def test_deleting_a_session_deletes_what_subagents_did_for_it(
    make: Make, url: str, execute: Execute
) -> None:
    team = Team(make, url, (ASK, "So it is."), NOTE, "Noted.")
    team.writer._session = lambda: "ann"  # type: ignore[method-assign]
    await team.writer.input("Write.").async_start()

    await team.writer.toolbox.store.delete_session("ann")

    for table in ("wieldy_runs", "wieldy_run_steps", "wieldy_calls"):
        assert execute(f"SELECT count(*) FROM {table}") == "0"
