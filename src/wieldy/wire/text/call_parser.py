"""Find tool calls in a model's text while it streams."""

import re
from collections.abc import Iterable
from typing import Literal, Protocol, runtime_checkable

from wieldy.core.call import Call
from wieldy.core.choices import TextDialect
from wieldy.core.names import provider_name
from wieldy.core.tool import Tool

from .call_blocks import BlockEnding, CallBlock, Lookup
from .call_dialects import TAG_LIMIT, dialect_named
from .code_fences import closing_end, may_close_fence, may_open_fence, opening_end
from .json_calls import JsonBlock
from .parameter_calls import ParameterBlock, tag_name
from .text_window import TextWindow
from .xml_calls import XmlBlock
from .xml_plain import plain_call, read_plain

__all__ = ["KnownTools", "TextCallParser", "TextEvent"]

_SPACE = re.compile(r"\s{0,256}")
_SINGLE = "tool_call"


class TextEvent:
    """A piece of a model's text: text to show, or a call.

    `raw_text` is the original text of the event. Markup around calls, such as the lines of a
    code fence, becomes an event with an empty `text`, so the `raw_text` of all events joined
    is exactly the text that was fed.

    Example:
        `shown = "".join(event.text for event in parser.feed(chunk))`
    """

    __slots__ = ("call", "raw_text", "text")

    def __init__(self, text: str | None, call: Call | None, raw_text: str) -> None:
        self.text = text
        self.call = call
        self.raw_text = raw_text

    @property
    def type(self) -> Literal["text", "call"]:
        """The kind of the event."""
        return "text" if self.call is None else "call"

    def __repr__(self) -> str:
        return f"TextEvent({self.call!r})" if self.call else f"TextEvent({self.text!r})"


@runtime_checkable
class KnownTools(Protocol):
    """Tools by name, such as a toolbox, a view or a dict."""

    def get(self, name: str, /) -> Tool | None: ...


class _Fence:
    """A code fence that has contained only calls so far; if `held` is None, it is text."""

    __slots__ = ("held", "marks", "opening")

    def __init__(self, marks: str, opening: str) -> None:
        self.marks = marks
        self.opening = opening
        self.held: list[TextEvent] | None = []


