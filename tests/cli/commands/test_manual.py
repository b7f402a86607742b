"""The documentation from the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.terminal import Terminal, wieldy
from wieldy.cli import completion

DOCS = Path(__file__).parents[3] / "docs"


def test_docs_lists_every_page_with_its_title(command: Command) -> None:
    done = command("docs")
    assert done.exit_code == 0
    lines = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    assert lines["index"].strip() == "Documentation"
    pages = {path.stem for path in DOCS.glob("*.md")}
    assert pages <= set(lines)
    listed = json.loads(command("docs", "--json").stdout)
    assert [page["page"] for page in listed] == [*lines][1:]


@pytest.mark.parametrize("name", ["limits", "limits.md", "docs/limits.md#timeout"])
def test_docs_shows_a_page_as_it_is_in_a_pipe(command: Command, name: str) -> None:
    text = (DOCS / "limits.md").read_text(encoding="utf-8")
    assert command("docs", name).stdout == text
    whole = json.loads(command("docs", name, "--json").stdout)
    assert whole == {"page": "limits", "title": "Limits", "text": text}


def test_docs_shows_a_page_formatted_on_a_terminal(folder: Path) -> None:
    terminal = Terminal("docs", "limits", cwd=folder)
    try:
        shown = terminal.wait_for("how many seconds one attempt may run")
        assert "# Limits" not in shown
        assert "```" not in shown
    finally:
        terminal.close()


def test_a_wrong_page_is_answered_with_a_near_one(command: Command) -> None:
    done = command("docs", "frist-tool")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "There is no page 'frist-tool'. Did you mean first-tool" in done.stderr
    assert "`wieldy docs` lists the pages." in command("docs", "qqqq").stderr
    assert command("docs", "../README").exit_code == 2


def test_pages_are_completed() -> None:
    assert completion.doc_pages("perm") == ["permissions"]


def test_the_demo_points_to_the_pages() -> None:
    assert "wieldy docs" in wieldy("demo").stdout
