"""Read calls that are written as XML in the text, for models without function calling."""

from collections.abc import Sequence

from wieldy.agent.data_fence import tell_model
from wieldy.core.call import Call, Outcome
from wieldy.models.model import Reply, Said, Turn
from wieldy.view import View
from wieldy.wire.answer_content import in_order
from wieldy.wire.prompt import format_result, tool_instructions
from wieldy.wire.text.call_parser import TextCallParser, TextEvent

from .strategy import Strategy, TextReader


class XmlReader:
    """Extracts the calls from a text, and shows the rest."""

    def __init__(self, view: View) -> None:
        self._parser = TextCallParser("xml", view)
        self.calls: list[Call] = []

    def feed(self, text: str) -> str:
        return self._take_events(self._parser.feed(text))

    def close(self) -> str:
        return self._take_events(self._parser.close())

    def _take_events(self, events: list[TextEvent]) -> str:
        self.calls += [event.call for event in events if event.call is not None]
        return "".join(event.text for event in events if event.text)


class Xml(Strategy):
    """Describes the tools in the system message, and reads the calls from the text."""

    name = "xml"

    def __init__(self, view: View) -> None:
        self._view = view
        # The tools that have been described to the model.
        self._described: set[str] = set()

    def list_for(self, session: str) -> View:
        self._view = self._view.view(session=session)
        return self._view

    @property
    def has_rounds(self) -> bool:
        return len(self._view) > 0

    def system_text(self) -> str:
        self._described = set(self._view.names)
        return tool_instructions(self._view) if len(self._view) else ""

    def open_reader(self) -> TextReader:
        return XmlReader(self._view)

    def find_calls(self, reply: Reply, reader: TextReader) -> Sequence[Call]:
        return reader.calls if isinstance(reader, XmlReader) else ()

    def answer_turn(self, outcomes: Sequence[Outcome], calls: Sequence[Call]) -> Turn:
        told = [
            format_result(each.call.tool, tell_model(each, self._view.get(each.call.tool)), 0)
            for each in in_order(outcomes, calls, 0)
        ]
        new = [tool for tool in self._view if tool.name not in self._described]
        if new:
            # The system message stays as it is, for the provider's cache.
            self._described.update(tool.name for tool in new)
            told.append(tool_instructions(new))
        return Said("user", "\n".join(told))
