"""Agently's sessions, which every agent of its latest versions has."""

import uuid
from typing import Any, Self

from wieldy.agent.agent import BaseAgent
from wieldy.agent.nested_data import find_values
from wieldy.agent.prompt_text import value_text
from wieldy.agent.response import Response
from wieldy.agent.settings import Settings
from wieldy.core.names import listed_names


class AgentlySession:
    """A conversation: the whole of it, and the part that is sent to the model."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.full_context: list[Any] = []
        self.context_window: list[Any] = []

    def add_chat_history(self, messages: list[Any], max_length: Any = None) -> None:
        """Add messages, and stop sending the oldest ones if all together are too long."""
        self.full_context += messages
        self.context_window += messages
        if isinstance(max_length, int):
            while len(self.context_window) > 1 and _total_length(self.context_window) > max_length:
                del self.context_window[0]


class SessionExtension(BaseAgent):
    """Adds each finished request to the session that is active, if one is."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sessions: dict[str, AgentlySession] = {}
        self.activated_session: AgentlySession | None = None
        self.extension_handlers.append("finally", self._add_turns)

    def activate_session(self, *, session_id: str | None = None) -> Self:
        """Continue a session of this agent, or start a new one."""
        wanted = uuid.uuid4().hex if session_id is None else session_id
        self.activated_session = self.sessions.setdefault(wanted, AgentlySession(wanted))
        return self._tell_history()

    def deactivate_session(self) -> Self:
        """Leave the session, so that requests no longer have a history."""
        self.activated_session = None
        return self.reset_chat_history()

    def clean_context_window(self) -> Self:
        """Send nothing of the conversation so far to the model."""
        if self.activated_session is not None:
            self.activated_session.context_window = []
        return super().reset_chat_history()

    def set_chat_history(self, messages: Any) -> Self:
        """Replace the conversation so far."""
        self._forget_turns()
        return self.add_chat_history(messages)

    def add_chat_history(self, messages: Any) -> Self:
        """Add messages to the conversation so far."""
        if self.activated_session is None:
            return super().add_chat_history(messages)
        listed = list(messages) if isinstance(messages, list | tuple) else [messages]
        self.activated_session.add_chat_history(listed, self.settings.get("session.max_length"))
        return self._tell_history()

    def reset_chat_history(self) -> Self:
        """Forget the conversation so far."""
        self._forget_turns()
        return self

    def _forget_turns(self) -> None:
        if self.activated_session is not None:
            self.activated_session.full_context = []
            self.activated_session.context_window = []
        super().reset_chat_history()

    def _tell_history(self) -> Self:
        assert self.activated_session is not None
        return super().set_chat_history(self.activated_session.context_window)

    def _session(self) -> str | None:
        return None if self.activated_session is None else self.activated_session.id

    async def _add_turns(self, response: Response, settings: Settings) -> None:
        # The turns belong to the session in which the request was made. Another session may be
        # active by now.
        session = self.sessions.get(response.session or "")
        if session is None:
            return
        slots, answer = response.prompt.values(), response.full_result_data
        asked = slots.get("input", response.user_text)
        turns = {
            "user": _chosen_text(slots, settings.get("session.input_keys"), asked),
            "assistant": _chosen_text(
                answer["parsed_result"], settings.get("session.reply_keys"), answer["text_result"]
            ),
        }
        said = [{"role": role, "content": text} for role, text in turns.items() if text]
        session.add_chat_history(said, settings.get("session.max_length"))
        if session is self.activated_session:
            self._tell_history()


def _chosen_text(data: Any, keys: Any, otherwise: Any) -> str:
    """The values of those keys that exist, each under its name; without keys, `otherwise`."""
    if keys is None:
        return value_text(otherwise)
    found = [(key, _find_key(data, str(key))) for key in listed_names(keys)]
    return "\n".join(f"[{key}]:\n{value_text(each[0])}" for key, each in found if each)


def _find_key(data: Any, key: str) -> list[Any] | None:
    path = key.removeprefix(".request.")
    return find_values(data, path, "slash" if "/" in path else "dot")


def _total_length(messages: list[Any]) -> int:
    return sum(len(value_text(each)) for each in messages)
