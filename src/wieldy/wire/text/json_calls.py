"""Calls as JSON in a tag: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

import re
from typing import Any

from wieldy.core.call import Call
from wieldy.wire.schema.lifting import lift_arguments

from .call_blocks import (
    BlockEnd,
    BlockEnding,
    Lookup,
    made_call,
    undecided_from,
    waits_for_line_end,
)
from .code_fences import FENCE_IN_BLOCK, closes_fence
from .json_strings import ANY_QUOTE, BEFORE_APOSTROPHE, JsonStrings
from .text_values import read_json_text, read_loose_json

_CLOSE = r"(?P<close></tool_call\s{0,16}>)"
# The pattern does not wait for `>`, because the tag may contain quotes.
_OPEN = r"(?P<open><tool_call(?=[\s>]))"
_STRUCTURE = f"{ANY_QUOTE}|{_CLOSE}|{_OPEN}"
_TOKEN = re.compile(_STRUCTURE, re.IGNORECASE)
_FENCED_TOKEN = re.compile(f"{_STRUCTURE}|{FENCE_IN_BLOCK}", re.IGNORECASE)
_ARGUMENTS = ("arguments", "parameters", "args")


class JsonBlock:
    """A `<tool_call>` that contains JSON.

    Closing tags, calls and fences inside a JSON string are text. A quoted text must not be
    able to make calls, so everything after a string that is never closed is text as well.
    """

    def __init__(self, position: int, fence: str | None) -> None:
        self.position = position
        self.offset = 0
        self._fence = fence
        self._token = _FENCED_TOKEN if fence else _TOKEN
        self._strings = JsonStrings()

    def defers(self, chunk: str) -> bool:
        return False

    def find_end(self, window: str, final: bool) -> BlockEnd | None:
        end = self._search_end(window, final)
        if end is not None or not final:
            return end
        return BlockEnd(
            len(window), BlockEnding.LOST if self._strings.unfinished else BlockEnding.ENDED
        )

    def read_calls(self, raw: str, ending: BlockEnding, lookup: Lookup) -> list[Call]:
        end = raw.rindex("<") if ending is BlockEnding.CLOSED else len(raw)
        calls = [
            _make_call(item, lookup) for item in _read_items(raw[raw.index(">") + 1 : end].strip())
        ]
        made = [call for call in calls if call is not None]
        return made if len(made) == len(calls) else []

    def _search_end(self, window: str, final: bool) -> BlockEnd | None:
        while self._is_outside(window, final):
            token = self._token.search(window, self.position)
            if token is None:
                self._keep_undecided(window)
                break
            match token.lastgroup:
                case "quote":
                    self._strings.enter(token[0])
                case "close":
                    return BlockEnd(token.end(), BlockEnding.CLOSED)
                case "open":
                    return BlockEnd(token.start(), BlockEnding.CUT)
                case "fence":
                    if waits_for_line_end(window, token, final):
                        self.position = token.start()
                        break
                    if closes_fence(token["fence"], self._fence or ""):
                        return BlockEnd(token.start(), BlockEnding.CUT)
            self.position = token.end()
        return None

    def _is_outside(self, window: str, final: bool) -> bool:
        self.position, outside = self._strings.leave(window, self.position, final)
        return outside

    def _keep_undecided(self, window: str) -> None:
        cut = undecided_from(window, self.position, self._fence is not None)
        self.position = max(self.position, min(cut, len(window) - BEFORE_APOSTROPHE))


def _read_items(text: str) -> list[Any]:
    """The values in the text: one, several in a list, or one after the other."""
    try:
        values = read_loose_json(text)
    except ValueError:
        return []
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _make_call(item: Any, lookup: Lookup) -> Call | None:
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        item = {**item, **item["function"]}
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or not name.strip():
        return None
    sent: Any = next((item[key] for key in _ARGUMENTS if item.get(key) is not None), {})
    if isinstance(sent, str):
        sent = _decode_arguments(sent)
    if not isinstance(sent, dict):
        return None
    given = item.get("id")
    name = name.strip()
    tool = lookup(name)
    arguments = sent if tool is None else lift_arguments(sent, tool)
    return made_call(name, arguments, tool, given if isinstance(given, str) else None)


def _decode_arguments(text: str) -> Any:
    """Arguments, decoded if they were written as JSON inside a JSON string."""
    try:
        return read_json_text(text or "{}")
    except ValueError:
        return None
