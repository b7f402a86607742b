"""Which pages are shown in a browser, told from their HTML."""

import pytest

from tests.tools.web.browser_pages import EMPTY
from wieldy.tools.web.document_reader import needs_scripts
from wieldy.tools.web.page_text import read_page

SCRIPT = '<script src="/app.js"></script>'
WORDS = "<p>" + "The blue whale is a large animal. " * 5 + "</p>"
ARTICLE = "<article>" + "".join(f"<p>Of whale {n}, much is to be told.</p>" for n in range(60))


def read_need(html: str) -> bool:
    page = read_page(html.encode(), "text/html", "https://x.example/", 10_000)
    return needs_scripts(html, page.text)


@pytest.mark.parametrize(
    "html",
    [
        EMPTY + SCRIPT,
        "<html><body><script>document.write('x')</script></body></html>",
        f"<html><body><app-root></app-root>{WORDS}{SCRIPT}</body></html>",
        f"<html><body><DIV ID='root'> <!-- app --> </DIV>{WORDS}<SCRIPT>x()</SCRIPT></body></html>",
        f"<html><body>{WORDS}<noscript>You need to enable JavaScript to run this app."
        f"</noscript>{SCRIPT}</body></html>",
        f"<html><body>{WORDS}<noscript>This site requires JavaScript.</noscript>{SCRIPT}</body>",
        f"<html><body>{WORDS}<p>JavaScript is disabled in your browser.</p>{SCRIPT}</body></html>",
        f"<html><body>{WORDS}<p>请启用 JavaScript 后继续。</p>{SCRIPT}</body></html>",
        f"<html><body><p>Loading…</p>{SCRIPT}</body></html>",
    ],
)
def test_a_page_whose_text_is_made_by_scripts_is_told(html: str) -> None:
    assert read_need(html)


@pytest.mark.parametrize(
    "html",
    [
        "<html><body><p>short</p></body></html>",
        f"<html><body>{WORDS}{SCRIPT}</body></html>",
        f"<html><body>{ARTICLE}{SCRIPT}<noscript>Enable JavaScript for comments.</noscript></body>",
        f"<html><body>{ARTICLE}<div id='root'></div>{SCRIPT}</body></html>",
        f"<html><body>{WORDS}<div class='spacer'></div>{SCRIPT}</body></html>",
    ],
)
def test_a_page_that_has_its_text_is_read_as_it_is(html: str) -> None:
    assert not read_need(html)


@pytest.mark.parametrize("part", ["<div id=x ", "<div id=x><!--", "enable ", "<div>", " " * 9])
def test_a_page_made_to_be_slow_is_looked_at_quickly(part: str) -> None:
    needs_scripts("<script" + part * 200_000, "x" * 500)
