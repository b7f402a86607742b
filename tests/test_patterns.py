"""Regular expressions mean the same on every Python that we run on."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "wieldy"
# A group that gives nothing back: `(…)*+`, `(…){2}+`, `(?>…)`. Python 3.11.0 to 3.11.4 match past
# a look-ahead inside one. A set, as in `[^"]*+`, is read well by all of them.
_ATOMIC_GROUP = re.compile(r"(?<![\\(])\)(?:[*+?]|\{[^{}]*\})\+|\(\?>")


def test_no_pattern_has_a_group_that_gives_nothing_back() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line} {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in _strings(path)
        if _ATOMIC_GROUP.search(text)
    ]
    assert found == []


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """Every text in a module; a value that is filled in counts as a digit."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "0" for each in node.values]
            yield node.lineno, "".join(map(str, parts))
