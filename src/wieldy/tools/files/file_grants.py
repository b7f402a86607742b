"""Logical paths, and what is granted for them."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .file_backend import Names
from .file_errors import AccessDenied, InvalidPath

OPERATIONS = ("list", "read", "write", "delete")
_MAX_PATH = 1000
_MAX_NAME = 200
_WILD = frozenset("*?")
# The namespace of what users brought, whoever grants it.
USER_FILES = "userinput"


@dataclass(frozen=True, slots=True)
class Grant:
    """The operations that are allowed on all files under a folder.

    Attributes:
        prefix: The folder, such as "/workspace/".
        operations: Some of "list", "read", "write" and "delete".
        untrusted: Whether the files come from outside; `/userinput/` holds what users brought.
    """

    prefix: str
    operations: frozenset[str]
    untrusted: bool = False

    def covers(self, path: str) -> bool:
        """Whether a path is the folder, or in it."""
        return path.startswith(self.prefix) or f"{path}/" == self.prefix


DEFAULT_GRANTS = (
    Grant("/userinput/", frozenset(("list", "read")), untrusted=True),
    Grant("/workspace/", frozenset(OPERATIONS)),
    Grant("/internal/", frozenset(("list", "read", "write"))),
)


class Grants:
    """The grants of one caller; what any of them allows is allowed."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        self._grants = tuple(grants)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The first folders of all that is granted, in order."""
        return tuple(dict.fromkeys(grant.prefix.split("/")[1] for grant in self._grants))

    @property
    def folders(self) -> list[Names]:
        """The folders of all grants, in order."""
        return [split_path(grant.prefix) for grant in self._grants]

    @property
    def listed_folders(self) -> list[Names]:
        """The folders that may be listed, in order, without those in another one of them."""
        listed = [grant.prefix for grant in self._grants if "list" in grant.operations]
        outer = [each for each in listed if not any(_is_within(each, other) for other in listed)]
        return [split_path(each) for each in dict.fromkeys(outer)]

    def allows(self, operation: str, path: str) -> bool:
        """Whether an operation is granted for a path."""
        return any(operation in g.operations and g.covers(path) for g in self._grants)

    def is_untrusted(self, path: str) -> bool:
        """Whether what is at a path comes from outside."""
        return any(grant.untrusted and grant.covers(path) for grant in self._grants)

    def untrusted_below(self, path: str) -> list[str]:
        """The folders below a path whose files come from outside."""
        below = f"{path.rstrip('/')}/"
        return [g.prefix for g in self._grants if g.untrusted and g.prefix.startswith(below)]

    def check(self, operation: str, path: str) -> tuple[str, ...]:
        """The names that a path consists of; raises where the operation is not granted for it."""
        parts = split_path(path)
        plain = "/" + "/".join(parts)
        if not self.allows(operation, plain):
            granted = ", ".join(g.prefix for g in self._grants if operation in g.operations)
            hint = f"It is granted under {granted}." if granted else "It is granted nowhere."
            raise AccessDenied(path, f"may not be used to {operation}. {hint}")
        return parts

    def describe(self) -> str:
        """The grants in words, a line for each."""
        lines = []
        for grant in self._grants:
            granted = [each for each in OPERATIONS if each in grant.operations]
            lines.append(f"{grant.prefix}: {', '.join(granted) or 'nothing'}")
        return "\n".join(lines)


def _is_within(folder: str, other: str) -> bool:
    return folder != other and folder.startswith(other)


def read_grants(given: Mapping[str, Iterable[str]] | Iterable[Grant] | None) -> Grants:
    """Grants from what a program gives: a mapping of folders to operations, or `Grant`s."""
    if given is None:
        return Grants(DEFAULT_GRANTS)
    if isinstance(given, Mapping):
        return Grants(make_grant(prefix, operations) for prefix, operations in given.items())
    listed = list(given)
    if not all(isinstance(each, Grant) for each in listed):
        raise ValueError(
            f'grants are {{"/docs/": ["list", "read"]}}, or Grants, not {given!r:.100}'
        )
    return Grants(make_grant(each.prefix, each.operations, each.untrusted) for each in listed)


def make_grant(prefix: str, operations: Iterable[str], untrusted: bool = False) -> Grant:
    """A grant that was checked; `ValueError` where it makes no sense."""
    named = frozenset([operations] if isinstance(operations, str) else operations)
    unknown = named - set(OPERATIONS)
    if unknown:
        raise ValueError(f"a grant has {', '.join(OPERATIONS)}, not {', '.join(sorted(unknown))}")
    parts = split_path(prefix)
    if not parts:
        raise ValueError("a grant is for a folder such as /workspace/, not for everything")
    return Grant(f"/{'/'.join(parts)}/", named, untrusted or parts[0] == USER_FILES)


def split_path(path: Any) -> tuple[str, ...]:
    """The names that a logical path consists of; `InvalidPath` says what is wrong with it.

    A path begins with a slash. It has no `.` or `..`, no empty names, and no characters that
    one system or another reads in a way of its own.
    """
    if not isinstance(path, str) or not path.startswith("/"):
        raise InvalidPath(str(path), "is no path: it begins with a slash, as in /workspace/a.txt")
    if len(path) > _MAX_PATH:
        raise InvalidPath(path, "is too long")
    names = path[1:].removesuffix("/").split("/") if path != "/" else []
    for name in names:
        reason = _name_fault(name)
        if reason is not None:
            raise InvalidPath(path, reason)
    return tuple(names)


def _name_fault(name: str) -> str | None:
    if name in ("", ".", ".."):
        return "has an empty name, `.` or `..` in it"
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME:
        return "has a name that is too long"
    if "\\" in name or _WILD.intersection(name):
        return "has a backslash or a wildcard in it"
    if any(unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") for each in name):
        return "has characters in it that nobody sees"
    if unicodedata.normalize("NFC", name) != name:
        return "is not in the normal form of Unicode (NFC)"
    return None
