"""A process whose program says that it has begun, and computes for ten minutes."""

import asyncio
import sys

from wieldy import Toolbox
from wieldy.tools.code_mode import add_code_mode

CODE = """
await begin()
while True:
    pass
"""


async def main() -> None:
    """Run the program."""
    async with Toolbox() as box:
        box.add(begin)
        add_code_mode(box.view(names=["begin"]), seconds=600)
        await box.call("run_code", {"code": CODE})


async def begin() -> None:
    """Say that the program has begun."""
    sys.stdout.write("begun\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
