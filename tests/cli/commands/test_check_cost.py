"""What definitions cost, and which change broke the provider's cache."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

FIRST = '''
from wieldy import Toolbox

box = Toolbox()


@box.tool
def fetch(url: str) -> str:
    """Fetch a page."""
    return url


@box.tool
def mail(to: str) -> str:
    """Send a mail."""
    return to
'''
LATER = (
    FIRST
    + '''

@box.tool
def later() -> str:
    """Come last."""
    return ""
'''
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "counted.py"
    path.write_text(FIRST)
    return path


def count(command: Command, source: Path, *more: str) -> tuple[int, str]:
    done = command("check", str(source), "--cost", "--provider", "anthropic", *more)
    return done.exit_code, done.output


def test_the_first_count_is_recorded_and_the_same_again_holds(
    command: Command, source: Path
) -> None:
    code, said = count(command, source)
    assert code == 0
    assert "anthropic: 2 tools, about" in said
    assert "no earlier count" in said
    assert "fetch" in said and "total" in said

    code, said = count(command, source)
    assert code == 0
    assert "The cache holds: 2 definitions" in said


def test_a_tool_at_the_end_breaks_nothing(command: Command, source: Path) -> None:
    count(command, source)
    source.write_text(LATER)

    code, said = count(command, source)

    assert code == 0
    assert "appended  later" in said


@pytest.mark.parametrize(
    ("old", "new", "tool", "kind", "kept"),
    [
        ('"""Send a mail."""', '"""Send a letter."""', "mail", "changed", 1),
        ('"""Fetch a page."""', '"""Get a page."""', "fetch", "changed", 0),
        ("box = Toolbox()", "box = Toolbox()\nbox.add(print, 'a', 'A.', "
         "input_schema={'type': 'object'})", "a", "inserted", 0),
    ],
)  # fmt: skip
def test_the_tool_that_broke_the_cache_is_named_with_the_place(
    command: Command, source: Path, old: str, new: str, tool: str, kind: str, kept: int
) -> None:
    count(command, source)
    source.write_text(FIRST.replace(old, new))

    code, said = count(command, source, "--no-record", "--json")
    (found,) = json.loads(said)
    broken = found["cache"]["broken"]
    ahead = found["tools"][:kept]

    assert code == 1
    assert (broken["tool"], broken["kind"], found["cache"]["kept"]) == (tool, kind, kept)
    assert broken["at_token"] == sum(each["tokens"] for each in ahead)
    assert broken["at_byte"] == 1 + sum(each["bytes"] + 1 for each in ahead)
    assert broken["at_token"] + broken["lost_tokens"] == found["total"]

    code, said = count(command, source)
    assert code == 1
    assert f"because {tool} was {kind}" in said
    assert count(command, source)[0] == 0


@pytest.mark.parametrize("content", ["", "[]", "{", '{"wieldy_cost": 99}', '{"wieldy_cost": 1}'])
def test_a_damaged_record_is_refused_with_the_next_step_and_kept(
    command: Command, source: Path, content: str
) -> None:
    record = source.with_name("tools.cost")
    record.write_text(content)

    code, said = count(command, source)

    assert code == 2
    assert "Delete it" in said.replace("\n", " ")
    assert record.read_text() == content


def test_the_record_may_be_elsewhere_and_a_place_that_can_not_be_written_is_told(
    command: Command, source: Path
) -> None:
    assert count(command, source, "--cost-file", "mine.json")[0] == 0
    assert source.with_name("mine.json").exists()
    assert not source.with_name("tools.cost").exists()

    code, said = count(command, source, "--cost-file", "no/such/folder")
    assert (code, "--cost-file" in said) == (2, True)


def test_formats_are_recorded_beside_each_other(command: Command, source: Path) -> None:
    count(command, source)
    assert count(command, source, "--strict")[0] == 0
    assert "The cache holds" in count(command, source)[1]
    assert "The cache holds" in count(command, source, "--strict")[1]
