"""Agents that ask a model over real HTTP, through the real SDKs."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from tests.models.server import ModelServer, Scene
from tests.models.voices import VOICES, Voice, pieces_of
from wieldy.agent import Agent
from wieldy.dialects.agently import AgentlyMain
from wieldy.models.model_errors import ModelError
from wieldy.models.remote_model import RemoteModel

JUDGED = (
    '{"use_tool": true, "tool_command": {"purpose": "sum", "tool_name": "add", '
    '"tool_kwargs": {"a": 1, "b": 2}}}'
)


class Title(BaseModel):
    title: str


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A server that is asked by nobody else."""
    server = ModelServer()
    server.start()
    yield server
    server.stop()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def make(server: ModelServer, voice: Voice, **options: Any) -> Agent:
    base_url = f"{server.url}{voice.base}"
    return Agent(f"{voice.name}:m", base_url, "sk-a-key", **options)


def tiny(answer: bytes) -> Scene:
    return Scene(pieces_of(answer, 3))


@pytest.mark.parametrize("voice", VOICES, ids=str)
def test_plain_code_may_ask_twice(server: ModelServer, voice: Voice) -> None:
    server.play(tiny(voice.speak("Hello.")), tiny(voice.speak("Again.")))
    agent = make(server, voice)

    assert agent.input("hi").start() == "Hello."
    assert "".join(agent.input("hi").get_generator()) == "Again."
    assert agent.explain().tokens[0] > 0


@pytest.mark.parametrize("voice", VOICES, ids=str)
@pytest.mark.parametrize("strategy", ["judge", "native"])
async def test_tools_work_with_every_api(server: ModelServer, voice: Voice, strategy: str) -> None:
    first = voice.speak(JUDGED)
    if strategy == "native":
        first = voice.speak("", [("add", {"a": 1, "b": 2})])
    server.play(tiny(first), tiny(voice.speak("It is 3.")))
    agent = make(server, voice, tool_strategy=strategy).use_tools(add)

    response = agent.input("1 + 2?").get_response()

    assert await response.async_get_text() == "It is 3."
    assert response.full_result_data["extra"]["tool_logs"][0]["result"] == 3
    assert len(server.asked) == 2


@pytest.mark.parametrize("voice", VOICES, ids=str)
def test_a_structured_answer_is_read_over_http(server: ModelServer, voice: Voice) -> None:
    server.play(tiny(voice.speak('{"title": "Emma"}')))

    assert make(server, voice).input("?").output(Title).get_data_object() == Title(title="Emma")


@pytest.mark.parametrize("voice", VOICES, ids=str)
def test_an_answer_that_breaks_off_is_an_error_and_the_agent_goes_on(
    server: ModelServer, voice: Voice
) -> None:
    cut = Scene(pieces_of(voice.speak("Hel", end=False), 7), then="cut")
    server.play(cut, tiny(voice.speak("Hello.")))
    agent = make(server, voice)

    with pytest.raises(ModelError):
        agent.input("hi").start()

    assert agent.input("hi").start() == "Hello."


async def test_a_hundred_requests_at_once_share_the_connections(server: ModelServer) -> None:
    voice = VOICES[0]
    server.play(tiny(voice.speak("Hello.")))
    agent = make(server, voice)

    answers = await asyncio.gather(*(agent.input(str(n)).async_start() for n in range(100)))

    assert answers == ["Hello."] * 100
    assert len(server.asked) == 100


def test_a_model_over_http_keeps_its_own_limits() -> None:
    assert RemoteModel.keeps_limits


def test_agently_settings_name_the_model(server: ModelServer) -> None:
    voice = VOICES[0]
    server.play(tiny(voice.speak("Hello.")), tiny(voice.speak("Again.")))
    main = AgentlyMain()
    main.set_settings(
        "OpenAICompatible",
        {
            "base_url": f"{server.url}{voice.base}",
            "model": "qwen",
            "api_key": "sk-first",
            "options": {"temperature": 0.5},
        },
    )
    agent = main.create_agent()

    assert agent.input("hi").start() == "Hello."
    agent.set_settings("OpenAICompatible", {"model": "other", "auth": "sk-second"})
    assert agent.input("hi").start() == "Again."

    first, second = server.asked
    assert (first.body["model"], first.body["temperature"]) == ("qwen", 0.5)
    assert second.body["model"] == "other"
    assert "sk-first" in str(first.headers)
    assert "sk-second" in str(second.headers)
