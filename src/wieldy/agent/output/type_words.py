"""Convert names of types, such as `list[str]`, to types and back."""

import re
from typing import Any, Literal

_NAMES: dict[str, Any] = {
    "any": Any,
    "array": list,
    "bool": bool,
    "boolean": bool,
    "dict": dict,
    "float": float,
    "int": int,
    "integer": int,
    "list": list,
    "map": dict,
    "none": None,
    "null": None,
    "number": float,
    "object": dict,
    "str": str,
    "string": str,
    "text": str,
}
_GENERIC = re.compile(r"(\w+)\[(.*)\]\Z", re.DOTALL)


def read_type(words: Any) -> Any:
    """The type with this name; any other text is returned unchanged."""
    if not isinstance(words, str):
        return words
    text = words.strip()
    choices = _split_outside(text, "|")
    if len(choices) > 1:
        return _read_union(choices) or words
    if text.lower() in _NAMES:
        return _NAMES[text.lower()]
    generic = _GENERIC.match(text)
    return words if generic is None else _read_generic(generic[1].lower(), generic[2], words)


def _read_generic(name: str, inside: str, words: str) -> Any:
    parts = _split_outside(inside, ",")
    if name == "literal":
        return Literal[tuple(map(_read_choice, parts))]
    inner = tuple(map(read_type, parts))
    if any(isinstance(each, str) for each in inner):
        return words
    if name in ("list", "array") and len(inner) == 1:
        return list[inner[0]]  # type: ignore[valid-type]
    if name in ("dict", "map", "object") and len(inner) == 2:
        return dict[inner[0], inner[1]]  # type: ignore[valid-type]
    if name == "optional" and len(inner) == 1:
        return inner[0] | None
    return words


def _read_union(choices: list[str]) -> Any:
    read = [read_type(each) for each in choices]
    if any(isinstance(each, str) for each in read):
        return None
    union = read[0]
    for each in read[1:]:
        if union is Any or each is Any:
            return Any
        union = union | each
    return union


def _read_choice(text: str) -> Any:
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    return int(text) if text.lstrip("-").isdecimal() else text


def _split_outside(text: str, mark: str) -> list[str]:
    """The parts of a text between marks that are outside all brackets."""
    parts, depth, start = [], 0, 0
    for at, each in enumerate(text):
        depth += (each == "[") - (each == "]")
        if each == mark and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
