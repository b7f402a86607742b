"""How far a passage is from every place of a text, many places at a time.

The table of edit distances has a row for each character of the passage and a
column for each of the text. Neighbours in a row differ by one at most, so a row
is kept as two large integers with a bit for each column: where it goes up, and
where it goes down (Myers 1999, turned on its side). One row then costs a few
operations on whole integers, whatever the text is.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from operator import sub

# For each bit of a byte, the table that turns bytes into the digits of that bit.
_DIGITS = [bytes(b"01"[byte >> bit & 1] for byte in range(256)) for bit in range(8)]
# The most bytes of masks: a text with thousands of different characters would need gigabytes.
_MAX_BYTES = 1 << 26


def edit_distances(passage: str, text: str, from_start: bool = False) -> list[int]:
    """For each end in the text, the edits between the passage and the nearest window up to there.

    A window may start anywhere, or with `from_start` only where the text starts.
    The result has an item for every end from 0 to the text's length.
    """
    whole = (1 << len(text)) - 1
    up, down = (whole if from_start else 0), 0
    mask = _character_masks(passage, text)
    for character in passage:
        same = mask(character) | down
        same |= ((same & up) + up) ^ up
        rises = ((down | (whole ^ ((up | same) & whole))) << 1) | 1
        falls = (up & same) << 1
        down = rises & same & whole
        up = (falls | (whole ^ ((rises | same) & whole))) & whole
    steps = map(sub, _row_bits(up, len(text)), _row_bits(down, len(text)))
    return list(accumulate(steps, initial=len(passage)))


class _Codes(dict[int, int]):
    """Small numbers for the characters of a passage; all others are 0."""

    def __missing__(self, character: int) -> int:
        self[character] = 0
        return 0


def _character_masks(passage: str, text: str) -> Callable[[str], int]:
    """For each character of the passage, an integer with a bit for each place of it in the text."""
    codes = {character: code for code, character in enumerate(sorted(set(passage)), start=1)}
    coded = text.translate(_Codes({ord(character): code for character, code in codes.items()}))
    raw = coded.encode("utf-32-le", "surrogatepass")
    whole = (1 << len(text)) - 1
    planes = []
    for bit in range(len(codes).bit_length()):
        # Four bytes make a character, the lowest first; the last character is the first digit.
        digits = raw[bit >> 3 :: 4][::-1].translate(_DIGITS[bit & 7])
        ones = int(digits or b"0", 2)
        planes.append((whole ^ ones, ones))

    @lru_cache(_MAX_BYTES // (len(text) // 8 + 100))
    def mask(character: str) -> int:
        code, found = codes[character], whole
        for bit, plane in enumerate(planes):
            found &= plane[code >> bit & 1]
        return found

    return mask


def _row_bits(row: int, width: int) -> bytes:
    """The bits of a row, the first column first."""
    return f"{row:0{width}b}".encode()[::-1] if width else b""
