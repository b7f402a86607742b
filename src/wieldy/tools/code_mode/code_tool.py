"""The tool `run_code`, and how it is added to the toolbox of a view."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from wieldy.core.context import Context
from wieldy.core.permission.waiting_calls import CallsNeeded
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox
from wieldy.view import View

from .inner_calls import PausedPrograms, RecordedCalls, RememberedCalls
from .program_errors import ProgramFailed
from .program_functions import ProgramFunctions

if TYPE_CHECKING:
    from .stepwise_program import CodeLimits
    from .worker_pool import WorkerPool

_MAX_CODE = 200_000


def add_code_mode(
    view: View,
    *,
    name: str = "run_code",
    tags: Iterable[str] | str = (),
    seconds: float = 30,
    memory: int = 100_000_000,
    calls: int = 1_000,
    output: int = 50_000,
    budget: int = 10_000,
) -> Tool:
    """Add a tool that runs a Python program whose functions are the tools of a view.

    Each call of the program is a call of its own, with its permission, its limits and its
    record. If one of them has to be approved, the program pauses, and goes on afterwards.

    Args:
        view: The view whose tools the program may call. The tool is added to its toolbox, and
            is not among them.
        name: The name of the tool.
        tags: The tags of the tool, such as that of an agent which is to see it.
        seconds: How long a program may work. The time of its calls does not count, and what it
            sleeps may be as long again.
        memory: How many bytes a program may hold.
        calls: How many calls a program may make.
        output: How many characters a program may print; the rest is cut.
        budget: How many tokens the descriptions of the functions may take, as `cost` estimates
            them. Above that, only their names are listed, or how to find them.

    Returns:
        The tool.

    Raises:
        ImportError: The package of the sandbox is missing.
        NameTaken: The toolbox has a tool of this name.
        ValueError: A number is not above 0.

    Example:
        `add_code_mode(box.view(tags="read"), calls=100)`
    """
    # Loaded when it is asked for: the sandbox is an extra.
    try:
        from .stepwise_program import CodeLimits  # noqa: PLC0415
        from .worker_pool import WorkerPool  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f'Code mode needs more packages ({error}): pip install "wieldy[code-mode]"'
        ) from error
    numbers = {"memory": memory, "calls": calls, "output": output, "budget": budget}
    _check_numbers(seconds, numbers)
    box = view.box
    assert isinstance(box, Toolbox)
    limits = CodeLimits(seconds, memory, calls, output, _MAX_CODE)
    pool = WorkerPool()
    mode = _CodeMode(view, box, name, limits, budget, pool)
    tool = Tool(mode.run_code, name=name, tags=tags, resumable=True)
    added = box.add(mode.make_tool(tool))
    box.close_with(pool)
    return added


def move_code_mode(tool: Tool, box: Toolbox, names: Mapping[str, str]) -> Tool | None:
    """Make the tool that runs programs in another toolbox, which has taken in its functions.

    Args:
        tool: A tool of that toolbox.
        box: The toolbox.
        names: The names there of the tools that it has taken in, by their earlier names.

    Returns:
        The tool whose calls are made in that toolbox; None if the tool runs no programs, or one
        of its functions was not taken in.
    """
    mode = getattr(tool.function, "__self__", None)
    return mode.move_to(box, tool, names) if isinstance(mode, _CodeMode) else None


class _CodeMode:
    """What the tool knows: whose functions a program has, its limits, and what has paused."""

    def __init__(
        self,
        view: View,
        box: Toolbox,
        name: str,
        limits: "CodeLimits",
        budget: int,
        pool: "WorkerPool",
    ) -> None:
        self._view = view
        self._box = box
        self._name = name
        self._budget = budget
        self._functions: Callable[[View], ProgramFunctions] = partial(
            ProgramFunctions, own_name=name, budget=budget
        )
        self._limits = limits
        self._pool = pool
        self._paused = PausedPrograms()

    def make_tool(self, tool: Tool) -> Tool:
        """The tool, run by this object."""
        run, describe = self.run_code, self.describe_functions
        return tool.replace(function=run, simulate=run, appendix=describe)

    def move_to(self, box: Toolbox, tool: Tool, names: Mapping[str, str]) -> Tool | None:
        """The tool with its functions in another toolbox; None if they are not all there."""
        own = [each.name for each in self._view.all_visible() if each.name != self._name]
        if not all(name in names for name in own):
            return None
        # Rules about the view's agent hold there too.
        view = box.view(names=[names[name] for name in own]).acting_for(self._view._scope)
        moved = _CodeMode(view, box, tool.name, self._limits, self._budget, self._pool)
        return moved.make_tool(tool)

    def describe_functions(self) -> str:
        """The functions of the program, as they are now for somebody of whom nothing is known."""
        return self._functions(self._view).describe()

    async def run_code(
        self, code: Annotated[str, Field(description="the program")], context: Context
    ) -> Any:
        """Run a Python program that calls functions.

        Await every function: `weather = await forecast(city="Oslo")`. Arguments are passed by
        name. `await asyncio.gather(a(), b())` runs calls at once. A call that fails or is
        refused raises an exception that the program can catch. The result is the value of the
        last expression; what is printed is shown too. The program has no files and no network,
        and of the standard library asyncio, collections, datetime, functools, itertools, json,
        math, random, re, time and a few more.
        """
        # The sandbox is an extra, and was found when the tool was added.
        from .stepwise_program import Program  # noqa: PLC0415

        if len(code) > self._limits.code:
            raise ProgramFailed(
                f"The program has {len(code):,} characters; {self._limits.code:,} are the most."
            )
        calls = await self._find_calls(context)
        functions = self._functions(self._view.acting_for(context.scope))
        program = Program(code, functions, calls, self._limits, context)
        try:
            return await program.run(self._pool)
        except CallsNeeded:
            if isinstance(calls, RememberedCalls):
                self._paused.keep(calls)
            raise

    async def _find_calls(self, context: Context) -> RecordedCalls | RememberedCalls:
        if self._box.recorded:
            return await RecordedCalls.find(self._view, self._box, context)
        return self._paused.take(self._view, self._box, context)


def _check_numbers(seconds: float, numbers: dict[str, int]) -> None:
    if isinstance(seconds, bool) or not 0 < seconds < inf:
        raise ValueError(f"seconds is a number above 0, not {seconds!r}")
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} is a whole number from 1 up, not {number!r}")
