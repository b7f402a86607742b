"""What it costs to describe one tool."""

from wieldy import Tool, Toolbox

from .clock import interleaved
from .effort import Effort
from .reference import pydantic_schema
from .row import Row, ratio
from .sample import make_eight

_AGAINST = "pydantic create_model + schema"


def schema(effort: Effort) -> list[Row]:
    """Describe functions of eight parameters, and register them without describing."""
    count = effort.count(40)

    def by_pydantic() -> None:
        for number in range(count):
            pydantic_schema(make_eight(), f"Tool{number}")

    def described() -> None:
        for number in range(count):
            tool = Tool(make_eight(), name=f"tool_{number}")
            _ = tool.description, tool.input_schema

    def registered() -> None:
        box = Toolbox()
        for number in range(count):
            box.add(make_eight(), name=f"tool_{number}")

    described()
    base, full, bare = (
        seconds / count * 1e3
        for seconds in interleaved(effort.rounds(12), by_pydantic, described, registered)
    )
    return [
        ratio("schema of an 8-parameter function", full, base, "ms", _AGAINST, 1.0),
        ratio("registering it alone", bare, base, "ms", _AGAINST, 0.05),
    ]
