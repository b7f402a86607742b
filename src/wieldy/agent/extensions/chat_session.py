"""Chat sessions, to which each finished request adds two turns."""

import uuid
from typing import Any, Literal, Self, get_args

from wieldy.agent.agent import BaseAgent
from wieldy.agent.nested_data import PathStyle, find_values
from wieldy.agent.output.data_formatter import DataFormatter
from wieldy.agent.response import Response
from wieldy.agent.settings import Settings
from wieldy.core.bounded_json import copy_json, dump_json
from wieldy.core.call import check_id
from wieldy.core.sync import blocking_border

Mode = Literal["first", "all"]
PromptPath = str | tuple[str, str | None]
Place = tuple[str, str | None, PathStyle]

_INPUT, _OUTPUT = "record_input", "record_output"


class ChatSessionExtension(BaseAgent):
    """Keeps conversations in the toolbox's store, or in memory if it has none.

    Nothing is recorded without an active session.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._active_session: str | None = None
        self._kept_here: dict[str, list[Any]] = {}
        self.extension_handlers.append("finally", self._record_turns)

    async def async_activate_chat_session(self, chat_session_id: str | None = None) -> str:
        """Continue a session, or begin one. Its history replaces the conversation so far.

        Args:
            chat_session_id: The session's id; without it a new session begins.

        Returns:
            The session's id.

        Raises:
            ValueError: The id is empty or too long.
        """
        session = uuid.uuid4().hex if chat_session_id is None else chat_session_id
        check_id("a session", session)
        history = await self._load_history(session)
        self._active_session = session
        self.set_chat_history(history)
        return session

    def activate_chat_session(self, chat_session_id: str | None = None) -> str:
        """Continue a session, or begin one, from blocking code.

        Args:
            chat_session_id: The session's id; without it a new session begins.

        Returns:
            The session's id.

        Example:
            `agent.activate_chat_session("ann")`
        """
        return blocking_border().wait(
            lambda home: self.async_activate_chat_session(chat_session_id)
        )

    def stop_chat_session(self) -> Self:
        """Leave the session and forget its conversation; later requests are not recorded."""
        self._active_session = None
        self.reset_chat_history()
        return self

    def set_record_input_paths(
        self, *paths: PromptPath, mode: Mode | None = None, style: PathStyle = "dot"
    ) -> Self:
        """Choose which part of the prompt is recorded as the user's turn.

        Args:
            *paths: Slots, or pairs of a slot and a path in it.
            mode: "all" records every path that is there, "first" only the first.
            style: How the paths are written, "dot" or "slash".

        Returns:
            The agent.
        """
        self.settings.replace(f"{_INPUT}_paths", [_prompt_place(each, style) for each in paths])
        return self if mode is None else self.set_record_input_mode(mode)

    def set_record_output_paths(
        self, *paths: str, mode: Mode | None = None, style: PathStyle = "dot"
    ) -> Self:
        """Choose which part of the parsed answer is recorded as the assistant's turn.

        Args:
            *paths: Paths in the answer.
            mode: "all" records every path that is there, "first" only the first.
            style: How the paths are written, "dot" or "slash".

        Returns:
            The agent.
        """
        self.settings.replace(f"{_OUTPUT}_paths", [_answer_place(each, style) for each in paths])
        return self if mode is None else self.set_record_output_mode(mode)

    def clean_record_input_paths(self) -> Self:
        """Record the input itself again."""
        return self.set_record_input_paths()

    def clean_record_output_paths(self) -> Self:
        """Record the answer's text again."""
        return self.set_record_output_paths()

    def set_record_input_mode(self, mode: Mode) -> Self:
        """Choose how many paths of the prompt are recorded.

        Args:
            mode: "all" records every path that is there, "first" only the first.

        Returns:
            The agent.

        Raises:
            ValueError: The mode is neither.
        """
        self.settings.set(f"{_INPUT}_mode", _check_mode(mode))
        return self

    def set_record_output_mode(self, mode: Mode) -> Self:
        """Choose how many paths of the answer are recorded.

        Args:
            mode: "all" records every path that is there, "first" only the first.

        Returns:
            The agent.

        Raises:
            ValueError: The mode is neither.
        """
        self.settings.set(f"{_OUTPUT}_mode", _check_mode(mode))
        return self

    def _session(self) -> str | None:
        return self._active_session

    async def _load_history(self, session: str) -> list[Any]:
        if self.toolbox.recorded:
            return await self.toolbox.sessions.read(session)
        return list(self._kept_here.get(session, ()))

    async def _record_turns(self, response: Response, settings: Settings) -> None:
        session = response.session
        if session is None:
            return
        turns = [
            {"role": "user", "content": _user_turn(response, settings)},
            {"role": "assistant", "content": _assistant_turn(response, settings)},
        ]
        if self.toolbox.recorded:
            # A run that is resumed after a crash finishes twice, but adds its turns only once.
            await self.toolbox.sessions.append(session, *turns, once=response.run_id)
        else:
            self._kept_here.setdefault(session, []).extend(turns)
        if self._active_session == session:
            self.add_chat_history(turns)


def _user_turn(response: Response, settings: Settings) -> Any:
    places = settings.get(f"{_INPUT}_paths") or []
    if not places:
        said = response.prompt.get("input")
        return _plain_data(response.user_text if said is None else said)
    slots = response.prompt.values()
    found = [
        (_place_label(*place), _find_place(slots.get(place[0]), place))
        for place in map(tuple, places)
    ]
    return _choose_values(found, settings.get(f"{_INPUT}_mode", "all"), "")


def _assistant_turn(response: Response, settings: Settings) -> Any:
    result = response.full_result_data
    places = settings.get(f"{_OUTPUT}_paths") or []
    if not places:
        return result["text_result"]
    found = [
        (_place_label("", *place[1:]), _find_place(result["parsed_result"], place))
        for place in places
    ]
    return _choose_values(found, settings.get(f"{_OUTPUT}_mode", "all"), result["text_result"])


def _find_place(data: Any, place: Any) -> list[Any] | None:
    _, path, style = place
    if data is None:
        return None
    return [data] if path is None else find_values(data, path, style)


def _choose_values(found: list[tuple[str, list[Any] | None]], mode: str, otherwise: str) -> Any:
    """The first value that exists, or all of them by name. Falsy values count as existing."""
    values = {
        label: each[0] if len(each) == 1 else each for label, each in found if each is not None
    }
    if not values:
        return otherwise
    if mode == "first":
        return _plain_data(next(iter(values.values())))
    return dump_json(_plain_data(values), ensure_ascii=False)


def _place_label(slot: str, path: str | None, style: PathStyle) -> str:
    return ".".join(filter(None, (slot, path)))


def _prompt_place(given: PromptPath, style: PathStyle) -> Place:
    if isinstance(given, str):
        return given, None, style
    slot, path = given
    return slot, path, _style_of(path, style)


def _answer_place(path: str, style: PathStyle) -> Place:
    return "", path, _style_of(path, style)


def _style_of(path: str | None, style: PathStyle) -> PathStyle:
    # A path that contains a slash always has the slash style.
    return "slash" if path is not None and "/" in path else style


def _plain_data(value: Any) -> Any:
    """A value as JSON data, which a store keeps unchanged."""
    plain = DataFormatter.sanitize(value)
    return copy_json(plain, default=str)


def _check_mode(mode: Any) -> Mode:
    if mode not in get_args(Mode):
        raise ValueError(f"the mode is 'first' or 'all', not {mode!r}")
    chosen: Mode = mode
    return chosen
