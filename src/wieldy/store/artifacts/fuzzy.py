"""Find the passage of a text that is nearest to a given one, with its exact ends.

The answer is the best match in the whole text. A passage that differs little shares
unedited pieces with its place in the text. Requiring enough of these pieces leaves few
places to measure; if that finds nothing, every place is measured.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .alignment import edit_distances
from .artifact_errors import PassageNotFound, PassageRepeated

# The most edits of a near match, per ten characters of the passage.
_EDITS_OF_TEN = 3


@dataclass(frozen=True, slots=True)
class Spliced:
    """The text after a replacement, and what was replaced in it."""

    content: str
    kind: str
    similarity: float
    matched: str


def splice_passage(id: str, content: str, old: str, new: str) -> Spliced:
    """Replace `old`, or the passage nearest to it, with `new`.

    Nothing outside the match changes. It is an error if the passage is there more than once,
    or if nothing is near enough to it.
    """
    at = content.find(old)
    if at < 0:
        return _splice_nearest(id, content, old, new)
    if content.find(old, at + 1) >= 0:
        # Overlapping matches are counted too: `str.count` would miss that the choice is unclear.
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


# The most cells of the table of distances, about a second and a half of work. If the passage is
# as long as its text, finding the ends takes as long again, twice.
_MAX_CELLS = 1 << 33
# The cost of a row of the table beyond its cells.
_ROW_CELLS = 1 << 12
# Below this, measuring every place costs less than looking for pieces.
_FEW_CELLS = 1 << 25
_PIECE = 8
# A piece that is in the passage more often than this does not identify a place.
_MAX_PLACES = 8
# A place is measured if one piece per this many characters is found about where it belongs.
_DEMANDED = 40
# One edit per this many characters is expected; more edits leave too few pieces whole.
_EDITED = 12
_STRIDE = 1 << 17
_Parts = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """A part of a text, and how many edits it is away from the passage.

    `similarity` is 1 if they are equal, and falls with each edit by its share of the passage.
    """

    start: int
    end: int
    distance: int
    similarity: float


def nearest(passage: str, text: str) -> PassageWindow | None:
    """The window of the text with the fewest edits to the passage; None if that takes too long.

    Of equally near windows it is the first. Its ends are chosen to look most like those of
    the passage: a line break is not matched with a letter, and no word is split without need.
    """
    if not passage:
        raise ValueError("there is no passage to look for")
    found = _by_pieces(passage, text) or _search_everywhere(passage, text)
    if found is None:
        return None
    distance, first_end = found
    start, end = _window_ends(passage, text, distance, first_end)
    return PassageWindow(start, end, distance, 1 - distance / len(passage))


def _search_everywhere(passage: str, text: str) -> tuple[int, int] | None:
    """The least distance of all windows, and the first end that has it."""
    reach = 2 * len(passage)
    stride = max(_STRIDE, 4 * reach)
    parts = [(max(0, at - reach), at + stride) for at in range(0, len(text) or 1, stride)]
    return None if _is_too_much(passage, text, parts) else _measure_parts(passage, text, parts)


def _by_pieces(passage: str, text: str) -> tuple[int, int] | None:
    """The same if few edits are enough; None says only that they are not."""
    length = len(passage)
    if length * len(text) < _FEW_CELLS or length * length > _MAX_CELLS:
        return None
    places, dull = _telling_pieces(passage)
    # The most edits that leave enough of the identifying pieces whole.
    demanded = 1 + length // _DEMANDED
    most = min(length // _EDITED, (length - _PIECE * (dull + demanded + 1)) // (_PIECE + 1))
    if most < 1:
        return None
    # If fewer edits are needed, more pieces can be required.
    demanded = (length - most - _PIECE + 1) // _PIECE - most - dull
    counts = _count_shifts(places, text, 2 * most + 1)
    regions = [*_find_regions(counts, length, most, demanded)]
    if _is_too_much(passage, text, regions):
        return None
    found = _measure_parts(passage, text, regions)
    return found if found is not None and found[0] <= most else None


def _telling_pieces(passage: str) -> tuple[dict[str, list[int]], int]:
    """The pieces that identify a place, with their places, and how many others there can be.

    A piece that is all over the passage, such as the indentation of code, identifies nothing
    and costs much.
    """
    places: dict[str, list[int]] = {}
    for at in range(len(passage) - _PIECE + 1):
        places.setdefault(passage[at : at + _PIECE], []).append(at)
    dull = sorted(at for each in places.values() if len(each) > _MAX_PLACES for at in each)
    apart, after = 0, 0
    for at in dull:
        if at >= after:
            apart, after = apart + 1, at + _PIECE
    return {piece: each for piece, each in places.items() if len(each) <= _MAX_PLACES}, apart


def _is_too_much(passage: str, text: str, parts: _Parts) -> bool:
    columns = sum(min(end, len(text)) - start + _ROW_CELLS for start, end in parts)
    return columns * len(passage) > _MAX_CELLS


def _measure_parts(
    passage: str, text: str, parts: Iterable[tuple[int, int]]
) -> tuple[int, int] | None:
    """The least distance in these parts of the text, and the first end that has it."""
    best: tuple[int, int] | None = None
    for start, end in parts:
        row = edit_distances(passage, text[start:end])
        least = min(row)
        if best is None or least < best[0]:
            best = least, start + row.index(least)
    return best


def _find_regions(
    counts: Counter[int], length: int, most: int, demanded: int
) -> Iterator[tuple[int, int]]:
    """The parts of the text that can hold the passage with this many edits, in order.

    The text is cut into pieces of one size. A window with `most` edits holds a number of
    pieces, and each edit changes at most one of them. The others are in the passage, all
    shifted by about as much as the window's start.
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


def _count_shifts(places: dict[str, list[int]], text: str, span: int) -> Counter[int]:
    """How many pieces of the text are in the passage, by how far they are shifted."""
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


def _window_ends(passage: str, text: str, distance: int, first_end: int) -> tuple[int, int]:
    """The window that ends here or a little later, with ends like those of the passage."""
    length = len(passage)
    if distance == length:
        return first_end, first_end
    # A window is at most `distance` longer than the passage; the character after it is needed too.
    reach = length + distance + 1
    before = text[max(0, first_end - reach) : first_end]
    start = first_end - _best_size(passage[::-1], before[::-1], distance)
    return start, start + _best_size(passage, text[start : start + reach], distance)


def _best_size(passage: str, text: str, distance: int) -> int:
    """How much of the text's beginning to take: of equally near lengths, the most similar one."""
    row = edit_distances(passage, text, from_start=True)
    sizes = [size for size, edits in enumerate(row) if size and edits == distance]
    length = len(passage)
    return min(
        sizes,
        key=lambda size: (_end_difference(passage[-1], text, size), abs(size - length), -size),
    )


def _end_difference(last: str, text: str, size: int) -> int:
    """How unlike the end of a window is to the end of the passage, or of a word."""
    there = text[size - 1]
    splits = size < len(text) and _character_kind(there) == _character_kind(text[size]) == "word"
    if there == last:
        return int(splits)
    return (1 if _character_kind(there) == _character_kind(last) else 2) + splits


def _character_kind(character: str) -> str:
    if character in "\r\n":
        return "line"
    if character.isspace():
        return "space"
    return "word" if character.isalnum() or character == "_" else "mark"
