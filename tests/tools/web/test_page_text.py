"""Pages that are made to keep their reader busy, and pages that are hardly any."""

import io

import pytest
from pypdf import PdfWriter

from tests.tools.web.hostile_pdf import plain_pdf
from wieldy.core.errors import ServiceError
from wieldy.tools.web.page_text import read_page

ADDRESS = "https://x.example/"
PATTERNS = {"plain": "a{n}=1 ", "quoted": "a{n}='>' ", "with odd names": 'a{n}"=">" '}


@pytest.mark.parametrize("kind", PATTERNS)
@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
def test_a_tag_with_very_many_attributes_is_read_without_them(kind: str, charset: str) -> None:
    attributes = "".join(PATTERNS[kind].replace("{n}", str(n)) for n in range(30_000))
    html = f"<html><body><div {attributes}><p>One whale</p></div></body></html>"

    page = read_page(html.encode(charset), "text/html", ADDRESS, 1000)

    assert page.text == "One whale"


def test_of_a_page_with_very_many_tags_the_first_are_read() -> None:
    html = f"<html><body><p>One whale</p><p>{'<i>' * 60_000}</p><p>Two whales</p></body></html>"

    page = read_page(html.encode(), "text/html", ADDRESS, 1000)

    assert (page.text, page.complete) == ("One whale", False)


def test_a_pdf_document_is_read_as_far_as_its_time_goes() -> None:
    page = read_page(plain_pdf("One whale", "Two whales"), "application/pdf", ADDRESS, 1000, end=0)

    assert (page.text, page.complete) == ("", False)


def test_a_charset_that_takes_longer_than_in_proportion_is_not_used() -> None:
    # Python's own codec would take an hour for it.
    page = read_page(b"a-" + b"9a" * 4_000_000, "text/plain; charset=punycode", ADDRESS, 4)

    assert page.text == "a-9a"


def test_no_facts_are_looked_for_in_scripts() -> None:
    # The library that reads pages would take a quarter of an hour for these.
    facts = '"author":{"@type":"Person",' * 30_000
    html = f'<html><p>One whale</p><script type="application/ld+json">{facts}</script></html>'

    assert read_page(html.encode(), "text/html", ADDRESS, 1000).text == "One whale"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<!-- <script> -->One whale<!-- -->, and more", "One whale, and more"),
        ("<!-->One whale<!---> and more<!-- -->", "One whale and more"),
        ("<script src='x'/>One whale<style></style>", "One whale"),
        ("One whale<script>'<p>no</p>'</script >", "One whale"),
        ("One whale<script>'<p>no</p>'", "One whale"),
        ("One <b title='<script>'>whale</b>", "One **whale**"),
        ("<STYLE>p {}</STYLE>One whale", "One whale"),
    ],
)
def test_scripts_and_comments_are_left_out_and_nothing_else(html: str, text: str) -> None:
    page = f"<html><body><p>{html}</p></body></html>"

    assert read_page(page.encode(), "text/html", ADDRESS, 1000).text == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h1>One whale</h1>", "# One whale"),
        ("<p>One whale</p>", "One whale"),
        ("One <b>whale</b>", "One **whale**"),
        ("<ul><li>One whale<li>Two whales</ul>", "- One whale\n- Two whales"),
        ("<body>One whale</body>", "One whale"),
        ("<!doctype html><p>One whale", "One whale"),
    ],
)
def test_a_page_without_its_outer_tags_is_read(html: str, text: str) -> None:
    assert read_page(html.encode(), "text/html", ADDRESS, 1000).text == text


def test_a_document_that_breaks_its_reader_is_an_error_of_its_own() -> None:
    broken = plain_pdf("One whale").replace(b"stream", b"/Filter/NoSuchFilter>>stream", 1)
    broken = broken.replace(b">>\n/Filter", b"\n/Filter")

    with pytest.raises(ServiceError, match="document can't be read: Unsupported filter"):
        read_page(broken, "application/pdf", ADDRESS, 1000)


def test_a_title_is_no_way_around_the_limit() -> None:
    html = f"<html><head><title>{'One whale ' * 1000}</title></head><body>x</body></html>"
    writer, held = PdfWriter(), io.BytesIO()
    writer.add_metadata({"/Title": "One whale " * 1000})
    writer.write(held)

    for content, kind in ((html.encode(), "text/html"), (held.getvalue(), "application/pdf")):
        title = read_page(content, kind, ADDRESS, 10).title
        assert title.startswith("One whale One")
        assert len(title) < 301
