"""What each provider would not get, as people and programs read it."""

import json
from pathlib import Path

import pytest

from tests.cli.terminal import wieldy

TOOLS = '''
from typing import Any
from wieldy import Toolbox

box = Toolbox()


@box.tool
def search(query: str, options: dict[str, Any], page: int = 1) -> str:
    """Search."""
    return query


plain = Toolbox()


@plain.tool
def now() -> str:
    """The time."""
    return "now"
'''


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "my_tools.py"
    path.write_text(TOOLS)
    return str(path)


def test_check_says_per_provider_what_is_lost_or_changed(tools: str) -> None:
    done = wieldy("check", tools, "--strict")
    assert done.returncode == 1
    for line in ("openai strict: 1 tool,", "anthropic strict:", "gemini", "mcp", "JSON text"):
        assert line in done.stdout
    assert "\x1b" not in done.stdout


def test_check_is_content_where_nothing_is_lost(tools: str) -> None:
    done = wieldy("check", f"{tools}:plain", "--provider", "openai", "--strict")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert "no differences" in done.stdout


def test_check_gives_json_for_programs(tools: str) -> None:
    done = wieldy("check", tools, "--provider", "openai", "--provider", "mcp", "--strict", "--json")
    openai, mcp = json.loads(done.stdout)
    assert (openai["provider"], openai["strict"], openai["lost"]) == ("openai", True, True)
    assert {change["path"] for change in openai["tools"]["search"]} == {"options", "page"}
    assert (mcp["provider"], mcp["lost"], mcp["tools"]) == ("mcp", False, {"search": []})
    assert openai["tokens"] > 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere.py", "There is no file nowhere.py."),
        ("no_such_module:box", "no_such_module can't be loaded: ModuleNotFoundError"),
        ("add", "No module named 'add'. A SOURCE is a file such as tools.py"),
        ("city=Oslo", "An argument is given as --arg city=Oslo"),
        ("json:box", "json has no toolbox named 'box'. It has no Toolbox at all."),
        ("{tools}:plan", "Did you mean {tools}:plain?"),
    ],
)
def test_check_says_what_is_wrong_with_a_source(tools: str, source: str, said: str) -> None:
    done = wieldy("check", source.format(tools=tools))
    assert (done.returncode, done.stdout) == (2, "")
    assert said.format(tools=tools) in done.stderr.replace("\n", "")


def test_check_shows_what_a_broken_file_raised(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('not today')")
    done = wieldy("check", str(path))
    assert done.returncode == 2
    assert "RuntimeError: not today" in done.stderr


def test_check_names_near_providers(tools: str) -> None:
    done = wieldy("check", tools, "--provider", "opnai")
    assert done.returncode == 2
    assert "Did you mean: openai" in done.stderr
