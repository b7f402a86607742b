"""Use the provider's own function calling, with several calls at once and several rounds."""

from collections.abc import Sequence

from wieldy.agent.data_fence import tell_model
from wieldy.core.call import Call, Outcome
from wieldy.models.model import Answers, Reply, Turn
from wieldy.view import View

from .strategy import Strategy, TextReader


class Native(Strategy):
    """Sends the tools with the request, and gets the calls separately from the text."""

    name = "native"

    def __init__(self, view: View) -> None:
        self._view = view

    def list_for(self, session: str) -> View:
        self._view = self._view.view(session=session)
        return self._view

    @property
    def has_rounds(self) -> bool:
        return self.offered is not None

    @property
    def offered(self) -> View | None:
        # Counting all tools would take long where there are many.
        return None if next(iter(self._view), None) is None else self._view

    def find_calls(self, reply: Reply, reader: TextReader) -> Sequence[Call]:
        return reply.calls

    def answer_turn(self, outcomes: Sequence[Outcome], calls: Sequence[Call]) -> Turn:
        told = [tell_model(each, self._view.get(each.call.tool)) for each in outcomes]
        return Answers(told, calls, max_result=0)
