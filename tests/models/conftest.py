"""A server that speaks each API, and a model that asks it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.models.server import ModelServer
from tests.models.voices import VOICES, Voice
from wieldy import Toolbox
from wieldy.models import Model, find_model

KEY = "sk-a-key-that-nobody-may-see"
Make = Callable[..., Model]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A server that is asked by nobody else."""
    server = ModelServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=VOICES, ids=str)
def voice(request: pytest.FixtureRequest) -> Voice:
    """Each API in turn."""
    voice: Voice = request.param
    return voice


@pytest.fixture
def make(server: ModelServer, voice: Voice) -> Make:
    """Makes a model of the voice's API that asks the server."""

    def make(**settings: Any) -> Model:
        base_url = f"{server.url}{voice.base}"
        settings = {"retries": 0, "api_key": KEY, **settings}
        return find_model(f"{voice.name}:m", base_url=base_url, **settings)

    return make


@pytest.fixture
def box() -> Toolbox:
    """A box with one tool."""
    box = Toolbox()

    @box.tool
    def weather(city: str, days: int = 1) -> str:
        """The weather in a city."""
        return f"{city}: sunny for {days}"

    return box
