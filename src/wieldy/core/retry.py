"""Try again, with growing pauses, where running twice does no harm."""

import asyncio
from copy import copy

from .call import Outcome
from .errors import CallTimeout, ToolFailed
from .run import Handler, Middleware, Run

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0


def retry(retries: int) -> Middleware:
    """A middleware that repeats a failed attempt, never after something was shown."""
    # Loaded with the first tool that retries, to keep `import wieldy` light.
    from random import uniform  # noqa: PLC0415

    async def try_again(run: Run, proceed: Handler) -> Outcome:
        for attempt in range(1, retries + 2):
            # An attempt left behind in a thread must not write into the next one.
            trial = copy(run)
            trial.metadata = dict(run.metadata or {})
            trial.attempts = attempt
            outcome = await proceed(trial)
            again = isinstance(outcome.error, ToolFailed | CallTimeout) and not trial.blocks
            if attempt > retries or not again:
                break
            pause = min(_FIRST_PAUSE * 2 ** (attempt - 1), _LONGEST_PAUSE)
            await asyncio.sleep(pause * uniform(0.5, 1.0))
        vars(run).update(vars(trial))
        if attempt > 1:
            run.note("attempts", attempt)
        return outcome

    return try_again
