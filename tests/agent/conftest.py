"""What tests of agents have in common."""

from collections.abc import Callable
from typing import Any

import pytest

from wieldy.agent import Agent
from wieldy.testing import ScriptedModel

MakeAgent = Callable[..., tuple[Agent, ScriptedModel]]


@pytest.fixture
def make_agent() -> MakeAgent:
    """An agent whose model gives these answers, and the model."""

    def make(*answers: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
        chunks = options.pop("chunks", 5)
        window = options.pop("context_window", None)
        model = ScriptedModel(answers, chunks=chunks, context_window=window)
        return Agent(model, **options), model

    return make
