"""An agent as a tool of another: its input, its runs, its stream and its bounds."""

from typing import Any

import pytest
from pydantic import BaseModel, Field

from tests.agent.subagents.conftest import Make, requests
from wieldy import Call, Context, Secret, Status, Tool, Toolbox
from wieldy.agent import Agent, Budget, ChatSessionExtension
from wieldy.testing import Answer, ScriptedModel

ASK = Call("researcher", {"query": "What is tea?"})


async def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} is a drink"


async def test_an_agent_that_is_used_as_a_tool_answers_with_its_own_tools_and_prompt(
    make: Make,
) -> None:
    researcher = make("researcher", Call("lookup", {"word": "tea"}), "Tea is a drink.")
    researcher.role("A librarian", always=True).use_tools(lookup)
    writer = make("writer", ASK, "So it is.").use_tools(researcher)

    assert await writer.input("Write.").async_start() == "So it is."

    asked, again = requests(researcher)
    assert "A librarian" in asked.text and asked.last == "What is tea?"
    assert "tea is a drink" in again.text
    [offered] = requests(writer)[0].body["tools"]
    assert offered["function"]["name"] == "researcher"
    assert list(offered["function"]["parameters"]["properties"]) == ["query"]
    assert "Tea is a drink." in requests(writer)[1].text
    assert [tool.name for tool in writer.tools] == ["researcher"]
    assert [tool.name for tool in researcher.tools] == ["lookup"]


class Question(BaseModel):
    """What is to be found out."""

    topic: str
    words: int = Field(default=50, ge=1, description="how long")


async def test_the_input_model_is_the_schema_and_its_fields_are_what_is_asked(make: Make) -> None:
    researcher = make("researcher", "Short.")
    tool = researcher.as_tool("find", "Find facts.", input=Question)
    calls = [Call("find", {"topic": "tea", "words": 0}), Call("find", {"topic": "tea"})]
    writer = make("writer", *calls, "Done.").use_tools(tool)

    assert await writer.input("Write.").async_start() == "Done."

    shown = requests(writer)[0].body["tools"][0]["function"]
    assert (shown["name"], shown["description"]) == ("find", "Find facts.")
    assert shown["parameters"]["properties"]["words"]["description"] == "how long"
    assert "words" in requests(writer)[1].last
    [asked] = requests(researcher)
    assert "tea" in asked.last and "50" in asked.last


