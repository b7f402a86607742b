"""Cut what a model reads of an outcome to a bound, and leave the outcome itself whole."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wieldy.core.block import Audio, Block, Image, Resource, Text, join_text, to_text
from wieldy.core.call import Outcome, Status

from .result_size import without_text

MAX_RESULT = 100_000
# Pictures and sound cost a model less than text of their size: so many bytes are one character.
_BYTES_PER_CHARACTER = 50
# A result of very many blocks is large although its text is short.
_MAX_BLOCKS = 1_000
# A tool's own limit does not count the marker of its cut.
_MARKER_ROOM = 500
_MAX_KIND = 100
NOT_KEPT = "the rest was not kept"


class ResultBound(NamedTuple):
    """How many characters a model may read of one result, and how many bytes of media."""

    characters: int
    media_bytes: int


def find_bound(max_result: int, own: int | None = None) -> ResultBound | None:
    """The bound for a result; None if there is none.

    Args:
        max_result: the number of characters that is set; 0 for no bound.
        own: the limit of the tool itself, which counts in its place.
    """
    if own is None:
        return ResultBound(max_result, max_result * _BYTES_PER_CHARACTER) if max_result else None
    media = max(own, max_result or own) * _BYTES_PER_CHARACTER
    return ResultBound(own + _MARKER_ROOM, media) if own else None


def bound_outcome(outcome: Outcome, max_result: int = MAX_RESULT) -> Outcome:
    """The outcome as a model may read it, where nothing can be kept; 0 is no bound."""
    bound = find_bound(max_result)
    large = None if bound is None else find_large(outcome, bound)
    return outcome if large is None else large.cut(NOT_KEPT)


def find_large(outcome: Outcome, bound: ResultBound) -> "LargeResult | None":
    """What is too large in an outcome; None if it is within the bound."""
    if outcome.status is Status.PENDING or _is_short(outcome, bound.characters):
        return None
    large = LargeResult(outcome, bound)
    return None if large.fits else large


class LargeResult:
    """An outcome of which something does not fit its bound."""

    def __init__(self, outcome: Outcome, bound: ResultBound) -> None:
        self._outcome = outcome
        self._bound = bound
        covered = bool(outcome.metadata.get("covered"))
        # A value with secrets is never read; the content is, in which they are covered.
        self._by_content = outcome._content is None or covered or _has_blocks(outcome.value)
        self._value_text = "" if self._by_content else _value_text(outcome.value)
        self._blocks = _answer_blocks(outcome)
        sizes = list(map(_measure_block, self._blocks))
        self._characters = sum(characters for characters, _ in sizes)
        self._media_bytes = sum(size for _, size in sizes)

    @property
    def fits(self) -> bool:
        """Whether everything can be shown as it is."""
        return len(self._blocks) <= _MAX_BLOCKS and not self.is_cut

    @property
    def is_cut(self) -> bool:
        """Whether something is left out, and not only put together differently."""
        return self._cuts_content or self._cuts_value

    def whole_text(self) -> str:
        """All of what is cut, as one text in which media that are left out are `data:` URLs."""
        parts = []
        if self._cuts_content:
            parts.append("".join(map(_text_or_url, self._blocks)))
        if self._cuts_value and self._value_text not in parts:
            parts.append(self._value_text)
        return "\n\n".join(parts)

    def cut(self, place: str) -> Outcome:
        """The outcome within its bound; `place` says where the rest is."""
        outcome, value = self._outcome, self._outcome.value
        facts, content = outcome.metadata, tuple(_merge_texts(self._blocks))
        if self.is_cut:
            total = max(self._characters, len(self._value_text))
            facts = {**facts, "cut": {"shown": min(total, self._bound.characters), "total": total}}
        if self._cuts_content:
            content = tuple(self._cut_blocks(place))
        if self._by_content and (self._cuts_content or _has_blocks(value)):
            value = join_text(content)
        if self._cuts_value:
            value = _cut_text(self._value_text, self._bound.characters, place)
        error = outcome.error
        if error is not None and len(str(error)) > self._bound.characters:
            # The content begins with its message.
            error = None
        return Outcome(outcome.call, outcome.status, value, error, content, facts, outcome.seconds)

    @property
    def _cuts_value(self) -> bool:
        return len(self._value_text) > self._bound.characters

    @property
    def _cuts_content(self) -> bool:
        if self._characters > self._bound.characters:
            return True
        return self._media_bytes > self._bound.media_bytes or self._has_many()

    def _has_many(self) -> bool:
        if len(self._blocks) <= _MAX_BLOCKS:
            return False
        return sum(1 for _ in _merge_texts(self._blocks)) > _MAX_BLOCKS

    def _cut_blocks(self, place: str) -> list[Block]:
        """The blocks that fit, and a marker after them."""
        bound, total = self._bound, self._characters
        longest = _write_marker(bound.characters, total, len(self._blocks), place)
        room = bound.characters
        if total + len(longest) > room:
            room = _room_beside(longest, room)
        left, media, left_out, kept = room, bound.media_bytes, 0, list[Block]()
        for block in _merge_texts(self._blocks):
            fitting, characters, size = _fit_block(block, left, media)
            if fitting is None or len(kept) >= _MAX_BLOCKS:
                left_out += not isinstance(block, Text)
                continue
            kept.append(fitting)
            left, media = left - characters, media - size
        marker = _write_marker(room - left, total, left_out, place)
        if kept and type(kept[-1]) is Text:
            return [*kept[:-1], Text(kept[-1].text + marker)]
        return [*kept, Text(marker)]


def _is_short(outcome: Outcome, most: int) -> bool:
    """Whether an outcome is a short text, or short data; nearly all are, and this costs little."""
    value, content = outcome.value, outcome._content
    if outcome.error is not None:
        return False
    if type(value) is not str:
        if content is not None and len(_value_text(value)) > most:
            return False
        content = outcome.content
    elif len(value) > most:
        return False
    if content is None:
        return True
    return len(content) == 1 and type(content[0]) is Text and len(content[0].text) <= most


def _cut_text(text: str, most: int, place: str) -> str:
    room = _room_beside(_write_marker(most, len(text), 0, place), most)
    return text[:room] + _write_marker(room, len(text), 0, place)


def _answer_blocks(outcome: Outcome) -> Sequence[Block]:
    """The content; if there is an error, its message comes first."""
    if outcome.error is None:
        return outcome.content
    said = Text(str(outcome.error))
    return (said, *(block for block in outcome.content if not _says(block, said.text)))


def _says(block: Block, text: str) -> bool:
    return isinstance(block, Text) and block.text == text


def _value_text(value: Any) -> str:
    """The text of a value that is read beside the content."""
    return "" if value is None or isinstance(value, bool | int | float) else to_text(value)


def _has_blocks(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(isinstance(item, Block) for item in value)
    return isinstance(value, Block)


def _measure_block(block: Block) -> tuple[int, int]:
    """The characters of a block, and the bytes of its media."""
    if isinstance(block, Text):
        return len(block.text), 0
    if isinstance(block, Image | Audio):
        return _long_name(block.mime_type), _count_bytes(block.data)
    if isinstance(block, Resource):
        named = len(block.uri) + len(block.name or "") + _long_name(block.mime_type)
        return named + len(block.text or ""), _count_bytes(block.data or "")
    return len(to_text(block.to_dict())), 0


def _count_bytes(data: str) -> int:
    """How many bytes base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _long_name(mime_type: str | None) -> int:
    """What a media type counts: nothing, unless a server hides a text in it."""
    length = len(str(mime_type))
    return length if length > _MAX_KIND else 0


