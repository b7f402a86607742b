"""Tools in a module whose annotations are all text."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel
from typing_extensions import TypedDict

from wieldy import Context, Toolbox


class Item(BaseModel):
    name: str


def register(box: Toolbox) -> None:
    """Add tools whose annotations name classes that only this function knows."""

    class Order(BaseModel):
        item: Item

    class Row(TypedDict):
        n: int

    @dataclass
    class Unused:
        n: int

    @box.tool
    def order(order: Order, context: Context, count: int = 1) -> str:
        return f"{count} x {order.item.name}"

    @box.tool
    async def nested(row: Row, unused: Unused | None = None) -> int:
        return row["n"]
