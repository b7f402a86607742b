"""A process whose memory runs out while the result of a call is written."""

import asyncio
import json
import resource
import sys
from pathlib import Path

from wieldy import Status, Toolbox

# Larger than what is taken from memory that was freed before.
_LARGE = 40_000_000


async def main(url: str, room: int) -> None:
    """Make a call whose end needs more memory than there is, then lift the limit."""
    async with Toolbox(store=url) as box:

        @box.tool
        async def large(size: int, short: bool) -> str:
            """Give a large text, and leave little room for the rest."""
            text = "x" * size
            if short:
                limit_memory(room * 2**20)
            return text

        await box.call("large", {"size": 1, "short": False})
        outcome = await box.call("large", {"size": _LARGE, "short": True})
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        told = outcome.value is not None and outcome.status in (Status.OK, Status.UNKNOWN)
        state, value = "started", None
        while state == "started":
            entry = await box.ledger.get(outcome.call.id)
            assert entry is not None
            state, value = entry.state, entry.value
        again = await box.call("large", {"size": 1, "short": False})
    kept = (state, value) == ("ok", "x" * _LARGE)
    print(json.dumps({"told": told, "kept": kept, "next": again.status}))  # noqa: T201


def limit_memory(room: int) -> None:
    """Let this process have only so much more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
