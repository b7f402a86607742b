"""A person who decides on calls while the program waits, on a terminal or not at all.

The approver is asked first. Where nobody can answer it leaves the call parked,
and somebody decides later.
"""

import asyncio
import sys

from wieldy import Outcome, Parked, Toolbox


async def ask_on_terminal(parked: Parked) -> bool | None:
    """Yes, no, or undecided."""
    if not sys.stdin.isatty():
        return None
    question = f"Run {parked.tool} with {dict(parked.shown)}? [y/n] "
    answer = await asyncio.to_thread(input, question)
    return {"y": True, "n": False}.get(answer.strip().lower())


def record(outcome: Outcome) -> None:
    """Keep a line for each outcome: the receipt, and the end."""
    print("record:", outcome.call.tool, outcome.status)


box = Toolbox(approver=ask_on_terminal, observers=[record])
box.rules.allow("pay", where={"amount": lambda amount: amount <= 10})
box.rules.deny("pay", where={"to": "*@casino.example"}, reason="not there")


@box.tool(permission="confirm")
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


async def main() -> None:
    await box.call("pay", {"to": "ann@shop.example", "amount": 5})
    await box.call("pay", {"to": "bob@casino.example", "amount": 5})
    await box.call("pay", {"to": "ann@shop.example", "amount": 500})
    for parked in await box.pending():
        outcome = await box.approve(
            parked.id, by="a reviewer", arguments={**parked.arguments, "amount": 50}
        )
        print(outcome.value)


if __name__ == "__main__":
    asyncio.run(main())

# > record: pay ok
# > record: pay denied
# > record: pay pending
# > record: pay ok
# > paid 50 to ann@shop.example
