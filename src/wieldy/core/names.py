"""Lists of names, names that providers accept, and near names for wrong ones, also of options."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from .short_text import cut_text

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ILLEGAL_RUN = re.compile(r"[^a-zA-Z0-9_-]+")
_HASH_LENGTH = 8
# Longer names are not compared: they are hardly mistyped, and the cost grows with both lengths.
_MAX_NEAR = 200
_SEPARATORS = bytes(mark for mark in range(128) if not chr(mark).isalnum())
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def listed_names(names: str | Iterable[str] | None) -> tuple[str, ...]:
    """Names as a tuple, from one text, several texts or None."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def provider_name(name: str) -> str:
    """The name itself if every provider accepts it, else a readable form with a hash.

    The result depends on the name alone, never on the other tools.
    """
    if _LEGAL.match(name):
        return name
    # Imported when a name first needs it, to keep `import wieldy` light.
    import hashlib  # noqa: PLC0415

    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    readable = _ILLEGAL_RUN.sub("_", name).strip("_")[: 63 - _HASH_LENGTH]
    return f"{readable}_{digest}" if readable else f"tool_{digest}"


def find_near_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names that the caller may have meant, the best first."""
    if not isinstance(name, str) or len(name) > _MAX_NEAR:
        return []
    by_plain: dict[str, list[str]] = {}
    for candidate in known:
        if len(candidate) <= _MAX_NEAR:
            by_plain.setdefault(plain_name(candidate), []).append(candidate)
    wanted = plain_name(name)
    if wanted in by_plain:
        return by_plain[wanted][:limit]
    matches = close_names(wanted, by_plain, limit, 0.6)
    return [candidate for match in matches for candidate in by_plain[match]][:limit]


def close_names(name: str, known: Iterable[str], limit: int, cutoff: float) -> list[str]:
    """The known names that share at least this part with a name, the best first."""
    places: dict[str, int] = {}
    for at, letter in enumerate(name):
        places[letter] = places.get(letter, 0) | 1 << at
    scored = []
    for candidate in known:
        both = len(name) + len(candidate)
        # As many letters as the shorter one has can be common at most.
        if 2 * min(len(name), len(candidate)) >= cutoff * both:
            score = 2 * _count_common(places, len(name), candidate) / (both or 1)
            if score >= cutoff:
                scored.append((score, candidate))
    scored.sort(key=lambda each: -each[0])
    return [candidate for _, candidate in scored[:limit]]


def _count_common(places: dict[str, int], length: int, other: str) -> int:
    """How many letters two names have in common, in the same order.

    `places` has a bit for each place of a letter in the first name (Hyyrö 2004).
    """
    row = whole = (1 << length) - 1
    for place in filter(None, map(places.get, other)):
        matched = row & place
        row = (row + matched) | (row - matched)
    return length - (row & whole).bit_count()


def plain_name(name: str) -> str:
    """A name without case and separators, so that `userName` and `user_name` are equal."""
    if name.isascii():
        # Thousands of names are converted at a time, and bytes are far quicker than text.
        return name.encode().translate(None, _SEPARATORS).decode().lower()
    return re.sub(r"[\W_]+", "", name).casefold()


def shorten_name(name: object, limit: int = 80) -> str:
    """A name in quotes for a message, cut if it is long."""
    return cut_text(repr(name), limit)


def check_options(
    function: Callable[..., Any], given: Mapping[str, Any], known: Collection[str]
) -> None:
    """Raise `TypeError` for the first option that is not known.

    Python refuses unknown keyword arguments by itself, except where a function gathers
    its options in one `**options`: each such function calls this first. An option that
    is dropped in silence may be the one that keeps strangers out.

    Args:
        function: Who was called; its own parameters are near names too.
        given: What it gathered.
        known: The options that it takes there.
    """
    for name in given:
        if name not in known:
            raise TypeError(_explain_unknown(function, name, known))


def _explain_unknown(function: Callable[..., Any], name: str, known: Collection[str]) -> str:
    own = inspect.signature(function).parameters.values()
    names = [*(each.name for each in own if each.kind in _NAMED and each.name != "self"), *known]
    meant = find_near_names(name, names, limit=1)
    advice = f"Did you mean {meant[0]!r}?" if meant else f"It takes {', '.join(sorted(names))}."
    return f"{function.__qualname__}() has no keyword argument {name!r}. {advice}"
