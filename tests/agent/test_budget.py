"""What a run may use up: told to the model once, and then the run ends with what it has."""

from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from wieldy import Call, Context, Toolbox
from wieldy.agent import Agent, Budget, RunInterrupted
from wieldy.agent.prices import NoPrice
from wieldy.testing import Answer, ScriptedModel

STEP = Call("step", {"n": 1})


def stepping(make_agent: MakeAgent, *answers: Any, **options: Any) -> tuple[Any, Any, list[int]]:
    agent, model = make_agent(*answers, tool_strategy="native", **options)
    ran: list[int] = []

    @agent.tool_func
    async def step(n: int) -> int:
        ran.append(n)
        return n

    return agent, model, ran


def calls(*numbers: int, usage: tuple[int, int] | None = None) -> Answer:
    return Answer("", [Call("step", {"n": n}) for n in numbers], usage=usage)


def test_a_budget_of_rounds_takes_the_place_of_max_rounds(make_agent: MakeAgent) -> None:
    answers = [*(calls(n) for n in range(7)), "Seven steps."]
    agent, model, ran = stepping(make_agent, *answers, budget=Budget(rounds=7))

    agent.input("Go.").start()

    assert len(ran) == 7
    assert "budget of 7 rounds is used up" in model.requests[7].last


def test_calls_beyond_the_budget_are_refused_and_named(make_agent: MakeAgent) -> None:
    agent, model, ran = stepping(
        make_agent, calls(1, 2), calls(3, 4), "As far as I got.", budget=Budget(calls=3)
    )

    assert agent.input("Go.").start() == "As far as I got."
    assert len(ran) == 3
    told = model.requests[2].last
    assert "The budget of 3 calls is used up" in told
    assert "These calls did not run: step." in told


def test_a_budget_that_is_used_up_is_told_once_and_then_the_run_ends(
    make_agent: MakeAgent,
) -> None:
    agent, model, ran = stepping(
        make_agent,
        calls(1, usage=(60, 50)),
        Answer("What I have.", [STEP], usage=(60, 50)),
        budget=Budget(tokens=100),
    )

    assert agent.input("Go.").start() == "What I have."
    # The calls of the answer that used the budget up did not run either.
    assert ran == []
    assert model.requests[1].text.count("budget of 100 tokens is used up") >= 1
    assert len(model.requests) == 2


def test_cost_comes_from_the_prices(make_agent: MakeAgent) -> None:
    answers = [*(calls(n, usage=(1_000_000, 100_000)) for n in range(2)), "One step."]
    agent, model, ran = stepping(
        make_agent,
        *answers,
        budget=Budget(cost=5.0),
        prices={"scripted:model": (2.0, 10.0)},
    )

    agent.input("Go.").start()

    assert (len(ran), len(model.requests)) == (1, 3)
    assert "budget of 5 cost is used up" in model.requests[2].last


def test_what_tools_say_they_cost_counts(make_agent: MakeAgent) -> None:
    agent, model = make_agent(
        Call("buy", {"n": 1}),
        "Bought.",
        tool_strategy="native",
        budget=Budget(cost=5.0),
        prices=lambda model, usage: 0.0,
    )

    @agent.tool_func
    async def buy(n: int, ctx: Context) -> int:
        ctx.report(cost=7.5)
        return n

    assert agent.input("Go.").start() == "Bought."
    assert "budget of 5 cost" in model.requests[1].last


def test_a_cost_budget_without_a_price_is_an_error(make_agent: MakeAgent) -> None:
    agent, model, _ = stepping(make_agent, "never", budget=Budget(cost=1.0))

    with pytest.raises(NoPrice, match="scripted:model"):
        agent.input("Go.").start()
    assert model.requests == []


def test_known_models_have_prices(make_agent: MakeAgent) -> None:
    model = ScriptedModel([Answer("Hi.", usage=(1000, 1000))], name="openai:gpt-4o")
    agent = Agent(model, budget=Budget(cost=1.0))

    assert agent.input("Go.").start() == "Hi."


