"""Compare paths with patterns, in every way in which a tool may read a path.

A path that a function gets may be handed to the file system, to a web server or to a
program that undoes percent escapes first. They don't agree on what `?`, `%2e` or a
backslash is, so a pattern is compared with each of their readings.
"""

import fnmatch
import os.path
import re
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote

Step = Callable[[str], object]

# A text that is escaped more often than this is meant to deceive.
_MAX_ESCAPES = 5
_WILDCARDS = re.compile(r"[*?[]")
_ESCAPES = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_PARAMETERS = re.compile(r";[^/]*")
_DOTS_WITH_PARAMETERS = re.compile(r"(^|/)(\.{1,2});[^/]*")
_AMBIGUOUS = re.compile(r"[%\\;]")
_END_OF_PATH = re.compile(r"[?#]")


class StepPattern:
    """A pattern for the steps of a path: `*` stays within one step, `**` crosses steps.

    A rule that restricts `a/**` restricts `a` itself as well.
    """

    __slots__ = ("_at_or_below", "_below")

    def __init__(self, patterns: Iterable[Sequence[str]]) -> None:
        self._below = [_compile_steps(steps) for steps in patterns]
        folders = [steps[:-2] for steps in self._below if steps[-2:-1] == [_any_depth]]
        self._at_or_below = [*self._below, *folders]

    def holds(self, paths: Iterable[Sequence[str]], restricts: bool) -> bool:
        """Whether any of these readings of a path fits; for a rule that allows, all of them."""
        if restricts:
            return any(_leads_to(steps, path) for path in paths for steps in self._at_or_below)
        return all(any(_leads_to(steps, path) for steps in self._below) for path in paths)


class PathPattern:
    """A path with wildcards, as a rule has it."""

    __slots__ = ("_absolute", "_steps")

    def __init__(self, pattern: str) -> None:
        if pattern.endswith("/"):
            pattern += "**"
        written = [pattern, os.path.expanduser(pattern)] if pattern.startswith("~") else [pattern]
        self._steps = StepPattern(_normal_path(each).split("/") for each in written)
        self._absolute = any(os.path.isabs(each) for each in written)

    def holds(self, text: str, restricts: bool) -> bool:
        """Whether the path is meant, by any reading of it or by all."""
        text = text.replace("\0", "")
        cut = _END_OF_PATH.split(text, maxsplit=1)[0]
        forms = path_spellings(text, restricts) | path_spellings(cut, restricts)
        paths = {path for form in forms for path in self._place_path(form)}
        return self._steps.holds([path.split("/") for path in paths], restricts)

    def _place_path(self, path: str) -> list[str]:
        if not self._absolute:
            return [_normal_path(path)]
        home = [os.path.expanduser(path)] if path.startswith("~") else []
        return [_normal_path(each) for each in (os.path.abspath(path), *home)]


def path_spellings(path: str, restricts: bool) -> set[str]:
    """The path as it is, and each form with escapes undone and backslashes turned.

    Raises `ValueError` if there is no end to the escapes.
    """
    forms = {path}
    if not _AMBIGUOUS.search(path):
        return forms
    for _ in range(_MAX_ESCAPES):
        plain = unquote(path)
        forms.add(plain)
        if plain == path:
            break
        path = plain
    else:
        raise ValueError("it is escaped too often to be read")
    forms |= {form.replace("\\", "/") for form in forms}
    # Some servers ignore what follows a semicolon in a step.
    dropped = _PARAMETERS if restricts else _DOTS_WITH_PARAMETERS
    kept = "" if restricts else r"\1\2"
    return forms | {dropped.sub(kept, form) for form in forms}


def resolve_steps(path: str) -> list[list[str]]:
    """The steps of a URL's path with dots resolved, by the URL standard and by a file system.

    The two differ for empty steps: the standard counts them, a file system does not.
    """
    given = path.removeprefix("/").split("/")
    standard: list[str] = []
    on_disk: list[str] = []
    for step in given:
        if step == "..":
            del standard[-1:], on_disk[-1:]
        elif step != ".":
            standard.append(step)
            on_disk += [step] if step else []
    if standard[-1:] == [""]:
        standard.pop()
    # The root of a host is a step without a name.
    return [steps or [""] for steps in ([standard] if standard == on_disk else [standard, on_disk])]


def unescape_pattern(pattern: str) -> str:
    """The pattern with percent escapes undone; what was escaped is never a wildcard."""
    return _ESCAPES.sub(lambda found: _WILDCARDS.sub(r"[\g<0>]", unquote(found[0])), pattern)


def _normal_path(path: str) -> str:
    plain = os.path.normpath(path.replace(os.sep, "/")) if path else ""
    # A leading "//" is "/" here, and normpath keeps it.
    return "/" + plain.lstrip("/") if plain.startswith("/") else plain


def _any_depth(step: str) -> bool:
    """Stands for `**` among the steps of a pattern."""
    return True


def _compile_steps(steps: Sequence[str]) -> list[Step]:
    """Compile the steps of a pattern. A `**` at the end stands for at least one step."""
    last = ["*"] if steps[-1:] == ["**"] else []
    return [
        _any_depth if step == "**" else re.compile(fnmatch.translate(step)).match
        for step in (*steps, *last)
    ]


def _leads_to(wanted: Sequence[Step], steps: Sequence[str]) -> bool:
    """Compare step by step; only the last `**` is ever tried again, so the time is bounded."""
    at = step = resumed = 0
    crossing = -1
    while step < len(steps):
        if at < len(wanted) and wanted[at] is _any_depth:
            crossing, resumed = at, step
            at += 1
        elif at < len(wanted) and wanted[at](steps[step]):
            at, step = at + 1, step + 1
        elif crossing >= 0:
            resumed += 1
            at, step = crossing + 1, resumed
        else:
            return False
    return all(rest is _any_depth for rest in wanted[at:])
