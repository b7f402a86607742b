"""PDF documents for tests: plain ones, and one of a few kilobytes that takes minutes to read."""

import io
from collections.abc import Sequence

from pypdf import PageObject, PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    PdfObject,
    StreamObject,
)

_LEVELS, _COPIES, _WORDS = 7, 30, 2_000


def plain_pdf(*texts: str) -> bytes:
    """A document with one line of text on each page."""
    return _write(texts)


def hostile_pdf(*texts: str) -> bytes:
    """A document with such pages, and one that shows a picture of pictures of pictures of words."""
    return _write(texts, ends_hostile=True)


def _write(texts: Sequence[str], ends_hostile: bool = False) -> bytes:
    writer = PdfWriter()
    for text in texts:
        _fill(writer, writer.add_blank_page(300, 300), f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET")
    if ends_hostile:
        inner = None
        for _ in range(_LEVELS):
            inner = writer._add_object(_make_picture(writer, inner))
        _fill(writer, writer.add_blank_page(300, 300), "/X Do " * _COPIES, inner)
    held = io.BytesIO()
    writer.write(held)
    return held.getvalue()


def _fill(writer: PdfWriter, page: PageObject, text: str, inner: PdfObject | None = None) -> None:
    page[NameObject("/Resources")] = _name_resources(writer, inner)
    page[NameObject("/Contents")] = writer._add_object(_hold(text))


def _make_picture(writer: PdfWriter, inner: PdfObject | None) -> StreamObject:
    words = "BT /F1 1 Tf (a) Tj ET\n" * _WORDS
    picture = _hold(words if inner is None else "/X Do " * _COPIES).flate_encode()
    picture[NameObject("/Type")] = NameObject("/XObject")
    picture[NameObject("/Subtype")] = NameObject("/Form")
    picture[NameObject("/BBox")] = ArrayObject([NumberObject(0)] * 4)
    picture[NameObject("/Resources")] = _name_resources(writer, inner)
    return picture


def _hold(text: str) -> DecodedStreamObject:
    stream = DecodedStreamObject()
    stream.set_data(text.encode())
    return stream


def _name_resources(writer: PdfWriter, inner: PdfObject | None) -> DictionaryObject:
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
    named = DictionaryObject({NameObject("/Font"): fonts})
    if inner is not None:
        named[NameObject("/XObject")] = DictionaryObject({NameObject("/X"): inner})
    return named
