"""Agents whose runs are kept, on both kinds of database."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.store.conftest import Execute, children, execute, server, url
from wieldy import Context, InputNeeded
from wieldy.agent import Agent
from wieldy.testing import ScriptedModel

__all__ = ["Execute", "children", "execute", "server", "url"]


class Shop:
    """An agent with tools of each kind, and what they did."""

    def __init__(self, model: ScriptedModel, **options: Any) -> None:
        self.model = model
        self.ran: Counter[str] = Counter()
        self.deps: list[Any] = []
        self.agent = Agent(model, **{"name": "shop", "tool_strategy": "native", **options})
        for tool, facts in (
            (self.look, {"read_only": True}),
            (self.note, {}),
            (self.refund, {"permission": "confirm"}),
            (self.ship, {}),
        ):
            self.agent.toolbox.add(tool, tags=[self.agent.tag], **facts)

    async def look(self, item: str) -> str:
        """Look an item up."""
        self.ran[f"look {item}"] += 1
        return f"12 of {item}"

    async def note(self, text: str) -> str:
        """Note something."""
        self.ran[f"note {text}"] += 1
        return f"noted {text}"

    async def refund(self, order: str, ctx: Context, amount: int = 10) -> str:
        """Pay an order back."""
        self.deps.append(ctx.deps)
        self.ran[f"refund {order} {amount}"] += 1
        return f"{amount} paid back for {order}"

    async def ship(self, order: str, ctx: Context) -> str:
        """Ship an order to an address that a person is asked for."""
        if ctx.answers is None:
            raise InputNeeded.form("Where to?")
        self.ran[f"ship {order}"] += 1
        place = ctx.answers["answer"]["content"]
        return f"{order} shipped to {place}"


MakeShop = Callable[..., Shop]


@pytest.fixture
def make_shop() -> Iterator[MakeShop]:
    """Agents whose model gives these answers; closed at the end."""
    made: list[Shop] = []

    def make(*answers: Any, **options: Any) -> Shop:
        made.append(Shop(ScriptedModel(answers), **options))
        return made[-1]

    yield make
    for shop in made:
        shop.agent.close()
