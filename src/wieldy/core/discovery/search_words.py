"""The words of a text as a search compares them: split, in lower case, without endings."""

import re

_WORD = re.compile(r"[a-z0-9]+|[^\W\x00-\x7f]", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Words that say nothing about what a tool does, in descriptions and in questions.
_SMALL = frozenset(
    {"a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by"}
    | {"can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "here", "how", "i"}
    | {"if", "in", "into", "is", "it", "its", "just", "let", "me", "my", "need", "of", "on", "or"}
    | {"our", "out", "please", "should", "so", "some", "somebody", "someone", "something", "than"}
    | {"that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to"}
    | {"up", "us", "want", "was", "we", "were", "what", "when", "where", "which", "who", "whose"}
    | {"why", "will", "with", "would", "you", "your"}
)
# Words that makers of tools use for the same action or thing. A question that has one of them
# finds tools that have another, if less well.
_ALIKE = (
    "add create insert make new",
    "delete destroy drop erase remove",
    "change edit modify rename update",
    "fetch get look open read retrieve see show view",
    "all enumerate every list",
    "find lookup query search",
    "cancel halt interrupt stop",
    "begin launch run start trigger",
    "mail email",
    "picture image photo",
    "folder directory dir",
    "config configuration settings",
    "repo repository",
    "pr pull",
    "org organization organisation",
    "db database",
    "doc document",
    "env environment",
    "info information",
    "message msg",
    "application app",
    "authentication auth login",
    "person people user member",
)
_MAX_LENGTH = 20_000


def split_words(text: str) -> list[str]:
    """The words without small ones and common endings; each CJK character is a word.

    Only the beginning of a very long text is read.
    """
    words = (word.lower() for word in _WORD.findall(_HUMP.sub(" ", text[:_MAX_LENGTH])))
    return [_stem_word(word) for word in words if word not in _SMALL]


def similar_words(word: str) -> frozenset[str]:
    """Other words, as `split_words` gives them, that makers of tools use for the same."""
    return _SIMILAR.get(word, frozenset())


def _stem_word(word: str) -> str:
    """A word without its ending; it need not be a word, as long as its forms share it."""
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending) + instead
            break
    for ending in ("ing", "ed", "er"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = _undouble_letter(word.removesuffix(ending))
            break
    return word.removesuffix("e") if len(word) > 3 else word


def _undouble_letter(word: str) -> str:
    """`runn` as `run`; two of some letters belong to the word itself."""
    return word[:-1] if word[-1] == word[-2] and word[-1] not in "lsz" else word


def _read_similar() -> dict[str, frozenset[str]]:
    similar: dict[str, set[str]] = {}
    for line in _ALIKE:
        words = {_stem_word(word) for word in line.split()}
        for word in words:
            similar.setdefault(word, set()).update(words - {word})
    return {word: frozenset(others) for word, others in similar.items()}


_SIMILAR = _read_similar()
