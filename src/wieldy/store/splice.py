"""Replace one passage of a text, also if it stands there a little differently."""

from dataclasses import dataclass

from wieldy.core.errors import PassageNotFound, PassageRepeated

from .fuzzy import nearest

# Of ten characters of the passage, how many edits may take part in a near match.
_EDITS_OF_TEN = 3


@dataclass(frozen=True, slots=True)
class Spliced:
    """The text after a replacement, and what was replaced in it."""

    content: str
    kind: str
    similarity: float
    matched: str


def splice(id: str, content: str, old: str, new: str) -> Spliced:
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
