"""`wieldy docs`: show the documentation pages of the installed package."""

import sys
from dataclasses import dataclass
from pathlib import Path

from wieldy.cli import exits, screen
from wieldy.core.errors import WieldyError
from wieldy.core.names import find_near_names
from wieldy.core.short_text import first_line

_PACKAGE = Path(__file__).parents[2]
# A wheel has the pages inside; an editable install has them beside its source.
_PLACES = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")
# The pages in this folder contain only directives with which the site reads the docstrings.
_GENERATED = "reference"


class PageNotFound(WieldyError):
    """There is no page of this name, or there are no pages at all."""


@dataclass(frozen=True, slots=True)
class ManualPage:
    """A page: its name, its first heading and its text."""

    name: str
    title: str
    text: str


def run_docs(name: str | None, as_json: bool) -> int:
    """List the pages, or show one; returns the exit code."""
    screen.ready()
    try:
        if name is None:
            _list_pages(as_json)
        else:
            _show_page(find_page(name), as_json)
    except WieldyError as error:
        screen.fail(error)
        return exits.USAGE
    return exits.OK


def read_pages() -> list[ManualPage]:
    """The pages of the installed package, `index` first."""
    folder = next((place for place in _PLACES if (place / "index.md").is_file()), None)
    if folder is None:
        raise PageNotFound("This installation has no documentation. Install wieldy from its wheel.")
    found = [
        _read_page(path, folder)
        for path in sorted(folder.rglob("*.md"))
        if path.relative_to(folder).parts[0] != _GENERATED
    ]
    return sorted(found, key=lambda page: ("/" in page.name, page.name != "index", page.name))


def find_page(name: str) -> ManualPage:
    """The page with this name, with or without `.md`; else `PageNotFound` with near names."""
    pages = {page.name: page for page in read_pages()}
    asked = name.removeprefix("docs/").partition("#")[0].removesuffix(".md")
    if asked in pages:
        return pages[asked]
    hint = find_near_names(asked, pages)
    there = f"Did you mean {' or '.join(hint)}?" if hint else "`wieldy docs` lists the pages."
    raise PageNotFound(f"There is no page {name!r}. {there}")


def _read_page(path: Path, folder: Path) -> ManualPage:
    text = path.read_text(encoding="utf-8")
    title = first_line(text).removeprefix("# ").strip()
    return ManualPage(path.relative_to(folder).with_suffix("").as_posix(), title, text)


def _list_pages(as_json: bool) -> None:
    pages = read_pages()
    if as_json:
        screen.put([{"page": page.name, "title": page.title} for page in pages])
        return
    screen.table(("page", "title"), [(page.name, page.title) for page in pages])
    screen.say("`wieldy docs PAGE` shows a page.")


def _show_page(page: ManualPage, as_json: bool) -> None:
    if as_json:
        screen.put({"page": page.name, "title": page.title, "text": page.text})
    elif sys.stdout.isatty():
        from rich.markdown import Markdown  # noqa: PLC0415 - reads Markdown and colours code

        screen.console().print(Markdown(page.text))
    else:
        screen.show(page.text.rstrip("\n"))
