"""A model's program calls tools, pauses for a person, and goes on in another toolbox.

It needs the extra `code-mode`.
"""

import asyncio
import tempfile

from wieldy import Toolbox
from wieldy.tools.code_mode import add_code_mode

# What a model would write, in one answer instead of one answer per call.
PROGRAM = """
import asyncio

orders = await list_orders(customer="ann")
found = await asyncio.gather(*[read_order(order=order) for order in orders])
late = [each for each in found if each["days_late"] > 7]
[await refund(order=each["id"], amount=each["paid"]) for each in late]
"""
refunded: list[str] = []


def make_box(store: str) -> Toolbox:
    """A shop's tools, and the tool that runs programs which call them."""
    box = Toolbox(store=store)

    @box.tool(read_only=True)
    async def list_orders(customer: str) -> list[str]:
        """List the orders of a customer."""
        return ["A-1", "A-2", "A-3"]

    @box.tool(read_only=True)
    async def read_order(order: str) -> dict[str, int | str]:
        """Read an order."""
        return {"id": order, "paid": 120, "days_late": 9 if order == "A-2" else 0}

    @box.tool(permission="confirm")
    async def refund(order: str, amount: int) -> str:
        """Pay an order back."""
        refunded.append(order)
        return f"{order}: {amount} paid back"

    add_code_mode(box.view(names=["list_orders", "read_order", "refund"]))
    return box


async def main() -> None:
    """Run the program until it pauses, and decide in another toolbox on the same store."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/shop.db"
        async with make_box(store) as box:
            receipt = await box.call("run_code", {"code": PROGRAM})
        async with make_box(store) as reviewers:
            for parked in await reviewers.pending():
                print("run_code waits for:", parked.tool, parked.shown)
                print("refunded so far:", refunded)
                await reviewers.approve(parked.id, by="bob")
            print((await reviewers.outcome(receipt.call.id)).value)
            print("refunded:", refunded)


asyncio.run(main())
# > run_code waits for: refund {'order': 'A-2', 'amount': 120}
# > refunded so far: []
# > ['A-2: 120 paid back']
# > refunded: ['A-2']
