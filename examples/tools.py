"""Example tools in a box that keeps its calls: what `make run` serves.

Run it alone to see two of them work.
"""

import asyncio
from collections.abc import AsyncIterator

from wieldy import Context, Toolbox

box = Toolbox(store="sqlite:///wieldy.db")


@box.tool(read_only=True)
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@box.tool(read_only=True, timeout=60)
async def count(to: int, context: Context) -> AsyncIterator[str]:
    """Count up, a line for each number, and say how far it has come.

    Args:
        to: the last number
    """
    for number in range(1, to + 1):
        await asyncio.sleep(0.1)
        await context.progress(number, to, f"at {number}")
        yield f"{number}\n"


@box.tool(permission="confirm", destructive=True)
def send_mail(to: str, subject: str, text: str = "") -> str:
    """Send a mail, after a person has agreed. This one only says that it did."""
    return f"sent {subject!r} to {to}"


@box.tool(read_only=True, max_result=10_000)
def primes(below: int) -> list[int]:
    """List the prime numbers below a number. The list can be long.

    Args:
        below: where to stop
    """
    sieve = bytearray([1]) * max(below, 2)
    sieve[:2] = b"\0\0"
    for number in range(2, int(len(sieve) ** 0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(sieve[number * number :: number]))
    return [number for number in range(below) if sieve[number]]


async def main() -> None:
    """Call two of the tools."""
    async with box:
        print((await box.call("add", {"a": 1, "b": 2})).value)
        receipt = await box.call("send_mail", {"to": "ann@example.com", "subject": "Hello"})
        print(receipt.status)


if __name__ == "__main__":
    asyncio.run(main())

# > 3.0
# > pending
