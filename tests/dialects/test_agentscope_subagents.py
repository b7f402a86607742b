"""`make_subagent_tool`: a subagent as a function of a toolkit, which never raises."""

from typing import Any

import pytest
from pydantic import BaseModel, Field

from wieldy import Call
from wieldy.agent import Agent
from wieldy.dialects.agentscope import (
    SubAgentSpec,
    Toolkit,
    ToolResponse,
    ToolUseBlock,
    make_subagent_tool,
)
from wieldy.testing import ScriptedModel

SPEC = SubAgentSpec("searcher", description="Find things.")


class Host:
    """What calls the subagent."""

    name = "host"

    def __init__(self, *answers: Any) -> None:
        self.model = ScriptedModel(answers)


class Searcher:
    """No agent of ours: a class with an input and a reply."""

    made = 0

    class InputModel(BaseModel):
        """What to search for."""

        query: str = Field(description="what to find")
        limit: int = 3

    def __init__(self) -> None:
        type(self).made += 1

    async def reply(self, input: Any) -> Any:
        assert isinstance(input, self.InputModel)
        if input.query == "nothing":
            raise LookupError("found nothing")
        return f"{input.limit} of {input.query}"


async def call(toolkit: Toolkit, name: str, **arguments: Any) -> ToolResponse:
    block = ToolUseBlock(type="tool_use", id="1", name=name, input=arguments)
    chunks = [chunk async for chunk in toolkit.call_tool_function(block)]
    return chunks[-1]


def text(response: ToolResponse) -> str:
    return "".join(str(item.get("text", "")) for item in response.content)


async def test_001_16_the_schema_is_that_of_the_input_model() -> None:
    function, kwargs = await make_subagent_tool(Searcher, SPEC, host=Host())
    toolkit = Toolkit()
    toolkit.register_tool_function(function, **kwargs)

    assert kwargs["json_schema"] == {
        "type": "function",
        "function": {
            "name": "searcher_tool",
            "description": "Find things.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "what to find"},
                    "limit": {"type": "integer", "default": 3},
                },
                "required": ["query"],
                "description": "What to search for.",
            },
        },
    }
    assert toolkit.get_json_schemas() == [kwargs["json_schema"]]
    assert toolkit.groups["subagents"].active
    assert toolkit.tools["searcher_tool"].group == "subagents"


async def test_001_16_a_class_that_is_no_agent_gets_the_validated_input() -> None:
    function, kwargs = await make_subagent_tool(Searcher, SPEC, host=Host(), tool_name="find")
    toolkit = Toolkit()
    toolkit.register_tool_function(function, **kwargs)

    response = await call(toolkit, "find", query="tea", limit="5")

    assert text(response) == "5 of tea"
    assert response.metadata == {"subagent": "searcher", "success": True, "error": None}
    assert text(await function(query="tea")) == "3 of tea"


class Broken(Searcher):
    """A class that can't be made."""

    def __init__(self) -> None:
        raise RuntimeError("no key")


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "said"),
    [
        (Searcher, {"limit": 2}, "invalid_input", "query"),
        (Searcher, {"query": {"a": 1}}, "invalid_input", "query"),
        (Searcher, {"query": "nothing"}, "failed", "found nothing"),
        (Broken, {"query": "tea"}, "unavailable", "no key"),
    ],
)
async def test_001_16_the_function_never_raises_and_says_what_went_wrong(
    kind: type[Any], arguments: dict[str, Any], error: str, said: str
) -> None:
    function, kwargs = await make_subagent_tool(kind, SPEC, host=Host())
    Toolkit().register_tool_function(function, **kwargs)

    response = await function(**arguments)

    assert response.metadata == {"subagent": "searcher", "success": False, "error": error}
    assert text(response).startswith("Error: ") and said in text(response)

    toolkit = Toolkit()
    toolkit.register_tool_function(function, **kwargs)
    block = ToolUseBlock(type="tool_use", id="1", name="searcher_tool", input=arguments)
    [through] = [chunk async for chunk in toolkit.call_tool_function(block)]
    assert {**response.metadata}.items() <= {**(through.metadata or {})}.items()
    assert text(through).startswith("Error: ") and said in text(through)


@pytest.mark.parametrize("kind", [object, str, int])
async def test_001_16_a_class_without_an_input_is_refused(kind: type[Any]) -> None:
    with pytest.raises(TypeError, match="InputModel"):
        await make_subagent_tool(kind, SPEC, host=Host())
    with pytest.raises(TypeError, match="host"):
        await make_subagent_tool(Searcher, SPEC, host=object())


@pytest.mark.parametrize(("ephemeral", "made"), [(True, 2), (False, 1)])
async def test_001_16_memory_is_kept_only_where_it_is_wanted(ephemeral: bool, made: int) -> None:
    Searcher.made = 0
    function, _ = await make_subagent_tool(Searcher, SPEC, host=Host(), ephemeral_memory=ephemeral)
    await function(query="tea")
    await function(query="mate")
    assert Searcher.made == made

    host = Host("Tea.", "Mate.")
    function, _ = await make_subagent_tool(Agent, SPEC, host=host, ephemeral_memory=ephemeral)
    await function(query="What is tea?")
    assert text(await function(query="And mate?")) == "Mate."
    assert ("What is tea?" in host.model.requests[1].text) is not ephemeral


class Clerk(Agent):
    """An agent of ours, with a tool that asks."""

    bought: list[str]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"tool_strategy": "native", **options})
        self.toolbox.add(self.buy, permission="confirm", tags=[self.tag])

    async def buy(self, thing: str) -> str:
        """Buy a thing."""
        type(self).bought.append(thing)
        return f"bought {thing}"


async def test_001_16_an_agent_has_the_model_of_its_host_or_another() -> None:
    other = ScriptedModel(["From the other."])
    for host, override, said in (
        (Host("From the host."), None, "From the host."),
        (Host(), other, "From the other."),
    ):
        function, kwargs = await make_subagent_tool(Agent, SPEC, host=host, override_model=override)
        toolkit = Toolkit()
        toolkit.register_tool_function(function, **kwargs)
        assert text(await call(toolkit, "searcher_tool", query="Who?")) == said
    assert list(kwargs["json_schema"]["function"]["parameters"]["properties"]) == ["query"]


async def test_001_16_an_agent_whose_model_fails_is_a_response() -> None:
    function, kwargs = await make_subagent_tool(Agent, SPEC, host=Host(RuntimeError("away")))
    toolkit = Toolkit()
    toolkit.register_tool_function(function, **kwargs)

    response = await call(toolkit, "searcher_tool", query="Who?")

    assert response.metadata is not None and response.metadata["error"] == "failed"
    assert "away" in text(response)


async def test_a_pause_in_an_agent_is_a_pause_of_the_call() -> None:
    Clerk.bought = []
    host = Host(Call("buy", {"thing": "tea"}), "It is bought.")
    function, kwargs = await make_subagent_tool(Clerk, SubAgentSpec("clerk"), host=host)
    toolkit = Toolkit()
    toolkit.register_tool_function(function, **kwargs)

    response = await call(toolkit, "clerk_tool", query="Buy tea.")
    [waiting] = await toolkit.toolbox.pending()
    assert (waiting.tool, Clerk.bought) == ("buy", [])
    assert waiting.scope.parent is not None
    await toolkit.toolbox.approve(waiting.id)
    outcome = await toolkit.toolbox.outcome(waiting.scope.parent)

    assert "Error" in text(response)
    assert (outcome.text, Clerk.bought) == ("It is bought.", ["tea"])
