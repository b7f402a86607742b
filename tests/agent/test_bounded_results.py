"""What an agent's model reads of a large result, and what the program reads."""

from typing import Any

import pytest

from tests.agent.conftest import MakeAgent
from wieldy import Call, Toolbox
from wieldy.agent import Agent
from wieldy.testing import Answer, ScriptedModel

LARGE = "x" * 5_000_000
ASKED = {
    "native": Answer("", [Call("much", {})]),
    "xml": "<tool_call><name>much</name><params></params></tool_call>",
    "judge": '{"use_tool": true, "tool_command": {"purpose": "p", "tool_name": "much", '
    '"tool_kwargs": {}}}',
}


def reading(make_agent: MakeAgent, strategy: str, value: Any, **options: Any) -> tuple[Any, Any]:
    agent, model = make_agent(ASKED[strategy], "Done.", tool_strategy=strategy, **options)

    @agent.tool_func
    async def much() -> Any:
        """Give much."""
        return value

    return agent, model


@pytest.mark.parametrize("value", [LARGE, {"rows": [LARGE]}], ids=["text", "data"])
@pytest.mark.parametrize("strategy", list(ASKED))
def test_a_model_reads_the_bound_and_a_program_the_whole(
    make_agent: MakeAgent, strategy: str, value: Any
) -> None:
    agent, model = reading(make_agent, strategy, value)

    response = agent.input("Go.").get_response()

    assert response.get_text() == "Done."
    body = repr(model.requests[-1].body)
    assert 90_000 < len(body) < 110_000
    assert "characters shown, the whole is at artifact://" in body
    [log] = response.full_result_data["extra"]["tool_logs"]
    assert log["result"] == value


@pytest.mark.parametrize(
    ("box", "own", "most"), [(100_000, 2_000, 2_000), (1_000, None, 1_000), (1_000, 0, 5_000_000)]
)
def test_the_agents_number_counts_before_that_of_the_toolbox(
    make_agent: MakeAgent, box: int, own: int | None, most: int
) -> None:
    toolbox = Toolbox(max_result=box)
    agent, model = reading(make_agent, "native", LARGE, toolbox=toolbox, max_result=own)

    agent.input("Go.").start()

    assert most <= len(repr(model.requests[-1].body)) < most + 3_000


def test_a_number_that_can_not_be_is_refused() -> None:
    with pytest.raises(ValueError, match="max_result"):
        Agent(ScriptedModel(), max_result=-1)
