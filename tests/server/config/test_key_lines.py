"""The line of each key, compared with what a TOML reader finds."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wieldy.server.config.key_lines import KeyPath, find_lines

DOCUMENT = '''# a comment with [brackets] and = signs
name = "x # no comment"
dotted.key."with a \\"quote\\"" = 1

[table]
long = """
[not.a.table]
key = 1
"""
literal = \'\'\'
it's = "here"\'\'\'
array = [ # one
  "]", 2,

  { inner = 3, other = [4] },
]
"quoted key" = {a = 1, b.c = 2}
[[things]]
a = 1
[things.more]
b = 2
[[things]]
[[things.parts]]
c = 3
[[things.parts]]
c = 4
'''


def test_each_key_has_its_line() -> None:
    expected: dict[KeyPath, int] = {
        ("name",): 2,
        ("dotted", "key", 'with a "quote"'): 3,
        ("table",): 5,
        ("table", "long"): 6,
        ("table", "literal"): 10,
        ("table", "array", 0): 13,
        ("table", "array", 1): 13,
        ("table", "array", 2, "inner"): 15,
        ("table", "array", 2, "other", 0): 15,
        ("table", "quoted key", "b", "c"): 17,
        ("things", 0, "a"): 19,
        ("things", 0, "more", "b"): 21,
        ("things", 1, "parts", 0, "c"): 24,
        ("things", 1, "parts", 1, "c"): 26,
    }
    lines = find_lines(DOCUMENT)
    assert {path: lines[path] for path in expected} == expected


def paths_of(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    """The path of everything in a document."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return {path, *(each for key, part in inner for each in paths_of(part, (*path, key)))}


def test_everything_in_a_document_has_a_line() -> None:
    assert paths_of(tomllib.loads(DOCUMENT)) - set(find_lines(DOCUMENT)) == {()}


TEXTS = st.text("ab .\"'#=[]{},é☃", max_size=8)
VALUES = st.recursive(
    st.integers() | st.booleans() | TEXTS,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


def write_value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",\n ".join(map(write_value, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(each):08x}" for each in value) + '"'
    return str(value).lower()


@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3), max_size=4))
def test_any_document_is_read_and_each_key_has_a_line_of_the_document(data: Any) -> None:
    text = ""
    for table, entries in data.items():
        text += f"[{write_value(table)}] # {table}\n"
        text += "".join(
            f"{write_value(key)} = {write_value(part)}\n" for key, part in entries.items()
        )
    lines = find_lines(text)
    assert paths_of(tomllib.loads(text)) - set(lines) <= {()}
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


@pytest.mark.parametrize("text", ["", "\n\n# nothing\n", "a = 1"])
def test_the_least_documents_are_read(text: str) -> None:
    assert set(find_lines(text)) == paths_of(tomllib.loads(text)) - {()}
