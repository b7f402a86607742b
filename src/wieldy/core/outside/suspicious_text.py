"""Find hidden text and suspicious instructions in text from outside, in linear time."""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from wieldy.core.visible_text import is_hidden, visible_line

from .instruction_phrases import Origin, find_instructions

_MAX_SHOWN = 120
# Of a longer text the beginning and the end are searched.
MAX_LENGTH = 100_000
_TAIL = 20_000
# White space that pushes the text after it out of sight: wider than a screen, or many lines.
_WIDE = {"definition": 80, "result": 400}
_TALL = {"definition": 12, "result": 60}
_GAP = re.compile(r"\s{12,}")
# The last cell of a table row may be padded, and no text follows it.
_ROW_END = re.compile(r"\|[^\S\n]*(?:\n|\Z)")
# A run begins where no such letter stands before it, so that no letter is looked at twice.
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{40,}+={0,2}")
_MAX_ENCODED = 200
_LONG_ENCODED = 200
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ESCAPE = re.compile("[\x1b\x9b]")
_MARKS = "\u200e\u200f\u061c"
_JOINERS = "\u200c\u200d"
_KEYCAPS = "0123456789#*"
_MAX_RUNS = 1000
_MAX_ODD = 500
# Escapes of JSON, also of JSON in a string of JSON.
_ESCAPED_SPACE = re.compile(r"(?<!\\)\\++[nrt]")
_ESCAPED_LETTER = re.compile(r"(?<!\\)\\++u([0-9a-fA-F]{4})")
_ESCAPED_QUOTE = re.compile(r"(?<!\\)\\++([\"/])")
# Letters of other alphabets that look like Latin ones.
_ALIKE = (
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u0261\u03bf\u03b1\u03b9\u03bd\u0131"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u2019"
)
_LOOK_ALIKES = str.maketrans(_ALIKE, "aeopcyxijsdgoaiviABEKMHOPCTXI'")
_LOOKS_LATIN = re.compile(f"[{_ALIKE}]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in text from outside that a person should review.

    `place` is its location, such as `input_schema.properties.path.description` in a definition
    or `content[0]` in a result. `passage` is the text with hidden characters made visible.
    """

    place: str
    kind: str
    passage: str


def find_suspicious(place: str, text: str, origin: Origin) -> Iterator[Finding]:
    """List the suspicious things in a text, each kind once or, for gaps, at each place."""
    if len(text) > MAX_LENGTH:
        if origin == "definition":
            # No description needs to be that long.
            yield Finding(place, "very long text", visible_line(text, _MAX_SHOWN))
        text = f"{text[: MAX_LENGTH - _TAIL]}\n{text[-_TAIL:]}"
    if origin == "result":
        text = _unescape_text(text)
    for kind, passage in _first_hidden(text):
        yield Finding(place, kind, passage)
    for end in _find_gaps(text, origin):
        passage = visible_line(text[end : end + _MAX_SHOWN + 1], _MAX_SHOWN)
        yield Finding(place, "text pushed out of sight", passage)
    encoded = _find_encoded(text, origin)
    if encoded is not None:
        yield Finding(place, "encoded text", visible_line(encoded, _MAX_SHOWN))
    for kind, passage in find_instructions(_plain_letters(text), origin):
        yield Finding(place, kind, visible_line(passage, _MAX_SHOWN))


def _unescape_text(text: str) -> str:
    """The text with the escapes of JSON and HTML undone, in whatever it is wrapped."""
    if "\\" in text:
        text = _ESCAPED_SPACE.sub(" ", text)
        if "\\u" in text:
            text = _ESCAPED_LETTER.sub(lambda match: chr(int(match[1], 16)), text)
            # Characters beyond the first plane are escaped as two halves.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = _ESCAPED_QUOTE.sub(r"\1", text)
    return html.unescape(text) if "&" in text else text


def _find_gaps(text: str, origin: Origin) -> Iterator[int]:
    """The passages after a gap that a reader would take for the end of the text."""
    wide, tall = _WIDE[origin], _TALL[origin]
    for match in _GAP.finditer(text):
        gap, end = match[0], match.end()
        if end == len(text) or _ROW_END.match(text, end):
            continue
        if gap.count("\n") >= tall or max(map(len, gap.splitlines())) >= wide:
            yield end
            if origin == "result":
                return


def _find_encoded(text: str, origin: Origin) -> str | None:
    """The first long run of encoded text; in a result, what one says if it is an instruction."""
    for match in islice(_ENCODED.finditer(text), _MAX_ENCODED):
        run = match[0]
        if origin == "definition":
            if len(run) >= _LONG_ENCODED:
                return run
            continue
        said = _decode_base64(run)
        if said is not None and any(True for _ in find_instructions(_plain_letters(said), origin)):
            return said
    return None


def _decode_base64(run: str) -> str | None:
    """The text that is encoded in Base64, or None if there is none."""
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    plain = plain[: len(plain) // 4 * 4] if len(plain) % 4 == 1 else plain
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4)).decode("utf-8")
    except (binascii.Error, ValueError):
        return None


def _first_hidden(text: str) -> Iterator[tuple[str, str]]:
    """The first passage of each kind, with the number of further ones."""
    found: dict[str, list[tuple[int, int]]] = {}
    for start, end in islice(_hidden_runs(text), _MAX_RUNS):
        kind = "terminal escape" if _ESCAPE.search(text, start, end) else "hidden characters"
        found.setdefault(kind, []).append((start, end))
    for kind, runs in found.items():
        more = f" (and {len(runs) - 1} more)" if len(runs) > 1 else ""
        yield kind, _text_around(text, *runs[0]) + more


def _hidden_runs(text: str) -> Iterator[tuple[int, int]]:
    """The positions of invisible characters and control characters."""
    if text.isascii() and text.isprintable():
        return
    # Direction marks are normal in right-to-left text.
    usual = _MARKS if _RIGHT_TO_LEFT.search(text) else ""
    odd = _odd_characters(text, usual)
    if not odd:
        return
    for match in re.finditer(f"[{re.escape(odd)}]+", text):
        start = match.start()
        while start < match.end() and not _conceals_text(text, start):
            start += 1
        if start < match.end():
            yield start, match.end()


def _odd_characters(text: str, usual: str = "") -> str:
    """The hidden characters that a text has, each once and not more than matter."""
    found = (each for each in set(text) if each not in "\n\r\t" and is_hidden(each))
    return "".join(islice((each for each in found if each not in usual), _MAX_ODD))


def _text_around(text: str, start: int, end: int) -> str:
    run = text[start:end]
    said = "".join(chr(ord(each) - 0xE0000) for each in run if "\U000e0020" <= each <= "\U000e007e")
    spelled = f" (spelling {visible_line(said, _MAX_SHOWN)!r})" if said else ""
    before, after = text[max(0, start - 20) : start], text[end : end + 20]
    return f"{visible_line(before)}{visible_line(run[:8])}{visible_line(after)}{spelled}"


def _conceals_text(text: str, index: int) -> bool:
    """Whether a hidden character hides something; some are normal in emoji and joining scripts."""
    character = text[index]
    before, after = text[index - 1 : index] if index else "", text[index + 1 : index + 2]
    if character in _JOINERS:
        return not (_joins_letters(before) and _joins_letters(after))
    if unicodedata.category(character) == "Mn":
        return not (before and (before in _KEYCAPS or _joins_letters(before)))
    return True


def _joins_letters(neighbour: str) -> bool:
    return (
        bool(neighbour)
        and not neighbour.isascii()
        and (not is_hidden(neighbour) or neighbour == "\ufe0f")
    )


def _plain_letters(text: str) -> str:
    """The text as a model reads it: without hidden characters, in ordinary letters."""
    if not text.isascii():
        if not unicodedata.is_normalized("NFKC", text):
            text = unicodedata.normalize("NFKC", text)
        text = _LOOKS_LATIN.sub(lambda match: match[0].translate(_LOOK_ALIKES), text)
    if not text.isprintable() and (odd := _odd_characters(text)):
        text = re.sub(f"[{re.escape(odd)}]+", "", text)
    return " ".join(text.split())
