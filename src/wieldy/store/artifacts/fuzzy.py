"""Find the passage of a text that comes nearest to a given one, and exactly where it ends.

The answer is the best there is, not the best that was looked at. A passage that
differs little shares pieces with its place in the text that no edit touched, and
enough of them can be demanded that few places are left to measure. Where that
finds nothing, every place is measured.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .alignment import edit_distances
from .artifact_errors import PassageNotFound, PassageRepeated

# Of ten characters of the passage, how many edits may take part in a near match.
_EDITS_OF_TEN = 3


@dataclass(frozen=True, slots=True)
class Spliced:
    """The text after a replacement, and what was replaced in it."""

    content: str
    kind: str
    similarity: float
    matched: str


def splice_passage(id: str, content: str, old: str, new: str) -> Spliced:
    """Put `new` where `old` stands, or where what comes nearest to it stands.

    Nothing outside the match changes. A passage that stands there more than once,
    or not even nearly, is an error.
    """
    at = content.find(old)
    if at < 0:
        return _splice_nearest(id, content, old, new)
    if content.find(old, at + 1) >= 0:
        # Two that overlap count as one, and are two to whoever has to choose.
        raise PassageRepeated(id, max(2, content.count(old)))
    return Spliced(content[:at] + new + content[at + len(old) :], "update", 1.0, old)


def _splice_nearest(id: str, content: str, old: str, new: str) -> Spliced:
    window = nearest(old, content)
    if window is None:
        reason = (
            "the passage to replace is not in it word for word, and is too long to look for what "
            "comes near it. Send a shorter passage as it stands there, or rewrite the artifact."
        )
        raise PassageNotFound(id, reason)
    matched = content[window.start : window.end]
    if window.distance * 10 > len(old) * _EDITS_OF_TEN:
        reason = "the passage to replace is not in it. Send it as it stands there."
        raise PassageNotFound(id, reason, matched, window.similarity)
    changed = content[: window.start] + new + content[window.end :]
    return Spliced(changed, "update_fuzzy", window.similarity, matched)


# Cells of the table of distances that are worked out at most, about a second and a half of work;
# for a passage as long as its text drawing the ends takes as much twice more.
_MOST_CELLS = 1 << 33
# What a row of the table costs beyond its cells.
_ROW_CELLS = 1 << 12
# Below this, measuring every place costs less than looking for pieces.
_FEW_CELLS = 1 << 25
_PIECE = 8
# A piece that stands in the passage more often than this tells nothing.
_MOST_PLACES = 8
# A place is looked at where one piece for so many characters is found about where it belongs.
_DEMANDED = 40
# Edits are expected in one of so many characters; more leave too few pieces whole.
_EDITED = 12
_STRIDE = 1 << 17
_Parts = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """A part of a text, and how many edits it is away from what was looked for.

    `similarity` is 1 where they are equal, and goes down by the share of the
    passage that each edit is.
    """

    start: int
    end: int
    distance: int
    similarity: float


def nearest(passage: str, text: str) -> PassageWindow | None:
    """The window of the text with the fewest edits to the passage; None if that takes too long.

    Of windows equally near it is the first, and of ways to draw its ends the one
    that looks most like the passage's: a line break is not taken for a letter, and
    no word is split without need.
    """
    if not passage:
        raise ValueError("there is no passage to look for")
    found = _by_pieces(passage, text) or _everywhere(passage, text)
    if found is None:
        return None
    distance, first_end = found
    start, end = _ends(passage, text, distance, first_end)
    return PassageWindow(start, end, distance, 1 - distance / len(passage))


def _everywhere(passage: str, text: str) -> tuple[int, int] | None:
    """The least distance of all windows, and the first end that has it."""
    reach = 2 * len(passage)
    stride = max(_STRIDE, 4 * reach)
    parts = [(max(0, at - reach), at + stride) for at in range(0, len(text) or 1, stride)]
    return None if _is_too_much(passage, text, parts) else _measure(passage, text, parts)


def _by_pieces(passage: str, text: str) -> tuple[int, int] | None:
    """The same, if few edits suffice; None says only that they don't."""
    length = len(passage)
    if length * len(text) < _FEW_CELLS or length * length > _MOST_CELLS:
        return None
    places, dull = _telling(passage)
    # The most edits that leave enough of the telling pieces whole.
    demanded = 1 + length // _DEMANDED
    most = min(length // _EDITED, (length - _PIECE * (dull + demanded + 1)) // (_PIECE + 1))
    if most < 1:
        return None
    # With fewer edits than could be borne, more can be demanded.
    demanded = (length - most - _PIECE + 1) // _PIECE - most - dull
    counts = _shifts(places, text, 2 * most + 1)
    regions = [*_regions(counts, length, most, demanded)]
    if _is_too_much(passage, text, regions):
        return None
    found = _measure(passage, text, _likely(passage, text, regions, length - most))
    return found if found is not None and found[0] <= most else None


def _telling(passage: str) -> tuple[dict[str, list[int]], int]:
    """The pieces that tell where they are, with their places, and how many others there can be.

    What stands all over the passage, such as the space before a line of code, tells
    nothing and costs much.
    """
    places: dict[str, list[int]] = {}
    for at in range(len(passage) - _PIECE + 1):
        places.setdefault(passage[at : at + _PIECE], []).append(at)
    dull = sorted(at for each in places.values() if len(each) > _MOST_PLACES for at in each)
    apart, after = 0, 0
    for at in dull:
        if at >= after:
            apart, after = apart + 1, at + _PIECE
    return {piece: each for piece, each in places.items() if len(each) <= _MOST_PLACES}, apart


def _is_too_much(passage: str, text: str, parts: _Parts) -> bool:
    columns = sum(min(end, len(text)) - start + _ROW_CELLS for start, end in parts)
    return columns * len(passage) > _MOST_CELLS


def _measure(passage: str, text: str, parts: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    """The least distance in these parts of the text, and the first end that has it."""
    best: tuple[int, int] | None = None
    for start, end in parts:
        row = edit_distances(passage, text[start:end])
        least = min(row)
        if best is None or least < best[0]:
            best = least, start + row.index(least)
    return best


def _regions(
    counts: Counter[int], length: int, most: int, demanded: int
) -> Iterator[tuple[int, int]]:
    """The parts of the text that can hold the passage with this many edits, in order.

    The text is cut into pieces of one size. A window with `most` edits holds a
    number of pieces, and each edit spoils one of them at most; the others stand in
    the passage, all about as far from their place there as the window's start.
    """
    span = 2 * most + 1
    reached = -1
    opened = 0
    for shift in sorted({near for each in counts for near in (each - 1, each)}):
        if counts[shift] + counts[shift + 1] < demanded:
            continue
        start = max(0, shift * span)
        if reached < 0:
            opened = start
        elif start > reached:
            yield opened, reached
            opened = start
        reached = (shift + 2) * span + length + most
    if reached >= 0:
        yield opened, reached


def _likely(passage: str, text: str, regions: _Parts, kept: int) -> Iterator[tuple[int, int]]:
    """The regions that hold so many characters of the passage in their order, as they must."""
    # Loaded by whoever looks for what is not there word for word, and by nobody else.
    from rapidfuzz.distance import LCSseq  # noqa: PLC0415

    for start, end in regions:
        if LCSseq.similarity(passage, text[start:end], score_cutoff=kept) >= kept:
            yield start, end


def _shifts(places: dict[str, list[int]], text: str, span: int) -> Counter[int]:
    """How many pieces of the text stand in the passage, by how far they are moved."""
    counts: Counter[int] = Counter()
    left = len(text)
    for at in range(0, len(text) - _PIECE + 1, _PIECE):
        found = places.get(text[at : at + _PIECE])
        if found is not None:
            left -= len(found)
            if left < 0:
                # Counting would take longer than measuring.
                return Counter()
            for shift in {(at - place) // span for place in found}:
                counts[shift] += 1
    return counts


def _ends(passage: str, text: str, distance: int, first_end: int) -> tuple[int, int]:
    """The window that can end here, or a little later, drawn as the passage is."""
    length = len(passage)
    if distance == length:
        return first_end, first_end
    # A window is longer than the passage by `distance` at most; the character after it is looked
    # at too.
    reach = length + distance + 1
    before = text[max(0, first_end - reach) : first_end]
    start = first_end - _size(passage[::-1], before[::-1], distance)
    return start, start + _size(passage, text[start : start + reach], distance)


def _size(passage: str, text: str, distance: int) -> int:
    """How much of the text's beginning to take: of all that is this near, the most alike."""
    row = edit_distances(passage, text, from_start=True)
    sizes = [size for size, edits in enumerate(row) if size and edits == distance]
    length = len(passage)
    return min(
        sizes, key=lambda size: (_unlike(passage[-1], text, size), abs(size - length), -size)
    )


def _unlike(last: str, text: str, size: int) -> int:
    """How little the end of a window looks like the end of the passage, or of a word."""
    there = text[size - 1]
    splits = size < len(text) and _kind(there) == _kind(text[size]) == "word"
    if there == last:
        return int(splits)
    return (1 if _kind(there) == _kind(last) else 2) + splits


def _kind(character: str) -> str:
    if character in "\r\n":
        return "line"
    if character.isspace():
        return "space"
    return "word" if character.isalnum() or character == "_" else "mark"
