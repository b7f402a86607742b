"""The place of a run among the runs around it."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from wieldy.agent.request import Request


@dataclass(frozen=True, slots=True)
class Nesting:
    """What a run inside a call of another run has from there.

    Attributes:
        run_id: The id of the run itself.
        parent: The id of the run around it, if there is one.
        depth: How many subagents are nested in one another here; 1 is the outermost.
        session: The session in which its calls are made.
    """

    run_id: str
    parent: str | None
    depth: int
    session: str | None

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON; the run's id is known from elsewhere."""
        return {"parent": self.parent, "depth": self.depth, "session": self.session}


class OuterRun(Protocol):
    """A run, as the runs inside it see it."""

    run_id: str
    request: "Request"


def read_nesting(run_id: str, data: Mapping[str, Any] | None) -> Nesting | None:
    """The nesting that was written of a run."""
    return None if data is None else Nesting(run_id, **data)


# The run in which the present code works.
current_outer: ContextVar[OuterRun | None] = ContextVar("wieldy_outer_run", default=None)
