"""The interface of strategies for the loop of a run, and the strategy without tools."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from wieldy.agent.run_state import RunState
from wieldy.core.call import Call, Outcome
from wieldy.models.model import Answers, ModelEvent, ModelRequest, Reply, Turn
from wieldy.view import View

if TYPE_CHECKING:
    from wieldy.agent.request import Request


class TextReader(Protocol):
    """Reads the text of one answer: returns the words to show, and keeps the calls."""

    def feed(self, text: str) -> str:
        """The words that are certain to be shown."""

    def close(self) -> str:
        """The rest of the words."""


class PlanningRun(Protocol):
    """The part of a run that a strategy uses before the model is asked for its answer."""

    request: "Request"
    state: RunState
    options: Mapping[str, Any]

    async def settle(self) -> None:
        """Write the state of the run durably."""

    def find_limit(self) -> str | None:
        """The limit that is reached, so that no more calls are made, or None."""

    def watch(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Send a request, and yield its events."""

    def count_round(self, outcomes: Sequence[Outcome]) -> None:
        """Count one round of calls, and what they cost."""

    def name_calls(self, calls: Sequence[Call], place: str) -> list[Call]:
        """The calls with permanent ids."""

    async def run_calls(self, calls: Sequence[Call], streams: bool = True) -> list[Outcome]:
        """Run calls at the same time."""

    def add_log(self, log: dict[str, Any]) -> None:
        """Keep a log until the stream begins."""


class PlainText:
    """Shows the text as it is."""

    def feed(self, text: str) -> str:
        return text

    def close(self) -> str:
        return ""


class Strategy:
    """A request without tools: one question, one answer."""

    name = "none"

    def list_for(self, session: str) -> View | None:
        """From now on offer what the session, or the run, is shown; gives the view of that."""
        return None

    @property
    def offered(self) -> View | None:
        """The tools that are offered to the model in the request itself."""
        return None

    @property
    def has_rounds(self) -> bool:
        """Whether an answer may be calls instead of the output that was asked for."""
        return False

    def system_text(self) -> str:
        """The part of the system message about tools."""
        return ""

    async def plan(self, run: PlanningRun) -> None:
        """Prepare the run before the model is asked for its answer."""

    def open_reader(self) -> TextReader:
        """A reader for the text of one answer."""
        return PlainText()

    def find_calls(self, reply: Reply, reader: TextReader) -> Sequence[Call]:
        """The calls that the model makes in an answer."""
        return ()

    def answer_turn(self, outcomes: Sequence[Outcome], calls: Sequence[Call]) -> Turn:
        """The turn that tells the model the outcomes of its calls, which are cut already."""
        return Answers(outcomes, calls, max_result=0)
