"""Events of a subagent, as they pass through the stream of the call that runs it."""

from collections.abc import Callable
from typing import Any

from wieldy.core.block import Notice

# Each event for programs, except the words of the answer, also has a line for people.
_TOLD = ("tool_start", "tool_complete", "permission_request")


class AgentEvent(Notice):
    """An event of a subagent's run. Like any notice it is no part of the result.

    Args:
        agent: The subagent's name.
        run_id: Its run.
        call_id: The call that runs it.
        event: The event's name, as in the stream of a response.
        data: What belongs to it.
    """

    __slots__ = ("agent", "call_id", "data", "event", "run_id")
    type = "subagent"

    def __init__(self, agent: str, run_id: str, call_id: str, event: str, data: Any) -> None:
        super().__init__(_find_words(agent, event, data), "debug", agent)
        self.agent = agent
        self.run_id = run_id
        self.call_id = call_id
        self.event = event
        self.data = data

    @property
    def shown_text(self) -> str | None:
        """The words of the answer, what its tools show, and a line for what they do."""
        if self.event == "delta":
            return str(self.data)
        if self.event in ("tool_progress", "tool_notice"):
            said = self.data.get("message")
            return None if said is None else f"{self.data['tool_name']}: {said}"
        return self.message if self.event in _TOLD else None

    def to_dict(self) -> dict[str, Any]:
        names = ("agent", "run_id", "call_id", "event", "data")
        return {"type": "subagent", **{name: getattr(self, name) for name in names}}

    def map_text(self, change: Callable[[str], str]) -> "AgentEvent":
        data = _map_strings(self.data, change)
        return AgentEvent(self.agent, self.run_id, self.call_id, self.event, data)

    def __repr__(self) -> str:
        return f"AgentEvent({self.agent!r}, {self.event!r}, {self.data!r})"


def _find_words(agent: str, event: str, data: Any) -> str:
    """Describe an event in a line for people: a piece of the answer, or who does what."""
    if event == "delta":
        return str(data)
    if event not in _TOLD or not isinstance(data, dict):
        return ""
    return f"{agent}: {event} {data.get('tool_name', '')}"


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_strings(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_map_strings(each, change) for each in value]
    return value
