"""What a model's program costs beside the calls that it makes."""

import asyncio
import tempfile

from wieldy import Toolbox
from wieldy.tools.code_mode import add_code_mode

from .calls import repeated
from .child import in_child
from .clock import interleaved_async, typical
from .effort import Effort
from .row import Row, ratio
from .sample import ARGUMENTS, find

_CALLS = 100
_ROUNDS = 20
_SENT = ", ".join(f"{name}={value!r}" for name, value in ARGUMENTS.items())
_PROGRAM = f"for n in range({_CALLS}):\n    await find({_SENT})"


def programs(effort: Effort) -> list[Row]:
    """One program that makes a hundred calls, and a hundred calls; all are recorded."""
    ours, calls = typical([in_child(_measure, effort) for _ in range(effort.rounds(5))], 1)
    name = f"a program of {_CALLS} recorded calls"
    return [ratio(name, ours, calls, "ms", f"{_CALLS} recorded calls", 2)]


def _measure(effort: Effort) -> list[float]:
    """Milliseconds of the calls, and of the program."""
    with tempfile.TemporaryDirectory() as folder:
        box = Toolbox(store=f"sqlite:///{folder}/calls.db")
        box.add(find)
        add_code_mode(box.view(names="find"))
        calls = repeated(_CALLS, box.call, "find", ARGUMENTS)

        async def program() -> None:
            (await box.call("run_code", {"code": _PROGRAM})).unwrap()

        best = interleaved_async(effort.rounds(_ROUNDS), calls, program)
        asyncio.run(box.close())
    return [seconds * 1e3 for seconds in best]