class TextCallParser:
    """Reads a message piece by piece, and returns its text and its calls in order.

    The calls and the visible text don't depend on how the message is cut into pieces. After
    `close` the parser is ready for the next message.

    Args:
        dialect: the form in which the model writes calls. `auto` recognises all of them.
        tools: the tools that may be called. With them, calls get the tools' own names and
            arguments of the declared types.

    Raises:
        ValueError: the dialect is unknown.

    Example:
        `calls = TextCallParser(tools=box).parse(answer)`
    """

    def __init__(
        self, dialect: TextDialect = "xml", tools: KnownTools | Iterable[Tool] | None = None
    ) -> None:
        self._dialect = dialect_named(dialect)
        self._lookup = _make_lookup(tools)
        self._begin_text()

    def feed(self, chunk: str) -> list[TextEvent]:
        """Read the next piece of text.

        Args:
            chunk: the text.

        Returns:
            The events that are certain now. Text that may be the start of a call is held back.
        """
        if self._block is not None and self._block.defers(chunk):
            self._deferred.append(chunk)
            return []
        self._window.add(self._join_deferred(chunk))
        while self._read_step(False):
            pass
        self._drop_past()
        return self._take_events()

    def close(self) -> list[TextEvent]:
        """End the message.

        Returns:
            The remaining events. An unfinished call is returned as text.
        """
        self._window.add(self._join_deferred(""))
        while self._read_step(True):
            pass
        self._add_words(self._lead)
        self._say_to(len(self._window.text))
        events = self._take_events()
        self._begin_text()
        return events

    def events(self, text: str) -> list[TextEvent]:
        """The events of a complete text. This does not affect a message that is being fed."""
        other = TextCallParser(self._dialect.name)
        other._lookup = self._lookup
        return [*other.feed(text), *other.close()]

    def parse(self, text: str) -> list[Call]:
        """The calls in a complete text. This does not affect a message that is being fed."""
        return [event.call for event in self.events(text) if event.call is not None]

    def _begin_text(self) -> None:
        self._window = TextWindow()
        self._lead = ""  # markup, hidden if a call follows, else text
        self._inner = 0  # the start of the last wrapper in it
        self._wrappers: list[str] = []
        self._fence: _Fence | None = None
        self._block: CallBlock | None = None
        self._block_start = 0
        self._held: list[str] = []  # the part of the block before the window
        self._deferred: list[str] = []  # text that the open block need not read yet
        self._gap = False  # whether only calls are expected
        self._words: list[str] = []
        self._out: list[TextEvent] = []

    def _read_step(self, final: bool) -> bool:
        """Read up to the next decision; False if more text is needed."""
        if self._block is not None:
            return self._read_block(self._block, final)
        if self._gap:
            return self._read_gap(final)
        if self._fence is not None:
            return self._read_fence(self._fence, final)
        return self._read_text(final)

    # Prose

    def _read_text(self, final: bool) -> bool:
        tag = self._window.next_tag(self._dialect.opening)
        end = len(self._window.text) if tag is None else tag.start()
        marks = self._window.next_marks(end)
        if marks is not None:
            return self._enter_fence(marks, final)
        if tag is None:
            self._say_to(len(self._window.text) if final else self._undecided_from())
            return False
        self._say_to(tag.start())
        if tag["wrapper"]:
            return self._read_at_once(tag) or self._enter_wrapper(tag)
        if not self._start_named(tag, tag.start()):
            self._say_to(tag.end())
        return True

    def _read_at_once(self, tag: re.Match[str]) -> bool:
        """Read the most common kind of call without looking for its end first."""
        if "xml" not in self._dialect.bodies or tag["wrapper"].lower() != _SINGLE:
            return False
        plain = read_plain(self._window.text, tag.end())
        if plain is None:
            return False
        call = plain_call(plain, self._lookup)
        self._put_event(TextEvent(None, call, self._window.take(plain.end)))
        return True

    def _enter_fence(self, marks: re.Match[str], final: bool) -> bool:
        self._say_to(marks.start())
        end = opening_end(self._window.text, marks.start())
        if end is not None:
            self._fence = _Fence(marks[0], self._window.text[marks.start() : end])
            self._window.at, self._gap = end, True
            return True
        if not final and may_open_fence(self._window.text, marks.start()):
            return False
        self._say_to(marks.end())
        return True

    def _undecided_from(self) -> int:
        """The position from which the text may still become a tag or a fence."""
        text = self._window.text
        tag = text.rfind("<", max(self._window.at, len(text) - TAG_LIMIT))
        found = tag >= 0 and self._dialect.may_open(text[tag:])
        return tag if found else self._window.half_fence()

    # States in which nothing but calls is expected: in a wrapper, or in a fence

    def _read_gap(self, final: bool) -> bool:
        space = _SPACE.match(self._window.text, self._window.at)
        at = self._window.at if space is None else space.end()
        if at == len(self._window.text):
            return self._end_gap() if final else False
        if self._fence is not None and self._leave_fence(self._fence, at, final):
            return True
        found = self._dialect.inside.match(self._window.text, at)
        if found is not None:
            return self._pass_inside(found, at) or self._fail_gap()
        if not final and self._may_go_on(at):
            return False
        return self._fail_gap()

    def _may_go_on(self, at: int) -> bool:
        tail = self._window.text[at : at + TAG_LIMIT + 1]
        if self._fence is not None and may_close_fence(self._window.text, at):
            return True
        return tail.startswith("<") and self._dialect.may_go_on(tail)

    def _pass_inside(self, found: re.Match[str], at: int) -> bool:
        if found["end"]:
            return self._leave_wrapper(found)
        if found["wrapper"]:
            return self._enter_wrapper(found)
        if found.lastgroup in ("xml", "json"):
            return self._start_body(found.lastgroup, at)
        return self._start_named(found, at)

    def _enter_wrapper(self, tag: re.Match[str]) -> bool:
        """Enter a wrapper, if one is allowed here."""
        name = _local_name(tag["wrapper"])
        if self._wrappers and self._wrappers[-1] == _SINGLE:
            if self._lead:
                return False
            self._wrappers.pop()
        if self._wrappers and name != _SINGLE:
            return False
        self._lead += self._window.text[self._window.at : tag.start()]
        self._inner = len(self._lead)
        self._lead += tag[0]
        self._wrappers.append(name)
        self._window.at, self._gap = tag.end(), True
        return True

    def _leave_wrapper(self, tag: re.Match[str]) -> bool:
        """Leave a wrapper that contained a call."""
        if self._lead or not self._wrappers or self._wrappers[-1] != _local_name(tag["end"]):
            return False
        self._wrappers.pop()
        self._put_event(TextEvent("", None, self._window.text[self._window.at : tag.end()]))
        self._window.at = tag.end()
        self._gap = bool(self._wrappers or self._fence)
        return True

    def _start_body(self, form: str, at: int) -> bool:
        if not self._lead or not self._wrappers or self._wrappers[-1] != _SINGLE:
            return False
        marks = None if self._fence is None else self._fence.marks
        self._held = [self._lead[self._inner :]]
        self._lead = self._lead[: self._inner]
        self._block = XmlBlock(at, marks) if form == "xml" else JsonBlock(at, marks)
        self._block_start = self._window.at
        self._block.offset = len(self._held[0]) - self._block_start
        return True

    def _start_named(self, tag: re.Match[str], at: int) -> bool:
        form = "function" if tag.groupdict().get("function") else "invoke"
        name = tag_name(tag[0][1:-1])
        if not name or not (self._wrappers or self._lookup(name)):
            return False
        self._lead += self._window.text[self._window.at : at]
        self._held = []
        block = ParameterBlock(form, at, None if self._fence is None else self._fence.marks)
        block.offset = -at
        self._block, self._block_start = block, at
        return True

    def _fail_gap(self) -> bool:
        """Leave the gap, because something other than a call follows."""
        self._wrappers, self._gap = [], False
        self._flush_fence()
        self._add_words(self._lead)
        self._lead = ""
        return True

    def _end_gap(self) -> bool:
        """End a text that stops where only calls were expected, after complete calls."""
        fence = self._fence
        if fence is not None and fence.held and not self._lead:
            self._release_fence(fence, "")
            self._wrappers, self._gap = [], False
            return True
        return self._fail_gap()

    # Blocks

    def _read_block(self, block: CallBlock, final: bool) -> bool:
        end = block.find_end(self._window.text, final)
        if end is None:
            return False
        raw = "".join([*self._held, self._window.text[self._block_start : end.at]])
        lost = end.ending is BlockEnding.LOST
        calls = [] if lost else block.read_calls(raw, end.ending, self._lookup)
        self._block, self._held, self._window.at = None, [], end.at
        if not calls:
            self._lead += raw
            return self._fail_gap()
        if self._lead:
            self._put_event(TextEvent("", None, self._lead))
            self._lead = ""
        for number, call in enumerate(calls):
            self._put_event(TextEvent(None, call, "" if number else raw))
        if not isinstance(block, ParameterBlock):
            self._wrappers.pop()
        self._gap = bool(self._wrappers or self._fence)
        return True

    # Fences

    def _leave_fence(self, fence: _Fence, at: int, final: bool) -> bool:
        """Emit the calls of a fence if it closes here and contained some."""
        if not fence.held or self._lead or not self._window.starts_line(at):
            return False
        end = closing_end(self._window.text, at, fence.marks, final)
        if end is None:
            return False
        self._release_fence(fence, self._window.text[self._window.at : end])
        self._wrappers, self._gap, self._window.at = [], False, end
        return True

    def _release_fence(self, fence: _Fence, closing: str) -> None:
        self._fence = None
        self._put_event(TextEvent("", None, fence.opening))
        for event in fence.held or ():
            self._put_event(event)
        if closing:
            self._put_event(TextEvent("", None, closing))

    def _flush_fence(self) -> None:
        """Emit a held fence as text, because it contains something other than calls."""
        fence = self._fence
        if fence is None or fence.held is None:
            return
        held, fence.held = fence.held, None
        self._add_words(fence.opening + "".join(event.raw_text for event in held))

    def _read_fence(self, fence: _Fence, final: bool) -> bool:
        """Emit the content of a text fence, up to its closing line."""
        marks = self._window.next_marks(len(self._window.text))
        if marks is None:
            self._say_to(len(self._window.text) if final else self._window.half_fence())
            return False
        end = closing_end(self._window.text, marks.start(), fence.marks, final)
        if end is not None:
            self._fence = None
            self._say_to(end)
            return True
        if not final and may_close_fence(self._window.text, marks.start()):
            self._say_to(marks.start())
            return False
        self._say_to(marks.end())
        return True

    # The output of the parser

    def _drop_past(self) -> None:
        """Drop the text that has been read; the part of an open block is kept separately."""
        if self._block is None:
            self._window.drop()
            return
        self._window.at = self._block.position
        self._held.append(self._window.text[self._block_start : self._window.at])
        self._window.drop()
        self._block.offset += self._block.position
        self._block.position = self._block_start = 0

    def _join_deferred(self, chunk: str) -> str:
        deferred, self._deferred = self._deferred, []
        return "".join([*deferred, chunk])

    def _say_to(self, end: int) -> None:
        self._add_words(self._window.take(end))

    def _add_words(self, words: str) -> None:
        if words:
            self._words.append(words)

    def _put_event(self, event: TextEvent) -> None:
        if self._fence is not None and self._fence.held is not None:
            self._fence.held.append(event)
            return
        self._end_words()
        self._out.append(event)

    def _end_words(self) -> None:
        if self._words:
            words = "".join(self._words)
            self._out.append(TextEvent(words, None, words))
            self._words = []

    def _take_events(self) -> list[TextEvent]:
        self._end_words()
        taken, self._out = self._out, []
        return taken


def _make_lookup(tools: KnownTools | Iterable[Tool] | None) -> Lookup:
    if tools is None:
        return lambda name: None
    if isinstance(tools, KnownTools):
        return tools.get
    named: dict[str, Tool] = {}
    for tool in tools:
        named.setdefault(provider_name(tool.name), tool)
        named[tool.name] = tool
    return named.get


def _local_name(tag: str) -> str:
    return tag.rpartition(":")[2].lower()