async def test_what_the_output_asks_for_is_the_value(make: Make) -> None:
    researcher = make("researcher", '{"drink": "tea"}')
    researcher.output({"drink": (str, "which")}, always=True)
    outcome = await researcher.toolbox.call(
        researcher.toolbox.add(researcher.as_tool()).name, {"query": "Which?"}
    )

    assert outcome.value == {"drink": "tea"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"session": "mine"}, "session is"),
        ({"max_depth": 0}, "max_depth is"),
        ({"max_depth": True}, "max_depth is"),
        ({"input": dict}, "pydantic model"),
    ],
)
async def test_settings_that_can_not_be_are_refused(make: Make, options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make("researcher").as_tool(**options)


async def test_an_agent_without_a_name_is_no_tool(make: Make) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        make("writer").use_tools(Agent(ScriptedModel([])))


async def test_a_failing_subagent_is_an_error_that_its_caller_is_told(make: Make) -> None:
    researcher = make("researcher", RuntimeError("the model is away"))
    writer = make("writer", ASK, "I don't know.").use_tools([researcher, lookup])

    assert await writer.input("Write.").async_start() == "I don't know."
    assert "the model is away" in requests(writer)[1].last


async def test_what_happens_in_a_subagent_is_in_the_stream_of_its_caller(make: Make) -> None:
    deep = make("deep", "Deep words.")
    researcher = make("researcher", Call("deep", {"query": "?"}), "Tea it is.").use_tools(deep)
    writer = make("writer", ASK, "So it is.").use_tools(researcher)
    response = writer.input("Write.").get_response()

    events = [each async for each in response.get_async_generator("all")]

    inner = [data for name, data in events if name == "subagent"]
    told = {(each["agent"], each["event"]) for each in inner}
    assert {("deep", "delta"), ("researcher", "tool_start"), ("researcher", "done")} <= told
    for agent, text in (("researcher", "Tea it is."), ("deep", "Deep words.")):
        words = [e["data"] for e in inner if (e["agent"], e["event"]) == (agent, "delta")]
        assert "".join(words) == text
    # It is no part of the result.
    assert requests(writer)[1].messages[-1]["content"] == "Tea it is."
    assert response.get_text() == "So it is."


async def test_secrets_of_the_caller_are_covered_in_the_stream(make: Make) -> None:
    researcher = make("researcher", Call("lookup", {"word": "hunter2hunter2"}), "Done.")
    researcher.use_tools(lookup)
    writer = make("writer", ASK, "Done.").use_tools(researcher)
    response = writer.input("Go.").get_response(deps={"token": Secret("hunter2hunter2")})

    events = [each async for each in response.get_async_generator("all")]

    inner = [data for name, data in events if name == "subagent"]
    assert len(inner) > 3 and "hunter2" not in str(inner)


async def test_deps_reach_the_tools_of_a_subagent(make: Make) -> None:
    seen: list[Any] = []
    researcher = make("researcher", Call("who", {}), "Ann.")

    @researcher.tool_func
    async def who(ctx: Context) -> str:
        seen.append(ctx.deps)
        return "ann"

    writer = make("writer", ASK, "Done.").use_tools(researcher)
    await writer.input("Go.").async_start(deps="ann")

    assert seen == ["ann"]


# Sessions


class Talker(ChatSessionExtension, Agent):
    """An agent that remembers."""


@pytest.mark.parametrize("kind", ["own", "shared"])
async def test_a_session_is_its_own_or_that_of_its_caller(make: Make, kind: Any) -> None:
    sessions: list[str | None] = []
    researcher = make("researcher", Call("where", {}), "Here.", kind=Talker)

    @researcher.tool_func
    async def where(ctx: Context) -> str:
        sessions.append(ctx.scope.session)
        return "here"

    writer = make("writer", "Hello.", ASK, "Done.", kind=Talker)
    assert isinstance(writer, Talker)
    writer.use_tools(researcher.as_tool(session=kind))
    await writer.async_activate_chat_session("ann")
    await writer.input("Hi.").async_start()
    await writer.input("Go.").async_start()

    shares = kind == "shared"
    assert (sessions[0] == "ann") is shares and sessions[0] is not None
    assert ("Hello." in requests(researcher)[0].text) is shares
    history = writer.agent_prompt.get("chat_history")
    assert [turn["content"] for turn in history] == ["Hi.", "Hello.", "Go.", "Done."]


# Depth


async def test_a_subagent_that_calls_itself_ends_at_max_depth(make: Make) -> None:
    ran: list[str] = []

    def answer(request: Any) -> Any:
        told = str(request.turns[-1])
        if "nested" in told or "Answers" in told:
            return "Enough."
        ran.append("asked")
        return Call("echo", {"query": "again"})

    echo = Agent(ScriptedModel(answer), name="echo", tool_strategy="native")
    async with echo.use_tools(echo):
        assert await echo.input("Go.").async_start() == "Enough."

    # The run itself, and three subagents in one another; the fourth was refused.
    assert len(ran) == 4


async def test_max_depth_is_told_to_the_model(make: Make) -> None:
    deep = make("deep", "never")
    researcher = make("researcher", Call("deep", {"query": "?"}), "Without it.")
    researcher.use_tools(deep.as_tool(max_depth=1))
    writer = make("writer", ASK, "Done.").use_tools(researcher)

    await writer.input("Go.").async_start()

    assert "nested 1 deep" in requests(researcher)[1].last
    assert requests(deep) == []


# One toolbox


async def test_tools_of_the_same_name_stay_apart(make: Make) -> None:
    async def other(word: str) -> str:
        """Find a word."""
        return f"the writer's {word}"

    other.__name__ = "lookup"
    find = Call("lookup", {"word": "tea"})
    researcher = make("researcher", find, "Found.").use_tools(lookup)
    writer = make("writer", find, ASK, "Done.").use_tools(other).use_tools(researcher)

    await writer.input("Go.").async_start()

    assert "the writer's tea" in requests(writer)[1].last
    assert "tea is a drink" in requests(researcher)[1].last
    assert [tool.name for tool in researcher.tools] == ["researcher__lookup"]


async def test_agents_that_work_together_share_a_toolbox_in_whatever_order(make: Make) -> None:
    deep, researcher, writer = make("deep"), make("researcher"), make("writer")
    deep.toolbox.rules.deny("lookup")
    researcher.use_tools([deep, lookup])
    writer.use_tools(researcher)
    deep.use_tools(lookup)

    assert deep.toolbox is researcher.toolbox is writer.toolbox
    rules = [(rule.pattern, rule.agent) for rule in writer.toolbox.rules]
    assert rules == [("lookup", "deep")]
    assert (await deep.tools.call("lookup", {"word": "tea"})).status is Status.DENIED
    assert (await researcher.tools.call("lookup", {"word": "tea"})).ok


async def test_one_agent_serves_two_that_share_a_toolbox(make: Make) -> None:
    box = Toolbox()
    researcher = make("researcher", "One.", "Two.")
    writer = make("writer", ASK, "A.", toolbox=box).use_tools(researcher)
    editor = make("editor", ASK, "B.", toolbox=box).use_tools(researcher)

    assert await writer.input("Go.").async_start() == "A."
    assert await editor.input("Go.").async_start() == "B."
    assert len(requests(researcher)) == 2


async def test_toolboxes_that_were_given_are_not_mixed(make: Make, tmp_path: Any) -> None:
    given = make("researcher", toolbox=Toolbox())
    with pytest.raises(ValueError, match="different toolboxes"):
        make("writer", toolbox=Toolbox()).use_tools(given)
    kept = make("keeper", store=f"sqlite:///{tmp_path}/a.db")
    with pytest.raises(ValueError, match="Give both the same"):
        make("clerk", store=f"sqlite:///{tmp_path}/b.db").use_tools(kept)
    # An agent without a store joins one that has a store, whichever calls the other.
    assert make("clerk").use_tools(kept).toolbox is kept.toolbox


# Budgets


def spending(*pairs: tuple[Any, tuple[int, int]]) -> list[Answer]:
    return [
        Answer("", [said], usage=usage) if isinstance(said, Call) else Answer(said, usage=usage)
        for said, usage in pairs
    ]


async def test_a_budget_counts_what_subagents_use_up(make: Make) -> None:
    find = Call("lookup", {"word": "tea"})
    researcher = make("researcher", *spending((find, (50, 10)), ("Found.", (50, 10))))
    researcher.use_tools(lookup)
    writer = make("writer", *spending((ASK, (10, 5)), ("So.", (10, 5))), budget=Budget(tokens=130))
    writer.use_tools(researcher)

    assert await writer.input("Go.").async_start() == "So."

    assert "budget of 130 tokens is used up" in requests(writer)[1].last


async def test_a_subagent_is_bound_by_the_budget_of_its_caller(make: Make) -> None:
    finds = [Call("lookup", {"word": word}) for word in "abcd"]
    researcher = make("researcher", *finds, "As far as I got.").use_tools(lookup)
    writer = make("writer", ASK, "So.", budget=Budget(calls=3)).use_tools(researcher)

    await writer.input("Go.").async_start()

    told = requests(researcher)
    assert len(told) == 4 - 1
    assert "budget of 3 calls" in told[2].last


async def test_the_cost_of_nested_runs_counts_at_the_prices_of_their_caller(make: Make) -> None:
    researcher = make("researcher", *spending(("Found.", (1_000_000, 0))))
    prices = {"scripted:model": (2.0, 10.0)}
    writer = make("writer", ASK, "So.", budget=Budget(cost=1.5), prices=prices)
    writer.use_tools(researcher)

    await writer.input("Go.").async_start()

    assert "budget of 1.5 cost is used up" in requests(writer)[1].last


async def test_a_subagent_without_a_price_is_not_asked_under_a_budget_for_cost(make: Make) -> None:
    researcher = make("researcher", "never")
    researcher._model = ScriptedModel(["never"], name="scripted:dear")
    prices = {"scripted:model": (2.0, 10.0)}
    writer = make("writer", ASK, "So.", budget=Budget(cost=1.5), prices=prices)
    writer.use_tools(researcher)

    await writer.input("Go.").async_start()

    assert "scripted:dear" in requests(writer)[1].last
    assert requests(researcher) == []


async def test_equal_calls_of_several_subagents_are_no_repetition(make: Make) -> None:
    find = Call("lookup", {"word": "tea"})
    names = [f"r{number}" for number in range(4)]
    inner = [make(name, find, "Found.").use_tools(lookup) for name in names]
    asks = [Call(name, {"query": "?"}) for name in names]
    writer = make("writer", asks, "Done.", budget=Budget(repeats=2)).use_tools(inner)

    assert await writer.input("Go.").async_start() == "Done."

    assert all("tea is a drink" in requests(agent)[1].last for agent in inner)
    assert "again and again" not in requests(writer)[1].text


async def test_repeats_bind_a_subagent_by_itself(make: Make) -> None:
    find = Call("lookup", {"word": "tea"})
    researcher = make("researcher", find, find, find, "Stuck.").use_tools(lookup)
    writer = make("writer", ASK, "Done.", budget=Budget(repeats=2)).use_tools(researcher)

    assert await writer.input("Go.").async_start() == "Done."

    assert "2 times in a row" in requests(researcher)[3].text
    assert "again and again" not in requests(writer)[1].text


@pytest.mark.parametrize("session", ["own", "shared"])
async def test_what_a_subagent_read_outside_is_in_the_session_that_gets_its_answer(
    make: Make, session: Any
) -> None:
    researcher = make("researcher", Call("lookup", {"word": "tea"}), "Tea is a drink.")
    researcher.use_tools(Tool(lookup, untrusted=True))
    box = Toolbox()
    box.add(researcher.as_tool(session=session))

    outcome = await box.call("researcher", {"query": "What is tea?"}, session="outer")

    assert outcome.metadata["untrusted"] is True
    assert await box.untrusted.holds("outer")
    assert not await box.untrusted.holds("another")