def _fit_block(block: Block, left: int, media: int) -> tuple[Block | None, int, int]:
    """As much of a block as fits, with its size; None if nothing of it does."""
    characters, size = _measure_block(block)
    if characters <= left and size <= media:
        return block, characters, size
    if isinstance(block, Text):
        return (Text(block.text[:left]), left, 0) if left > 0 else (None, 0, 0)
    if isinstance(block, Resource) and block.text is not None:
        link = without_text(block)
        characters, size = _measure_block(link)
        if characters <= left and size <= media:
            return link, characters, size
    return None, 0, 0


def _merge_texts(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks, with texts that follow each other made one where there are too many blocks."""
    if len(blocks) <= _MAX_BLOCKS:
        yield from blocks
        return
    texts: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            texts.append(block.text)
            continue
        if texts:
            yield Text("".join(texts))
            texts = []
        yield block
    if texts:
        yield Text("".join(texts))


def _text_or_url(block: Block) -> str:
    if isinstance(block, Image | Audio) or (isinstance(block, Resource) and block.data):
        return f"\ndata:{block.mime_type};base64,{block.data}\n"
    return join_text([block])


def _room_beside(marker: str, most: int) -> int:
    """How much text fits beside a marker; with a very small bound, the marker does not count."""
    return most - len(marker) if most >= 2 * len(marker) else most


def _write_marker(shown: int, total: int, left_out: int, place: str) -> str:
    others = f", without {left_out:,} blocks that are no text" if left_out else ""
    return f"\n[cut: {shown:,} of {total:,} characters shown{others}, {place}]"
