"""Read, write and compare `tools.lock`, the file with the locked definitions."""

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from wieldy.core.arguments.argument_errors import plain_message
from wieldy.core.bounded_json import MAX_WRAPPED, parse_json_with
from wieldy.core.errors import LockError
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_json, visible_line

from .definition import Definition
from .file_replacement import replace_file

LOCK_FILE = "tools.lock"
FORMAT = 1
_MARK = "wieldy_lock"
_TOOLS = TypeAdapter(dict[str, Definition])
_AGAIN = "Restore it from a copy, or delete it and run `wieldy lock` again."


@runtime_checkable
class LockableBox(Protocol):
    """A toolbox or a view of one."""

    def all_tools(self) -> list[Tool]:
        """Every tool, including hidden ones."""


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """One tool that differs from the lock: it is new, missing, or has another definition."""

    name: str
    before: Definition | None
    after: Definition | None

    @property
    def kind(self) -> str:
        """The kind of the difference: added, removed or changed."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    @property
    def fields(self) -> list[str]:
        """The parts of the definition that differ, such as `description`."""
        if self.before is None or self.after is None:
            return []
        names = [each for each in Definition.model_fields if each != "fingerprint"]
        return [each for each in names if getattr(self.before, each) != getattr(self.after, each)]

    def diff(self) -> list[str]:
        """The lines that differ, with context; hidden characters are made visible."""
        before = [] if self.before is None else self.before.lines()
        after = [] if self.after is None else self.after.lines()
        name = visible_line(self.name)
        return list(
            difflib.unified_diff(before, after, f"locked {name}", f"now {name}", lineterm="")
        )


@dataclass(frozen=True, slots=True)
class LockChanges:
    """The differences between tools and a lock, in the order of their names."""

    added: tuple[DefinitionChange, ...] = ()
    removed: tuple[DefinitionChange, ...] = ()
    changed: tuple[DefinitionChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __iter__(self) -> Iterator[DefinitionChange]:
        return iter((*self.changed, *self.added, *self.removed))


class Lock:
    """Locked definitions by the name of their tool.

    Example:
        `assert not Lock.read("tools.lock").compare(box)`
    """

    def __init__(self, tools: Mapping[str, Definition]) -> None:
        self.tools = dict(sorted(tools.items()))

    @classmethod
    def of(cls, box: LockableBox | Iterable[Tool]) -> "Lock":
        """Lock the current tools of a box, including hidden ones."""
        return cls({tool.name: Definition.of(tool) for tool in _list_tools(box)})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Lock":
        """Read a lock file.

        Raises:
            LockError: the file does not exist, is damaged, or was written by a newer version.
        """
        shown = os.fspath(path)
        try:
            text = Path(path).read_bytes().decode()
        except FileNotFoundError as error:
            next_step = "Make it with `wieldy lock`."
            raise LockError(shown, "there is no such file", next_step) from error
        except (OSError, UnicodeDecodeError) as error:
            raise LockError(shown, f"it can't be read ({error})", _AGAIN) from error
        return cls(_parse(shown, text))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replace the file atomically: a reader sees the old lock or this one."""
        try:
            replace_file(path, self.text())
        except OSError as error:
            reason = f"it can't be written ({error.strerror})"
            raise LockError(os.fspath(path), reason, "Choose another with --lock.") from error

    def text(self) -> str:
        """The content of the lock file: JSON in a stable order."""
        tools = {name: tool.model_dump() for name, tool in self.tools.items()}
        return visible_json({_MARK: FORMAT, "tools": tools}) + "\n"

    def compare(self, box: LockableBox | Iterable[Tool]) -> LockChanges:
        """The tools of a box that are new, missing or different."""
        now = {tool.name: Definition.of(tool) for tool in _list_tools(box)}
        found: dict[str, list[DefinitionChange]] = {"added": [], "removed": [], "changed": []}
        for name in sorted({*self.tools, *now}):
            change = DefinitionChange(name, self.tools.get(name), now.get(name))
            if change.before is None or not change.before.same(change.after):
                found[change.kind].append(change)
        return LockChanges(**{kind: tuple(changes) for kind, changes in found.items()})

    def with_kept(self, others: Iterable[tuple[str, Definition]]) -> "Lock":
        """This lock, extended by the entries of other tools."""
        return Lock({**dict(others), **self.tools})

    def __len__(self) -> int:
        return len(self.tools)

    def __bool__(self) -> bool:
        # `lock or default` must use this lock even if it is empty.
        return True

    def __repr__(self) -> str:
        return f"Lock({len(self)} tools)"


def _list_tools(box: LockableBox | Iterable[Tool]) -> Iterable[Tool]:
    return box.all_tools() if isinstance(box, LockableBox) else box


def _parse(path: str, text: str) -> dict[str, Definition]:
    """The definitions in a lock file; `LockError` if it can't be used."""
    try:
        found = parse_json_with(text, MAX_WRAPPED, object_pairs_hook=_unique_names)
    except ValueError as error:
        raise LockError(path, f"it is not the JSON it was ({error})", _AGAIN) from error
    version = found.get(_MARK) if isinstance(found, dict) else None
    if type(version) is int and version > FORMAT:
        reason = f"it has format {version}, and this version of wieldy knows {FORMAT}"
        raise LockError(path, reason, "Upgrade wieldy, or lock anew with this version.")
    if type(version) is not int or version != FORMAT or found.keys() != {_MARK, "tools"}:
        raise LockError(path, "it is not a lock of wieldy", _AGAIN)
    try:
        tools = _TOOLS.validate_python(found["tools"])
    except ValidationError as error:
        first = error.errors()[0]
        place = visible_line(".".join(str(part) for part in first["loc"]))
        reason = f"{place} is not as it was written ({plain_message(first['msg'])})"
        raise LockError(path, reason, _AGAIN) from None
    for name, tool in tools.items():
        if tool.fingerprint != tool.expected(name):
            reason = f"the definition of {visible_line(name)} does not fit its fingerprint"
            raise LockError(path, reason, _AGAIN)
    return tools


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without duplicate names, of which a person and a program might read another."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name comes twice in it")
    return made
