"""A server that speaks each API, and a model that asks it."""

import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import wieldy
from tests.models.server import ModelServer
from tests.models.voices import VOICES, Voice
from wieldy import Toolbox
from wieldy.core.loop_bridge import run_on_loop
from wieldy.models import Model, find_model
from wieldy.models.connections import connections

# The SDKs' own generators, above these, hold nothing but text.
_OURS = str(Path(wieldy.__file__).parent)
_READERS = (_OURS, "/httpcore2/", "/httpx2/_transports/", "/httpx2/_client")
KEY = "sk-a-key-that-nobody-may-see"
Make = Callable[..., Model]


@pytest.fixture(autouse=True)
async def every_answer_is_read_to_its_end_or_closed() -> AsyncIterator[None]:
    """No request leaves a generator that reads from the network for the garbage collector."""
    left: list[str] = []
    home = connections().home

    async def set_hooks(finalizer: Any) -> Any:
        before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(before.firstiter, finalizer)
        return before.finalizer

    def note(generator: Any) -> None:
        if any(part in generator.ag_code.co_filename for part in _READERS):
            left.append(generator.__qualname__)
        finalize(generator)

    finalize = await run_on_loop(home, partial(set_hooks, None))
    await run_on_loop(home, partial(set_hooks, note))
    yield
    gc.collect()
    if home.running:
        await run_on_loop(home, partial(set_hooks, finalize))
    assert left == []


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