def test_the_same_call_in_a_row_is_refused_after_so_many_times(make_agent: MakeAgent) -> None:
    agent, model, ran = stepping(
        make_agent, *[STEP] * 4, "I am stuck.", budget=Budget(rounds=20, repeats=3)
    )

    assert agent.input("Go.").start() == "I am stuck."
    assert len(ran) == 3
    assert "3 times in a row" in str(model.requests[4].messages)
    assert "again and again" in model.requests[4].last


def test_a_call_between_two_equal_ones_makes_them_two(make_agent: MakeAgent) -> None:
    other = Call("step", {"n": 2})
    agent, _, ran = stepping(
        make_agent, STEP, STEP, other, STEP, STEP, "Done.", budget=Budget(rounds=20, repeats=2)
    )

    assert agent.input("Go.").start() == "Done."
    assert len(ran) == 5


def test_seconds_that_are_used_up_at_the_start_leave_one_answer(make_agent: MakeAgent) -> None:
    late = Answer("Out of time.", [STEP])
    agent, model, ran = stepping(make_agent, late, budget=Budget(seconds=0))

    assert agent.input("Go.").start() == "Out of time."
    assert ran == []
    assert "budget of 0 seconds" in model.requests[0].last


def test_calls_that_tools_make_count(make_agent: MakeAgent) -> None:
    agent, _, ran = stepping(make_agent, Call("many", {}), "Done.", budget=Budget(calls=4))
    box = agent.toolbox

    async def many() -> list[str]:
        """Call another tool again and again."""
        outcomes = [await box.call("step", {"n": n}) for n in range(6)]
        return [outcome.status.value for outcome in outcomes]

    agent.use_tools(many)

    assert agent.input("Go.").start() == "Done."
    assert ran == [0, 1, 2]


def test_a_run_inside_another_uses_up_the_same_budget(make_agent: MakeAgent) -> None:
    inner, inner_model, ran = stepping(make_agent, *[calls(n) for n in range(4)], max_rounds=9)
    outer, _ = make_agent(
        Call("delegate", {}), "Done.", tool_strategy="native", budget=Budget(calls=3)
    )

    @outer.tool_func
    async def delegate() -> str:
        return str(await inner.input("Work.").async_start())

    assert outer.input("Go.").start() == "Done."
    assert ran == [0, 1]
    assert "budget of 3 calls" in inner_model.requests[-1].last


async def test_what_was_spent_is_known_when_a_run_goes_on(tmp_path: Any) -> None:
    def make(*answers: Any) -> Agent:
        box = Toolbox(store=f"sqlite:///{tmp_path}/runs.db")
        agent = Agent(
            ScriptedModel(answers),
            name="thrifty",
            toolbox=box,
            tool_strategy="native",
            budget=Budget(calls=2),
        )
        box.add(ask, tags=[agent.tag], permission="confirm")
        return agent

    async def ask(n: int) -> int:
        """Do it if a person agrees."""
        return n

    first, second = make([Call("ask", {"n": 1}), Call("ask", {"n": 2})]), make("Enough.")
    async with first.toolbox, second.toolbox:
        with pytest.raises(RunInterrupted) as caught:
            await first.input("Go.").async_start()
        decisions = {each.id: {"approved": True} for each in caught.value.pending}
        response = second.resume_response(caught.value.state, decisions)

        assert await response.async_get_data() == "Enough."
        assert "budget of 2 calls" in str(response.explain().requests)


@pytest.mark.parametrize(
    "wrong", [{"calls": -1}, {"calls": 1.5}, {"tokens": True}, {"cost": "much"}, {"repeats": 0}]
)
def test_a_bound_that_can_not_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Budget(**wrong)
    with pytest.raises(TypeError, match="Budget"):
        Agent(ScriptedModel(), budget=wrong)
