"""Come back to a call of an agent that waited when its client was told so."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import CallNotFound, InvalidArguments
from wieldy.core.permission.waiting_calls import RESUME_CALL
from wieldy.core.streaming import TellingSink
from wieldy.core.tool import Tool

from .offer import Decider


async def find_outcome_so_far(
    box: Any, tool: Tool, call: Call, tell: Callable[[Any], Awaitable[None]]
) -> Outcome:
    """How the call stands that a client comes back to: its end, or its receipt.

    It goes on if what it waited for has ended. A client finds only calls of its own.
    """
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    asked = arguments.get(RESUME_CALL)
    found = await _find_outcome(box, tool, call, asked) if isinstance(asked, str) else None
    if found is None:
        problem = f"{RESUME_CALL}: {tool.name} has no call {asked!r:.200} of yours that waited"
        return Outcome(call, Status.ERROR, error=InvalidArguments(tool.name, [problem]))
    if "waits_for" not in found.metadata:
        return found
    sink = TellingSink(tell)
    outcome = await cast(Decider, box).go_on(found.call.id, sink=sink)
    await sink
    return outcome


async def _find_outcome(box: Any, tool: Tool, call: Call, asked: str) -> Outcome | None:
    if not hasattr(box, "outcome"):
        # A view takes no decisions, and knows no calls.
        return None
    try:
        waited = (await box.desk.find(asked)).call
        if (waited.tool, waited.scope.caller) != (tool.name, call.scope.caller):
            # Nobody learns, by how long the answer takes, whether another's call is running.
            return None
        return await cast(Decider, box).outcome(asked)
    except CallNotFound:
        return None
