"""Hold the two READMEs together, and every link of the documentation to something real."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("README*.md"), *ROOT.glob("docs/**/*.md")])
TRANSLATED = sorted(ROOT.glob("docs/zh/*.md"))

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _headings(text: str) -> list[tuple[int, str]]:
    return [(len(marks), title) for marks, title in _HEADING.findall(_FENCED.sub("", text))]


def _anchors(text: str) -> set[str]:
    """The names under which a page's headings can be linked to."""
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for _, title in _headings(text))
    return {title.replace(" ", "-") for title in plain}


def broken_links(page: Path, text: str) -> list[str]:
    """Links to files or headings that are not there. Other sites are not looked at."""
    broken = []
    for link in _LINK.findall(_FENCED.sub("", text)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if "://" in link:
            continue
        if not target.exists() or (
            anchor and anchor not in _anchors(target.read_text(encoding="utf-8"))
        ):
            broken.append(link)
    return broken


def test_both_readmes_have_the_same_headings() -> None:
    levels = [[level for level, _ in _headings(_read(name))] for name in _names()]
    assert levels[0] == levels[1]


def test_both_readmes_have_the_same_code() -> None:
    blocks = [_FENCED.findall(_read(name)) for name in _names()]
    assert blocks[0] == blocks[1] != []


def test_both_readmes_link_to_the_same_places() -> None:
    links = [set(_LINK.findall(_read(name))) - set(_names()) for name in _names()]
    # The Chinese one leads to the pages that are in Chinese as well.
    assert links[0] == {link for link in links[1] if not link.startswith("docs/zh/")}


def _names() -> tuple[str, str]:
    return "README.md", "README.zh-CN.md"


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.name))
def test_a_translated_page_is_in_step_with_the_english_one(page: Path) -> None:
    ours, theirs = page.read_text(encoding="utf-8"), _read(f"docs/{page.name}")
    assert _FENCED.findall(ours) == _FENCED.findall(theirs)
    assert [level for level, _ in _headings(ours)] == [level for level, _ in _headings(theirs)]
    # A new page may be linked to in English first.
    assert _targets(page, ours) <= _targets(ROOT / "docs" / page.name, theirs)


def _targets(page: Path, text: str) -> set[tuple[str, str]]:
    """The pages that are linked to, whatever their language, with the headings."""
    links = (link.partition("#") for link in _LINK.findall(_FENCED.sub("", text)))
    named = {((page.parent / name).resolve().name, anchor) for name, _, anchor in links}
    return named - {(page.name, "")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = (
        "# One two\n\n[a](#one-two) [b](page.md#one-two) [c](#three) [d](no.md) [e](https://x/y)\n"
    )
    page.write_text(text, encoding="utf-8")
    assert broken_links(page, text) == ["#three", "no.md"]
