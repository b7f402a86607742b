"""What a tool says of its call is in the outcome and in the row."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from wieldy import Context, Secret, Status, Toolbox


async def test_cost_and_meta_are_in_the_outcome_and_in_the_row(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def ask(context: Context) -> str:
            """Ask a model."""
            context.report(0.25, model="small", tokens=10)
            context.report(cost=0.5, tokens=30)
            return "so"

        @box.tool
        def ask_blocking(context: Context) -> str:
            """Ask a model and wait."""
            context.report(1)
            return "so"

        outcome = await box.call("ask")
        assert (outcome.metadata["cost"], outcome.metadata["meta"]) == (
            0.75,
            {"model": "small", "tokens": 30},
        )
        entry = await box.ledger.get(outcome.call.id)
        assert entry is not None
        assert (entry.cost, entry.meta) == (0.75, {"model": "small", "tokens": 30})
        assert entry.attempts == 1
        blocking = await box.ledger.get((await box.call("ask_blocking")).call.id)
        assert blocking is not None
        assert (blocking.cost, blocking.meta) == (1.0, {})


async def test_attempts_are_in_the_row_and_each_has_cost_something(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool(read_only=True, retries=2)
        async def look(context: Context) -> int:
            """Look, and find something at the third attempt."""
            context.report(0.5, attempt=context.attempt)
            if context.attempt < 3:
                raise LookupError("not yet")
            return context.attempt

        entry = await box.ledger.get((await box.call("look")).call.id)
        assert entry is not None
        assert (entry.value, entry.attempts, entry.cost) == (3, 3, 1.5)
        assert entry.meta == {"attempt": 3}


async def test_a_failed_call_has_cost_something_too_and_one_that_never_ran_has_not(
    url: str,
) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def fail(context: Context) -> None:
            """Fail."""
            context.report(2)
            raise ValueError("no")

        failed = await box.ledger.get((await box.call("fail")).call.id)
        refused = await box.ledger.get((await box.call("fail", {"x": 1})).call.id)
        assert failed is not None
        assert refused is not None
        assert (failed.status, failed.cost, failed.attempts) == (Status.ERROR, 2.0, 1)
        assert (refused.cost, refused.meta, refused.attempts) == (None, {}, 0)


async def test_a_secret_in_meta_is_covered(url: str, dump: Callable[[], str]) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def login(password: Secret, context: Context) -> str:
            """Log in."""
            context.report(url=f"https://host/?key={password.get_secret_value()}")
            return "in"

        outcome = await box.call("login", {"password": "hunter2!"})
        assert outcome.metadata["meta"] == {"url": "https://host/?key=**********"}
    assert "hunter2!" not in dump()


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), True])
async def test_what_is_no_cost_is_refused(cost: Any) -> None:
    box = Toolbox()

    @box.tool
    async def work(context: Context) -> None:
        """Work."""
        context.report(cost)

    outcome = await box.call("work")
    assert isinstance(outcome.metadata.get("cost"), type(None))
    assert "a cost is a number from 0 up" in outcome.text


async def test_a_decimal_cost_and_what_json_does_not_know_are_kept(url: str) -> None:
    async with Toolbox(store=url) as box:

        @box.tool
        async def work(context: Context) -> None:
            """Work."""
            context.report(Decimal("0.125"), when=Decimal("1.5"), odd=object)  # type: ignore[arg-type]

        entry = await box.ledger.get((await box.call("work")).call.id)
        assert entry is not None
        assert (entry.cost, entry.meta["when"]) == (0.125, "1.5")


async def test_a_report_after_the_end_is_too_late() -> None:
    box = Toolbox()
    kept: list[Context] = []

    @box.tool
    async def work(context: Context) -> None:
        """Work."""
        kept.append(context)

    outcome = await box.call("work")
    kept[0].report(1, late=True)
    await asyncio.sleep(0)
    assert "cost" not in outcome.metadata
    assert "meta" not in outcome.metadata
