"""Toolboxes with code mode, and what their tools did."""

from collections import Counter
from typing import Any

from tests.store.conftest import children, server, url
from wieldy import Outcome, Retention, Status, Toolbox
from wieldy.tools.code_mode import add_code_mode

__all__ = ["children", "server", "url"]


class Office:
    """A tool that runs by itself, one that needs approval, and programs that call them."""

    def __init__(
        self, store: str | None = None, retention: Retention | None = None, **options: Any
    ) -> None:
        self.ran: Counter[str] = Counter()
        self.box = Toolbox(store=store, retention=retention)
        self.box.add(self.look, read_only=True)
        self.box.add(self.pay, permission="confirm")
        self.box.add(self.fail)
        add_code_mode(self.box.view(), **options)

    async def look(self, n: int) -> int:
        """Look something up."""
        self.ran[f"look {n}"] += 1
        return n * 2

    async def pay(self, bill: str) -> dict[str, str]:
        """Pay a bill."""
        self.ran[f"pay {bill}"] += 1
        return {"paid": bill}

    async def fail(self) -> None:
        """Fail."""
        raise LookupError("nothing there")

    async def run(self, code: str) -> Outcome:
        """Run a program."""
        return await self.box.call("run_code", {"code": code})

    async def decide(self, call_id: str, *verdicts: bool) -> Outcome:
        """Decide on what a program waits for, one call after the other, and give its outcome."""
        for verdict in verdicts:
            parked = (await self.box.pending(below=call_id))[0]
            decide = self.box.approve if verdict else self.box.deny
            await decide(parked.id, by="ann")
        outcome = await self.box.outcome(call_id)
        assert outcome.status is not Status.PENDING or await self.box.pending(below=call_id)
        return outcome
