"""What is written of a run comes back as it was, and holds no secrets."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel

from tests.agent.runs.conftest import Execute, MakeShop
from tests.agent.runs.shapes import Author, Chapter, Genre
from tests.agent.runs.test_resuming import NOTE, REFUND, interrupted, yes
from wieldy import Call, Secret
from wieldy.agent import Agent, ChatSessionExtension, StateRefused
from wieldy.agent.output.output_form import OutputForm
from wieldy.agent.output.output_record import read_recorded_output, write_output
from wieldy.agent.run_state import RunState
from wieldy.agent.runs.run_record import read_state
from wieldy.agent.runs.run_values import read_turn, write_turn
from wieldy.core.call import Outcome, Status
from wieldy.models.model import Answers, ModelEvent, ModelRequest, Reply, Said, Turn
from wieldy.models.openai import chat_messages
from wieldy.testing import ScriptedModel


@pytest.mark.parametrize(
    "output",
    [
        None,
        str,
        int,
        "one word",
        (int, "how many"),
        {"a": (str, "text"), "b": [(int, "numbers")], "c": {"d": (bool,)}},
        [(str, "a name")],
        {"a": (Author, "who")},
        Author,
        list[Author],
        Chapter,
        {"first": (Chapter, "of the book"), "others": [Chapter]},
        list[Chapter],
        dict[str, int],
        int | None,
        Optional[Author],  # noqa: UP045 - as older programs write it
        Literal["a", "b"],
        Genre,
        Any,
        {"type": "object", "properties": {"a": {"type": "string"}}},
    ],
)
def test_an_output_comes_back_as_it_was(output: Any) -> None:
    again = read_recorded_output(json.loads(json.dumps(write_output(output))))

    assert OutputForm(again).describe() == OutputForm(output).describe()
    assert OutputForm(again).kind == OutputForm(output).kind
    if isinstance(output, type):
        assert again is output


def test_a_model_that_is_not_found_again_is_asked_for_by_its_schema() -> None:
    class Local(BaseModel):
        name: str

    again = read_recorded_output(json.loads(json.dumps(write_output(Local))))

    assert OutputForm(again).read_data('{"name": "Emma"}') == {"name": "Emma"}
    nested = read_recorded_output(json.loads(json.dumps(write_output({"who": (Local, "who")}))))
    assert OutputForm(nested).describe() == OutputForm({"who": (Local, "who")}).describe()


def test_a_model_with_fields_of_its_own_type_is_asked_for_where_it_is_not_found_again() -> None:
    written = json.dumps(write_output({"first": (Chapter, "of the book")}))
    again = read_recorded_output(json.loads(written.replace("Chapter", "Gone")))

    for name in Chapter.model_fields:
        assert f'"{name}"' in OutputForm(again).describe()


def test_turns_are_told_to_the_model_in_the_same_words() -> None:
    call = Call("add", {"a": 1}, provider_id="c1")
    raw: dict[str, Any] = {
        "role": "assistant",
        "content": None,
        "extra": {"signature": "x"},
        "tool_calls": [],
    }
    failed = Call("add", {"a": 2}, provider_id="c2")
    turns: list[Turn] = [
        Said("user", [{"type": "text", "text": "hi"}]),
        Reply("openai", raw, "", [call, failed], thinking="hm"),
        Answers([Outcome(call, Status.OK, {"sum": 3})], [call, failed]),
    ]
    again = [read_turn(json.loads(json.dumps(write_turn(turn)))) for turn in turns]

    assert chat_messages(again) == chat_messages(turns)


def add_login(agent: Agent, ran: list[str]) -> None:
    async def login(password: Secret) -> str:
        """Log in."""
        ran.append(password.get_secret_value())
        return "welcome"

    agent.toolbox.add(login, tags=[agent.tag], permission="confirm")


@pytest.mark.parametrize("stored", [True, False])
async def test_no_secret_that_a_call_was_sent_is_in_what_is_written(
    make_shop: MakeShop, url: str, execute: Execute, stored: bool
) -> None:
    ran: list[str] = []
    shop = make_shop(
        Call("login", {"password": 'hunter2"hunter2'}),
        "In.",
        **({"store": url} if stored else {}),
    )
    add_login(shop.agent, ran)
    error = await interrupted(shop.agent.input("Log in.").async_start())
    kept = execute("SELECT body FROM wieldy_run_steps") if stored else json.dumps(error.state)

    assert "hunter2" not in kept
    assert await shop.agent.async_resume(error.state, yes(error)) == "In."
    assert ran == ['hunter2"hunter2']


async def test_a_call_whose_secrets_were_not_kept_is_made_again_by_the_model(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    ran: list[str] = []
    shop = make_shop(Call("login", {"password": "hunter2hunter2"}), "Again?", store=url)
    add_login(shop.agent, ran)
    error = await interrupted(shop.agent.input("Log in.").async_start())
    # As if the process had died before the call was parked.
    execute("DELETE FROM wieldy_calls")
    execute("DELETE FROM wieldy_run_steps WHERE number = 2")
    execute("UPDATE wieldy_runs SET steps = 2, state = 'crashed'")

    assert await shop.agent.async_resume(error.run_id) == "Again?"
    assert ran == []
    assert "secret arguments were not kept" in shop.model.requests[1].last


async def test_a_type_that_is_lost_is_named(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    shop = make_shop(REFUND, "{}", store=url)
    error = await interrupted(shop.agent.input("Go.").output(Genre).async_start())
    for column, table in (("body", "wieldy_run_steps"), ("request", "wieldy_runs")):
        execute(f"UPDATE {table} SET {column} = replace({column}, 'Genre', 'Gone')")

    with pytest.raises(StateRefused, match=r"shapes\.Gone"):
        await shop.agent.async_resume(error.state, yes(error))


async def test_a_resumed_run_is_a_turn_of_its_conversation(
    url: str, make_shop: Callable[..., Any]
) -> None:
    class Talker(ChatSessionExtension, Agent):
        """An agent that remembers."""

    async def refund(order: str) -> str:
        """Pay an order back."""
        return "paid"

    def make(*answers: Any) -> Talker:
        model = ScriptedModel(answers)
        talker = Talker(model, name="talker", tool_strategy="native", store=url)
        talker.toolbox.add(refund, tags=[talker.tag], permission="confirm")
        return talker

    async with make(REFUND) as first, make("It is paid.") as second:
        await first.async_activate_chat_session("ann")
        error = await interrupted(first.input("My money!").async_start())
        assert await second.async_resume(error.state, yes(error)) == "It is paid."
        said = [turn["content"] for turn in await second.toolbox.sessions.read("ann")]

    assert said == ["My money!", "It is paid."]


async def test_a_sibling_that_ran_is_not_run_again_after_its_call_is_pruned(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    shop = make_shop([REFUND, NOTE], "Paid.", store=url)
    error = await interrupted(shop.agent.input("Go.").async_start())
    execute("DELETE FROM wieldy_calls WHERE tool = 'note'")

    assert await shop.agent.async_resume(error.state, yes(error)) == "Paid."
    assert shop.ran == {"note hi": 1, "refund A-17 10": 1}


async def test_a_run_that_dies_at_its_end_is_one_turn_of_its_conversation(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    class Talker(ChatSessionExtension, Agent):
        """An agent that remembers."""

    async with Talker(ScriptedModel(["Hello."]), name="talker", store=url) as talker:
        await talker.async_activate_chat_session("ann")
        response = talker.input("Hi.").get_response()
        await response.async_get_data()
        # As if the process had died after it wrote the turn, and before the run was done.
        execute("DELETE FROM wieldy_run_steps WHERE number = 2")
        execute("UPDATE wieldy_runs SET steps = 2, state = 'crashed', answer = NULL")

        assert await talker.async_resume(response.run_id) == "Hello."
        said = [turn["content"] for turn in await talker.toolbox.sessions.read("ann")]

    assert said == ["Hi.", "Hello."]


async def test_a_call_of_unknown_end_is_told_and_only_a_harmless_one_runs_again(
    make_shop: MakeShop, url: str, execute: Execute
) -> None:
    shop = make_shop([NOTE, Call("look", {"item": "tea"})], RuntimeError("away"), store=url)
    response = shop.agent.input("Go.").get_response()
    with pytest.raises(RuntimeError, match="away"):
        await response.async_get_data()
    # As if the process had died in both calls.
    execute("UPDATE wieldy_calls SET state = 'unknown', value = NULL, ended_at = NULL")
    execute("DELETE FROM wieldy_run_steps WHERE number = 2")
    execute("UPDATE wieldy_runs SET steps = 2, state = 'crashed'")
    again = make_shop("I see.", store=url)

    assert await again.agent.async_resume(response.run_id) == "I see."

    assert again.ran == {"look tea": 1}
    noted, looked = (message["content"] for message in again.model.requests[0].messages[-2:])
    assert "not known how the call of note ended" in noted
    assert looked == "12 of tea"
    [entry] = await again.agent.toolbox.ledger.list(tool="look")
    assert (entry.state, entry.metadata["recovered"]) == ("ok", True)
    assert entry.call.idempotency_key == f"{response.run_id}:0:1"


class EndlessModel:
    """A model whose own message contains itself."""

    name, context_window = "endless:model", None

    def render(self, request: ModelRequest) -> dict[str, Any]:
        return {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        message: list[Any] = ["around"]
        message.append(message)
        yield Reply("endless", message, "Done.")


async def test_a_message_that_can_not_be_read_becomes_text_and_the_rest_of_the_step_is_kept(
    url: str, execute: Execute
) -> None:
    agent = Agent(EndlessModel(), name="endless", store=url)
    response = agent.input("Well?").get_response()

    assert await response.async_get_text() == "Done."
    assert "nested more than 100 levels deep" in execute(
        "SELECT body FROM wieldy_run_steps WHERE number = 1"
    )
    assert await agent.async_resume(response.run_id) == "Done."
    await agent.async_close()


async def test_a_step_has_only_what_is_not_empty(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    async with Agent(ScriptedModel("Done."), name="brief", store=store) as agent:
        response = agent.input("Go on.").get_response()
        await response.async_get_text()
        steps = await agent.toolbox.store.runs.steps(response.run_id)

    assert [list(step) for step in steps] == [
        ["step", "turns", "request"],
        ["requests", "step", "turns", "text"],
        ["requests", "step"],
    ]
    assert steps[-1] == {"requests": 1, "step": "done"}


def test_a_step_of_an_earlier_version_has_empty_values_and_is_read() -> None:
    step = {"step": "call", "round": 1, "turns": [{"said": "user", "content": "Pay."}]}
    lists = {key: list[Any]() for key in ("pending", "logs", "calls", "partial", "answered")}
    scalars = {"retries": 0, "judged": False, "purpose": "", "requests": 0, "limited": False}
    earlier = {**lists, **scalars, "usage": {}, "spent": {}, "text": "", **step}

    brief, full = read_state([step]), read_state([earlier])

    for name in set(RunState.__slots__) - {"turns"}:
        assert (name, getattr(brief, name) or None) == (name, getattr(full, name) or None)
    assert [write_turn(turn) for turn in brief.turns] == [write_turn(turn) for turn in full.turns]
