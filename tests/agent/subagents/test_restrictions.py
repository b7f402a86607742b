"""What restricts an agent's calls restricts those of the agents that it asks."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agent.subagents.conftest import Execute, Make
from wieldy import Call, Context, Status
from wieldy.agent import Agent as BaseAgent
from wieldy.agent import ChatSessionExtension, RunInterrupted
from wieldy.agent.response import Response

OWN_AND_SHARED = pytest.mark.parametrize("session", ["own", "shared"])
WIPE = Call("wipe", {})
SEND = Call("send", {})
LOOK = Call("look", {})


def ask(agent: str) -> Call:
    return Call(agent, {"query": "Go."})


class Agent(ChatSessionExtension, BaseAgent):
    """An agent whose calls are made in a session."""


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """The address of a store, or None for none."""
    return f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else None


class Team:
    """A boss who asks a helper, who asks a junior, and what their tools did."""

    def __init__(
        self,
        make: Make,
        store: str | None,
        *,
        boss: Any = (),
        helper: Any = (),
        junior: Any = (),
        session: Any = "own",
    ) -> None:
        self.ran: Counter[str] = Counter()
        scripts = {"junior": junior, "helper": helper, "boss": boss}
        agents = [make(name, *said, store=store, kind=Agent) for name, said in scripts.items()]
        self.junior, self.helper, self.boss = agents
        self.helper.use_tools(self.junior.as_tool(session=session))
        self.boss.use_tools(self.helper.as_tool(session=session))
        self.box = self.boss.toolbox
        tags = [each.tag for each in agents]
        self.box.add(self.wipe, destructive=True, tags=tags)
        self.box.add(self.send, permission="confirm", tags=tags)
        self.box.add(self.fetch, tags=tags)
        self.box.add(self.look, read_only=True, tags=tags)

    async def respond(self, session: str = "s1") -> Response:
        """How the boss responds in a session."""
        assert isinstance(self.boss, Agent)
        await self.boss.async_activate_chat_session(session)
        return self.boss.input("Go.").get_response()

    async def start(self, session: str = "s1") -> Any:
        """What the boss answers in a session."""
        return await (await self.respond(session)).async_get_data()

    async def interrupted(self, session: str = "s1") -> RunInterrupted:
        """How the boss is interrupted in a session."""
        with pytest.raises(RunInterrupted) as caught:
            await self.start(session)
        return caught.value

    async def wipe(self) -> str:
        """Wipe everything."""
        self.ran["wipe"] += 1
        return "wiped"

    async def send(self) -> str:
        """Send it."""
        self.ran["send"] += 1
        return "sent"

    async def look(self) -> str:
        """Look around."""
        self.ran["look"] += 1
        return "a room"

    async def fetch(self, context: Context) -> str:
        """Fetch a page."""
        context.mark_untrusted()
        return "a page"


def tools(error: RunInterrupted) -> list[str]:
    return [each.tool for each in error.pending]


def yes(error: RunInterrupted) -> dict[str, Any]:
    return {each.id: {"approved": True} for each in error.pending}


@OWN_AND_SHARED
async def test_a_denial_for_a_session_is_not_passed_by_asking_a_subagent(
    make: Make, store: str | None, session: Any
) -> None:
    team = Team(
        make,
        store,
        boss=(ask("helper"), "Done.") * 2,
        helper=(WIPE, ask("junior"), "Done.") * 2,
        junior=(WIPE, "Done.") * 2,
        session=session,
    )
    team.box.rules.deny("wipe", session="s1")

    assert await team.start() == "Done." and team.ran == {}
    assert await team.start("s2") == "Done." and team.ran == {"wipe": 2}


@OWN_AND_SHARED
async def test_a_rule_for_marked_sessions_is_not_passed_by_asking_a_subagent(
    make: Make, store: str | None, session: Any
) -> None:
    team = Team(
        make,
        store,
        boss=(ask("helper"), "Done.", Call("fetch", {}), ask("helper"), "Done."),
        helper=(ask("junior"), "Done.") * 2,
        junior=(WIPE, "Done.") * 2,
        session=session,
    )
    team.box.rules.ask(destructive=True, untrusted=True)
    assert await team.start("s2") == "Done." and team.ran == {"wipe": 1}

    error = await team.interrupted()

    assert (tools(error), team.ran) == (["wipe"], {"wipe": 1})
    assert await team.boss.async_resume(error.state, yes(error)) == "Done."
    assert team.ran == {"wipe": 2}


@OWN_AND_SHARED
async def test_an_allow_rule_of_a_subagent_is_enough_below_a_boss_who_has_none(
    make: Make, store: str | None, session: Any
) -> None:
    team = Team(
        make,
        store,
        boss=(ask("helper"), SEND, "Done."),
        helper=(SEND, "Done."),
        session=session,
    )
    team.box.rules.allow("send", agent="helper")

    error = await team.interrupted()

    assert [each.scope.agent for each in error.pending] == ["boss"]
    assert team.ran == {"send": 1}


@OWN_AND_SHARED
async def test_an_allow_rule_of_a_boss_does_not_count_for_those_who_are_asked(
    make: Make, store: str | None, session: Any
) -> None:
    team = Team(
        make,
        store,
        boss=(SEND, ask("helper"), "Done."),
        helper=(SEND, "Done."),
        session=session,
    )
    team.box.rules.allow("send", agent="boss")

    error = await team.interrupted()

    assert [each.scope.agent for each in error.pending] == ["helper"]
    assert team.ran == {"send": 1}


@OWN_AND_SHARED
async def test_there_is_one_question_however_many_levels_ask(
    make: Make, store: str | None, session: Any
) -> None:
    team = Team(
        make,
        store,
        boss=(ask("helper"), "Done."),
        helper=(ask("junior"), "Done."),
        junior=(SEND, "Done."),
        session=session,
    )
    for agent in ("boss", "helper", "junior"):
        team.box.rules.ask("send", agent=agent)

    error = await team.interrupted()

    assert [each.tool for each in await team.box.pending() if not each.waits_for] == ["send"]
    assert (tools(error), team.ran) == (["send"], {})
    assert await team.boss.async_resume(error.state, yes(error)) == "Done."
    assert team.ran == {"send": 1}


# The chain is kept with a call


@OWN_AND_SHARED
async def test_a_denial_made_meanwhile_holds_for_a_call_below_that_is_approved(
    make: Make, store: str | None, session: Any
) -> None:
    team = Team(make, store, boss=(ask("helper"), "Done."), helper=(SEND, "Done."), session=session)
    error = await team.interrupted()
    team.box.rules.deny("send", session="s1")

    assert await team.boss.async_resume(error.state, yes(error)) == "Done."

    assert team.ran == {}


@OWN_AND_SHARED
@pytest.mark.parametrize("denied", ["s1", "s2"])
async def test_a_run_that_goes_on_elsewhere_is_nested_in_what_it_was(
    make: Make, url: str, session: Any, denied: str
) -> None:
    first = Team(make, url, boss=(ask("helper"),), helper=(SEND,), session=session)
    error = await first.interrupted()
    # The helper makes one more call after the one that waited.
    second = Team(make, url, boss=("Done.",), helper=(WIPE, "Done."), session=session)
    for tool in ("send", "wipe"):
        second.box.rules.deny(tool, session=denied)

    assert await second.boss.async_resume(error.run_id, yes(error)) == "Done."

    assert second.ran == ({} if denied == "s1" else {"send": 1, "wipe": 1})


@OWN_AND_SHARED
@pytest.mark.parametrize("denied", ["s1", "s2"])
async def test_a_crashed_run_runs_a_call_below_again_within_what_it_was_nested_in(
    make: Make, url: str, execute: Execute, session: Any, denied: str
) -> None:
    first = Team(make, url, boss=(ask("helper"), "Done."), helper=(LOOK, "Done."), session=session)
    response = await first.respond()
    assert await response.async_get_data() == "Done." and first.ran == {"look": 1}
    # As if the process had died while the helper's call ran.
    execute("UPDATE wieldy_calls SET state = 'unknown', ended_at = NULL, value = NULL")
    execute("DELETE FROM wieldy_run_steps WHERE number > 1")
    execute("UPDATE wieldy_runs SET state = 'crashed', answer = NULL, steps = 2")
    second = Team(make, url, boss=("Done.",), helper=("Done.",), session=session)
    second.box.rules.deny("look", session=denied)

    assert await second.boss.async_resume(response.run_id) == "Done."

    assert second.ran == ({} if denied == "s1" else {"look": 1})


@OWN_AND_SHARED
@pytest.mark.parametrize("denied", ["s1", "s2"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "all"])
async def test_a_call_below_that_is_recovered_is_nested_in_what_it_was(
    make: Make, url: str, execute: Execute, session: Any, denied: str, named: bool
) -> None:
    first = Team(make, url, boss=(ask("helper"), "Done."), helper=(LOOK, "Done."), session=session)
    await first.start()
    execute(
        "UPDATE wieldy_calls SET state = 'unknown', ended_at = NULL, value = NULL"
        " WHERE tool = 'look'"
    )
    second = Team(make, url, session=session)
    second.box.rules.deny("look", session=denied)
    [entry] = await second.box.ledger.list(tool="look")

    [outcome] = await second.box.recover([entry.call.id] if named else None)

    assert outcome.status is (Status.DENIED if denied == "s1" else Status.OK)
    assert second.ran == ({} if denied == "s1" else {"look": 1})
