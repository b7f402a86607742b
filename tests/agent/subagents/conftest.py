"""Agents by name and script, on both kinds of database."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.store.conftest import Execute, children, execute, server, url
from wieldy.agent import Agent
from wieldy.testing import ScriptedModel

__all__ = ["Execute", "children", "execute", "server", "url"]

Make = Callable[..., Agent]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Agents with these names and answers; closed at the end."""
    async with AsyncExitStack() as stack:

        def make(name: str, *answers: Any, **options: Any) -> Agent:
            model = ScriptedModel(answers)
            kind: type[Agent] = options.pop("kind", Agent)
            agent = kind(model, **{"name": name, "tool_strategy": "native", **options})
            stack.push_async_exit(agent)
            return agent

        yield make


def requests(agent: Agent) -> list[Any]:
    """What an agent's model was asked."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return list(model.requests)
