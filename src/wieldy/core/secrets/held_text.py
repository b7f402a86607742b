"""Hold back the end of streamed text that may be the beginning of a secret."""

from collections.abc import Iterable, Sequence

from wieldy.core.block import Block, RepeatingText, Text

from .secret import MASK, redact_text, secret_forms

_Spans = list[tuple[int, int]]
# The beginning of a secret is first searched for by this many of its characters.
_HEAD = 8


class HeldText:
    """Covers secrets in blocks that are shown one by one, even if they are split over blocks.

    The end of a text is held back as far as a secret may begin there, until the next
    text decides. Blocks of other kinds wait behind it, so that the order stays.
    """

    __slots__ = ("_blocks", "_covered", "_forms", "_known", "_repeated", "_text", "_unseen")

    def __init__(self) -> None:
        self._known: tuple[str, ...] = ()
        self._forms: tuple[str, ...] = ()
        self._text = ""
        # The place in the text at which each block ends, and the block itself if it is not text.
        self._blocks: list[tuple[int, Block | None]] = []
        self._covered = 0  # how much of the text's beginning belongs to a mask already shown
        self._repeated = ""  # the text of the last block that repeats those before it
        self._unseen: RepeatingText | None = None  # that block, if its end was held back

    def take(self, block: Block, secrets: tuple[str, ...]) -> list[Block]:
        """Take a block; returns the blocks that may be shown now."""
        self._learn_secrets(secrets)
        if isinstance(block, RepeatingText):
            return [*self._release_blocks(len(self._text)), self._release_repeating(block, False)]
        given = self._give_unseen() if isinstance(block, Text) else []
        self._add_block(block)
        return [*given, *self._release_blocks(_undecided_from(self._text, self._forms))]

    def give_all(self, blocks: Iterable[Block], secrets: tuple[str, ...]) -> list[Block]:
        """The blocks that were held back, and these after them, at the end of the stream."""
        self._learn_secrets(secrets)
        given = self._give_unseen()
        for block in blocks:
            if isinstance(block, RepeatingText):
                given += [
                    *self._release_blocks(len(self._text)),
                    self._release_repeating(block, True),
                ]
            else:
                self._add_block(block)
        return [*given, *self._release_blocks(len(self._text))]

    def _learn_secrets(self, secrets: tuple[str, ...]) -> None:
        if secrets != self._known:
            self._known = secrets
            self._forms = tuple({form for secret in secrets for form in secret_forms(secret)})

    def _add_block(self, block: Block) -> None:
        if isinstance(block, Text):
            self._text += block.text
            self._blocks.append((len(self._text), None))
        else:
            other = block.map_text(lambda text: redact_text(text, self._known))
            self._blocks.append((len(self._text), other))

    def _release_blocks(self, end: int) -> list[Block]:
        """The blocks up to a place in the text; the rest stays held back."""
        spans = _find_spans(self._text, self._forms, self._covered)
        released = [each for each in self._blocks if each[0] <= end]
        given: list[Block] = []
        at = 0
        for over, block in [*released, (end, None)]:
            words = _cover_part(self._text, at, over, spans)
            given += [Text(words)] if words else []
            given += [] if block is None else [block]
            at = over
        self._covered = max([0, *(over - end for start, over in spans if start < end)])
        self._text = self._text[end:]
        self._blocks = [(over - end, block) for over, block in self._blocks[len(released) :]]
        return given

    def _release_repeating(self, block: RepeatingText, final: bool) -> Block:
        texts = block.texts()
        whole = "".join(texts)
        end = len(whole) if final else _undecided_from(whole, self._forms)
        again = self._unseen is block
        self._unseen = block if end < len(whole) else None
        before, shown = self._repeated, _cover_texts(texts, end, _find_spans(whole, self._forms, 0))
        self._repeated = "".join(shown)
        return block.with_texts(shown, before, again)

    def _give_unseen(self) -> list[Block]:
        return [] if self._unseen is None else [self._release_repeating(self._unseen, True)]


def _undecided_from(text: str, forms: Iterable[str]) -> int:
    """The position from which a text may be the beginning of a secret, or the text's end."""
    return min((_secret_beginning(text, form) for form in forms), default=len(text))


def _secret_beginning(text: str, form: str) -> int:
    size = len(text)
    start = max(0, size - len(form) + 1)
    head = form[:_HEAD]
    at = text.find(head, start)
    while at >= 0:
        if form.startswith(text[at:]):
            return at
        at = text.find(head, at + 1)
    short = range(max(start, size - _HEAD + 1), size)
    return next((at for at in short if form.startswith(text[at:])), size)


def _find_spans(text: str, forms: Iterable[str], covered: int) -> _Spans:
    """The spans of secrets, in order. Overlapping spans are merged; one may have begun before."""
    found = [(-1, covered)] if covered else []
    for form in forms:
        at = text.find(form)
        while at >= 0:
            found.append((at, at + len(form)))
            at = text.find(form, at + 1)
    spans: _Spans = []
    for start, over in sorted(found):
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], over))
        else:
            spans.append((start, over))
    return spans


def _cover_part(text: str, start: int, end: int, spans: _Spans) -> str:
    """A part of the text with secrets covered; a mask is put where a secret begins."""
    pieces: list[str] = []
    at = start
    for begin, over in spans:
        if over <= start or begin >= end:
            continue
        if begin >= start:
            pieces += (text[at:begin], MASK)
        at = min(over, end)
    pieces.append(text[at:end])
    return "".join(pieces)


def _cover_texts(texts: Sequence[str], end: int, spans: _Spans) -> list[str]:
    """The texts that together are one, each with secrets covered, up to a place."""
    whole = "".join(texts)
    shown: list[str] = []
    at = 0
    for text in texts:
        over = at + len(text)
        shown.append(_cover_part(whole, min(at, end), min(over, end), spans))
        at = over
    return shown
