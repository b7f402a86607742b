"""Read `SKILL.md`: front matter that says what a skill is for, then its instructions."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wieldy.core.bounded_json import dump_json
from wieldy.core.errors import WieldyError
from wieldy.core.visible_text import visible_line

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
# A title instead of a name, as in "PDF Forms & Tables", "pdf_forms" and "pdf/forms".
_TITLE = re.compile(r"[A-Za-z0-9]+(?:(?: & |[ _/-])[A-Za-z0-9]+)*\Z")
_MAX_NAME = 64
_MAX_DESCRIPTION = 1024
_MAX_FRONT = 64_000
_FENCE = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
_KEY = re.compile(r"[A-Za-z][\w-]*\Z")
# A line that begins with a key; indented lines belong to the key before.
_ENTRY_START = re.compile(r"^(?=[A-Za-z][\w-]*:)", re.MULTILINE)

_COMMENT = re.compile(r"^#.*\n", re.MULTILINE)


class SkillError(WieldyError):
    """A skill can't be used.

    Attributes:
        path: The skill's folder or file.
        reason: What is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"The skill {visible_line(path, 200)}: {reason}.")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """The contents of `SKILL.md`.

    Attributes:
        name: The skill's name: small letters, digits and hyphens. A title becomes one.
        description: What it is for, on one line.
        body: The instructions.
        facts: The whole front matter, such as `license` and `allowed-tools`.
    """

    name: str
    description: str
    body: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_document(path: str, text: str) -> SkillDocument:
    """Read the text of a `SKILL.md`; `SkillError` says what is wrong with it."""
    front, body = _split_front(path, text)
    facts = _read_front(path, front)
    # Some skills are published without a name, and are known by their folder.
    name = _read_name(path, facts.get("name", path.rpartition("/")[2]))
    description = facts.get("description")
    if not isinstance(description, str) or not description.strip():
        raise SkillError(path, "it needs a description that says what it is for and when to use it")
    line = visible_line(" ".join(description.split()), _MAX_DESCRIPTION)
    return SkillDocument(name, line, body.strip() + "\n", facts)


def _read_name(path: str, said: Any) -> str:
    """The name of a skill, also where its front matter has a title instead."""
    if isinstance(said, str) and len(said) <= _MAX_NAME:
        if _NAME.match(said):
            return said
        if _TITLE.match(said):
            return re.sub("[^a-z0-9]+", "-", said.lower())
    reason = (
        f"its name must be small letters, digits and single hyphens, at most {_MAX_NAME} "
        f"of them, not {visible_line(str(said), 80)!r}"
    )
    raise SkillError(path, reason)


def _split_front(path: str, text: str) -> tuple[str, str]:
    """The front matter, and the instructions behind it."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first = _FENCE.match(lines)
    if first is None:
        raise SkillError(path, "SKILL.md must begin with front matter between two lines of ---")
    last = _FENCE.search(lines, first.end(), _MAX_FRONT)
    if last is None:
        reason = f"its front matter has no end within {_MAX_FRONT:,} characters"
        raise SkillError(path, reason)
    return lines[first.end() : last.start()], lines[last.end() :]


def _read_front(path: str, front: str) -> Mapping[str, Any]:
    try:
        # YAML comes with an extra, and is loaded by whoever has skills.
        from wieldy.core.arguments.yaml_reader import read_yaml_text  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f'{error}. Skills need an extra: pip install "wieldy[agent]"') from error
    try:
        facts = _read_tolerantly(front, read_yaml_text)
    except ValueError as error:
        raise SkillError(path, f"its front matter can't be read ({error})") from None
    if not isinstance(facts, Mapping):
        raise SkillError(path, "its front matter must have a name and a description")
    return facts


def _read_tolerantly(front: str, read: Callable[[str], Any]) -> Any:
    """The facts, also where a text has a colon in it that YAML takes for another key.

    Many skills are published with such descriptions, and other programs read them.
    """
    try:
        return read(front)
    except ValueError:
        entries = [entry for entry in _ENTRY_START.split(_COMMENT.sub("", front)) if entry.strip()]
        quoted = [_quote_entry(entry, read) for entry in entries]
        if quoted == entries:
            raise
        return read("".join(quoted))


def _quote_entry(entry: str, read: Callable[[str], Any]) -> str:
    """A key with its value, or with the value as a text where YAML can't read it."""
    key, colon, value = entry.partition(":")
    try:
        read(entry)
    except ValueError:
        if colon and _KEY.match(key):
            return f"{key}: {dump_json(' '.join(value.split()))}\n"
    return entry
