"""What the same call costs in each dialect, beside the engine's own call and the original's."""

from typing import Any, ClassVar

from examples.compare.compare import python_of, release_of
from wieldy import Toolbox
from wieldy.dialects.agently import AgentlyToolManager
from wieldy.dialects.agentscope import Toolkit, ToolResponse
from wieldy.dialects.artifactflow import AgentToolkit, BaseTool, ToolParameter, ToolResult
from wieldy.dialects.sage import MCPRegistry

from .calls import repeated
from .child import in_child, run_json
from .clock import AsyncWork, interleaved_async, typical
from .effort import Effort
from .original import toolkit_work
from .reference import raw
from .row import Row, ratio
from .sample import ARGUMENTS, find

_COUNT = 100
_ROUNDS = 150
_PROCESSES = 7
_ENGINE = "the engine's call"
_NAMES = ("agently", "agentscope", "sage", "artifactflow")
# What is measured first: the engine's call, the function itself, and the engine's call of
# AgentScope's function, which makes a response with an id.
_FIRST = 3
# AgentScope's call validates nothing, and ours must still not be slower. Agently's is a lookup.
_TARGETS = {"agently": None, "agentscope": 1.0}


def dialects(effort: Effort) -> list[Row]:
    """Each dialect beside the engine, and beside its original where there is one to install."""
    runs = [in_child(in_dialects, effort) for _ in range(effort.rounds(_PROCESSES))]
    rows = [*(_beside_engine(name, runs) for name in _NAMES), _direct(runs)]
    # A test takes a small share, and installs nothing.
    return rows if effort.share < 1 else [*rows, *(_beside(name, runs) for name in _TARGETS)]


def in_dialects(effort: Effort) -> list[float]:
    """Microseconds of the engine's call, of the function itself, and of each dialect's call."""
    count = effort.count(_COUNT)
    box = Toolbox()
    box.add(find)
    toolkit = Toolkit()
    theirs = toolkit_work(toolkit, ToolResponse, count)
    works = (
        repeated(count, box.call, "find", ARGUMENTS),
        raw(count),
        repeated(count, toolkit.toolbox.call, "answer", ARGUMENTS),
        *_works(count, theirs),
    )
    best = interleaved_async(effort.rounds(_ROUNDS), *works)
    return [seconds / count * 1e6 for seconds in best]


def _works(count: int, toolkit: AsyncWork) -> list[AsyncWork]:
    manager = AgentlyToolManager()
    manager.tool_func(find)
    registry = MCPRegistry(validate=True)
    registry.register(_Finder())
    kit = AgentToolkit("bench")
    tool = _FindTool("find", "Find leaves.")
    kit.add_tool(tool)
    return [
        repeated(count, manager.async_call_tool, "find", ARGUMENTS),
        toolkit,
        repeated(count, registry.acall, "find", ARGUMENTS),
        repeated(count, kit.execute_tool, "find", ARGUMENTS),
        _direct_work(count, tool),
    ]


def _direct_work(count: int, tool: BaseTool) -> AsyncWork:
    async def work() -> None:
        for _ in range(count):
            await tool(**ARGUMENTS)

    return work


def _beside_engine(name: str, runs: list[list[float]]) -> Row:
    """A dialect beside the engine's call of the same function."""
    place = _NAMES.index(name) + _FIRST
    start = 2 if name == "agentscope" else 0
    ours, engine = typical([run[start:] for run in runs], place - start)
    return ratio(f"{name} dialect", ours, engine, "µs", _ENGINE, 2)


def _direct(runs: list[list[float]]) -> Row:
    """A tool object that is called directly beside the same through its toolkit."""
    ours, kit = typical([run[-2:] for run in runs], 1)
    return ratio("artifactflow tool, called directly", ours, kit, "µs", "the toolkit's call", 1)


def _beside(name: str, runs: list[list[float]]) -> Row:
    """A dialect beside its original, whose time is scaled by what the function itself takes."""
    place = _NAMES.index(name) + _FIRST
    ours, engine = typical(runs, place)
    here = next(run[1] for run in runs if (run[place], run[0]) == (ours, engine))
    command = [str(python_of(name)), "-m", "bench.original", name, "1"]
    measured = sorted((run_json(command) for _ in range(3)), key=lambda run: run[1] / run[0])
    there, theirs = measured[1]
    against, target = release_of(name), _TARGETS[name]
    return ratio(f"{name} dialect", ours, theirs * here / there, "µs", against, target)


class _Finder:
    name = "find"
    description = "Find leaves."
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1},
            "limit": {"type": "integer", "minimum": 1, "default": 10},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query", "tags"],
        "additionalProperties": False,
    }

    async def call(self, arguments: dict[str, Any]) -> Any:
        return await find(**arguments)


class _FindTool(BaseTool):
    def get_parameters(self) -> list[ToolParameter]:
        return [
            ToolParameter("query", "string", "The words to look for."),
            ToolParameter("limit", "integer", "How many answers."),
            ToolParameter("tags", "array", "Only answers with these."),
        ]

    async def execute(self, query: str, limit: int, tags: list[str]) -> ToolResult:
        return ToolResult(True, data=query)
