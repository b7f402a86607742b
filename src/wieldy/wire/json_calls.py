"""Calls as JSON in a tag: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

import re
from typing import Any

from wieldy.core.call import Call

from .lifting import lift
from .text_blocks import End, Ending, Lookup, made_call, undecided, waits_for_line_end
from .text_fences import FENCE_IN_BLOCK, closes
from .text_values import read_json

_CLOSE = r"(?P<close></tool_call\s{0,16}>)"
# Its `>` is not waited for: quotes may stand in the tag, and outside of a string it is no JSON.
_OPEN = r"(?P<open><tool_call(?=[\s>]))"
_STRUCTURE = rf'(?P<quote>")|{_CLOSE}|{_OPEN}'
_STRING = rf'(?P<quote>")|(?P<escape>\\[\s\S])|{_CLOSE}'
_PATTERNS = {
    (fenced, in_string): re.compile(
        pattern + (f"|{FENCE_IN_BLOCK}" if fenced else ""), re.IGNORECASE
    )
    for in_string, pattern in ((False, _STRUCTURE), (True, _STRING))
    for fenced in (False, True)
}
# A string of JSON holds no line break. A closing tag before one ends the block, quotes or not.
_REAL_CLOSE = re.compile(r"[ \t]{0,16}(?:\r?\n|\Z|<tool_call)", re.IGNORECASE)
_MAYBE_REAL_CLOSE = re.compile(r"[ \t]{0,16}(?:\r|<\w{0,8})?\Z")
_ARGUMENTS = ("arguments", "parameters", "args")
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_LOOSE = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
    r"|'(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)(?P<closed>')?"
    r"|(?P<comma>,(?=\s{0,64}[}\]]))"
    r"|\b(?P<word>True|False|None)\b",
    re.DOTALL,
)


class JsonBlock:
    """A `<tool_call>` with JSON in it. A closing tag inside a string of it is text."""

    def __init__(self, position: int, fence: str | None) -> None:
        self.position = position
        self._fence = fence
        self._in_string = False

    def find_end(self, window: str, final: bool) -> End | None:
        fenced = self._fence is not None
        while True:
            token = _PATTERNS[fenced, self._in_string].search(window, self.position)
            if token is None:
                break
            if _is_cut(window, token, self._in_string, final):
                self.position = token.start()
                return None
            end = self._end_at(window, token)
            if end is not None:
                return end
            self.position = token.end()
        if final:
            return End(len(window), Ending.LOST if self._in_string else Ending.ENDED)
        # A lone backslash escapes what comes next.
        last = len(window) - (self._in_string and window.endswith("\\"))
        self.position = min(undecided(window, self.position, fenced), max(last, self.position))
        return None

    def read_calls(self, raw: str, ending: Ending, lookup: Lookup) -> list[Call]:
        end = raw.rindex("<") if ending is Ending.CLOSED else len(raw)
        calls = [_made(item, lookup) for item in _items(raw[raw.index(">") + 1 : end].strip())]
        made = [call for call in calls if call is not None]
        return made if len(made) == len(calls) else []

    def _end_at(self, window: str, token: re.Match[str]) -> End | None:
        match token.lastgroup:
            case "quote":
                self._in_string = not self._in_string
            case "close" if not self._in_string or _REAL_CLOSE.match(window, token.end()):
                return End(token.end(), Ending.CLOSED)
            case "open":
                return End(token.start(), Ending.CUT)
            case "fence" if closes(token["fence"], self._fence or ""):
                return End(token.start(), Ending.CUT)
        return None


def _is_cut(window: str, token: re.Match[str], in_string: bool, final: bool) -> bool:
    """Whether what follows the token, and is not there yet, decides what the token is."""
    if final:
        return False
    if token.lastgroup == "fence":
        return waits_for_line_end(window, token, final)
    if token.lastgroup == "close" and in_string:
        return _MAYBE_REAL_CLOSE.match(window, token.end()) is not None
    return False


def _items(text: str) -> list[Any]:
    """The values in the text: one, several in a list, or one after the other."""
    for form in (text, _strict(text)):
        try:
            value = read_json(form)
        except ValueError:
            continue
        return value if isinstance(value, list) else [value]
    try:
        return [read_json(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        return []


def _made(item: Any, lookup: Lookup) -> Call | None:
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        item = {**item, **item["function"]}
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or not name.strip():
        return None
    sent: Any = next((item[key] for key in _ARGUMENTS if item.get(key) is not None), {})
    if isinstance(sent, str):
        sent = _decoded(sent)
    if not isinstance(sent, dict):
        return None
    given = item.get("id")
    name = name.strip()
    tool = lookup(name)
    arguments = sent if tool is None else lift(sent, tool)
    return made_call(name, arguments, tool, given if isinstance(given, str) else None)


def _decoded(text: str) -> Any:
    """Arguments that were written as JSON inside of a JSON string."""
    try:
        return read_json(text or "{}")
    except ValueError:
        return None


def _strict(text: str) -> str:
    """JSON without trailing commas, single quotes and Python's words."""
    return _LOOSE.sub(_corrected, text)


def _corrected(found: re.Match[str]) -> str:
    if found["closed"]:
        inner = re.sub(r"\\(.)", _unquoted, found["single"], flags=re.DOTALL)
        return '"' + re.sub(r'(?<!\\)"', r"\"", inner) + '"'
    if found["comma"]:
        return ""
    return _LITERALS[found["word"]] if found["word"] else found[0]


def _unquoted(escape: re.Match[str]) -> str:
    return "'" if escape[1] == "'" else escape[0]
