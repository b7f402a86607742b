"""Pages that are made to keep their reader busy."""

import pytest

from tests.tools.web.test_web_tools import pdf
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
    page = read_page(pdf("One whale", "Two whales"), "application/pdf", ADDRESS, 1000, seconds=-1)

    assert (page.text, page.complete) == ("", False)
