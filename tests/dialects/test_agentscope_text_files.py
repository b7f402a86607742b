"""AgentScope's text file functions: contract 001.14."""

from pathlib import Path
from typing import Any

import pytest

from wieldy.dialects.agentscope import (
    Toolkit,
    ToolResponse,
    insert_text_file,
    view_text_file,
    write_text_file,
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file of ten lines."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{n}\n" for n in range(1, 11)))
    return str(path)


def said(response: ToolResponse) -> str:
    return str(response.content[0].get("text"))


def content_of(path: str) -> str:
    return Path(path).read_text()


@pytest.mark.parametrize(
    ("ranges", "lines"),
    [
        ([3, 4], "3: 3\n4: 4\n"),
        ([-2, -1], "9: 9\n10: 10\n"),
        ([9, 99], "9: 9\n10: 10\n"),
        ([1, 1], "1: 1\n"),
    ],
)
async def test_001_14_some_lines_are_viewed(file: str, ranges: list[int], lines: str) -> None:
    shown = said(await view_text_file(file, ranges))

    assert shown == f"The content of {file} in {ranges} lines:\n```\n{lines}```"


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([11, 12], "which has only 10 lines"),
        ([-11, -1], "which has only 10 lines"),
        ([5, 3], "ends before it begins"),
        ([0, 3], "is invalid"),
        ([1], "is invalid"),
        ([1, 2, 3], "is invalid"),
        (["1", "2"], "is invalid"),
        ([True, 2], "is invalid"),
    ],
)
async def test_001_14_a_bad_range_is_said_and_changes_nothing(
    file: str, ranges: Any, words: str
) -> None:
    before = content_of(file)

    assert words in said(await view_text_file(file, ranges))
    assert words in said(await write_text_file(file, "x", ranges))
    assert content_of(file) == before


@pytest.mark.parametrize("content", ["new", "new\n"])
async def test_001_14_a_range_is_replaced_by_whole_lines(file: str, content: str) -> None:
    await write_text_file(file, content, [2, 9])

    assert content_of(file) == "1\nnew\n10\n"


async def test_001_14_inserting_behind_the_last_line_appends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo")

    shown = said(await insert_text_file(str(path), "three", 3))

    assert path.read_text() == "one\ntwo\nthree\n"
    assert shown.endswith("```\n1: one\n2: two\n3: three\n```")
    assert "between lines 1-3 is" in shown
    refused = said(await insert_text_file(str(path), "x", 5))
    assert refused.endswith("The given line_number (5) is not in the valid range [1, 4].")


async def test_001_14_a_file_is_created_and_overwritten(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")

    assert said(await write_text_file(path, "one")) == f"Create and write {path} successfully."
    assert said(await write_text_file(path, "two")) == f"Overwrite {path} successfully."
    assert content_of(path) == "two"


async def test_001_14_what_is_no_text_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe")

    assert "does not exist" in said(await view_text_file(str(tmp_path / "none")))
    assert "is not a file" in said(await insert_text_file(str(tmp_path), "x", 1))
    assert said(await view_text_file(str(tmp_path / "b.bin"))).startswith("Error: ")
    assert said(await view_text_file("a\0b")).startswith("Error: ")


@pytest.mark.parametrize(
    ("policy", "blocked"), [("deny", True), ("warn", False), ("allow", False), ("dny", True)]
)
async def test_001_14_the_policy_of_the_machine_holds(
    file: str,
    policy: str,
    blocked: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("AGENTSCOPE_DANGEROUS_TEXT_IO", policy)

    responses = [
        await view_text_file(file),
        await write_text_file(file, "changed"),
        await insert_text_file(file, "changed", 1),
    ]

    assert [response.metadata for response in responses] == [
        {
            "dangerous_io": True,
            "policy": "deny" if blocked else policy,
            "tool": tool,
            "path": file,
            "blocked": blocked,
        }
        for tool in ("view_text_file", "write_text_file", "insert_text_file")
    ]
    assert ("is blocked" in said(responses[0])) is blocked
    assert ("changed" in content_of(file)) is not blocked
    assert bool(caplog.records) is (policy == "warn")


def test_001_14_nothing_registers_them_by_itself() -> None:
    assert Toolkit().get_json_schemas() == []


async def test_001_14_a_path_may_begin_with_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert "successfully" in said(await write_text_file("~/notes.txt", "one\n"))
    assert "successfully" in said(await insert_text_file("~/notes.txt", "two\n", 2))
    shown = await view_text_file("~/notes.txt")

    assert (tmp_path / "notes.txt").read_text() == "one\ntwo\n"
    assert "2: two" in said(shown)
    assert shown.metadata is not None and shown.metadata["path"] == str(tmp_path / "notes.txt")
