"""What notebooks show of outcomes, boxes and pictures, and pictures of figures."""

import base64
from typing import Any

import pytest

from wieldy import Image, Text, Toolbox

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Figure:
    """What matplotlib's figures can do."""

    def savefig(self, file: Any, format: str) -> None:
        assert format == "png"
        file.write(PNG)


class Picture:
    """What shows itself in notebooks."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def _repr_png_(self) -> Any:
        if isinstance(self.shown, Exception):
            raise self.shown
        return self.shown

    def __repr__(self) -> str:
        return "a picture"


@pytest.mark.parametrize("value", [Figure(), Picture(PNG), Picture((PNG, {"width": 1}))])
def test_a_figure_becomes_a_picture(value: Any) -> None:
    outcome = _call(value)

    [block] = outcome.content
    assert isinstance(block, Image)
    assert block._repr_png_() == PNG


@pytest.mark.parametrize("kind", [list, tuple])
def test_figures_and_pictures_in_a_list_are_pictures(kind: type) -> None:
    outcome = _call(kind(["Two of them:", Figure(), Image(PNG), Picture(PNG), {"a": 1}]))

    assert outcome.content == (
        Text("Two of them:"),
        *[Image(PNG)] * 3,
        Text('{"a":1}'),
    )
    assert len(_call([Figure(), Figure()]).content) == 2


def test_one_picture_that_draws_nothing_spoils_no_list() -> None:
    outcome = _call([Figure(), Picture(ValueError("no"))])

    assert outcome.content == (Image(PNG), Text('"a picture"'))


@pytest.mark.parametrize("shown", [None, b"", 3, ValueError("no")])
def test_a_figure_that_draws_nothing_is_text(shown: Any) -> None:
    assert _call(Picture(shown)).text == '"a picture"'


def test_a_class_that_could_draw_is_no_picture() -> None:
    assert "Figure" in _call(Figure).text


def test_an_outcome_shows_text_as_text_and_pictures_as_pictures() -> None:
    hostile = "<script>alert(1)</script>\u202e"

    page = _call([Text(hostile), Image(PNG)])._repr_html_()

    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in page
    assert "<script>" not in page
    assert f'<img src="data:image/png;base64,{base64.b64encode(PNG).decode()}">' in page


@pytest.mark.parametrize(
    "picture",
    [
        Image('x"><script>alert(1)</script>', "image/png"),
        Image(PNG, 'image/png"><script>'),
        Image(PNG, "image/svg+xml"),
    ],
)
def test_a_picture_that_lies_about_itself_is_text(picture: Image) -> None:
    page = _call(picture)._repr_html_()

    assert "<img" not in page
    assert "<script>" not in page


def test_a_box_shows_its_tools() -> None:
    box = Toolbox()
    box.add(lambda: 1, "look", "<b>Look</b> around.\nThen go on.", permission="confirm")

    page = box._repr_html_()

    assert "<td>look</td><td>&lt;b&gt;Look&lt;/b&gt; around.</td><td>confirm</td>" in page


def test_a_picture_of_another_kind_is_not_shown_as_png() -> None:
    assert Image(PNG, "image/jpeg")._repr_png_() is None
    assert Image(PNG, "image/jpeg")._repr_jpeg_() == PNG


def _call(value: Any) -> Any:
    box = Toolbox()
    box.add(lambda: value, "show")
    return box.call_sync("show")
