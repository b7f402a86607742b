"""Pages in the charsets that they name, in the sense in which browsers read these names."""

import pytest

from wieldy.tools.web.page_charset import decode_page

NAMED = [
    ("iso-8859-1", "cp1252", "“quotes”… €5"),
    ("us-ascii", "cp1252", "“quotes”… €5"),
    ("iso-8859-9", "cp1254", "“büyük” şey"),
    ("gb2312", "gb18030", "朱镕基鲸鱼𠀀"),
    ("x-gbk", "gbk", "鲸鱼"),
    ("big5", "big5hkscs", "鯨魚啲嘢"),
    ("shift_jis", "cp932", "①クジラ髙﨑"),
    ("ks_c_5601-1987", "cp949", "똠방각하"),
    ("windows-874", "cp874", "ปลาวาฬ"),
    ("x-cp1251", "cp1251", "Кит"),
    ("UTF-8", "utf-8-sig", "Größe 鲸"),
    ("iso-8859-8-i", "iso8859-8", "לויתן"),
]


@pytest.mark.parametrize(("name", "codec", "text"), NAMED, ids=[name for name, *_ in NAMED])
def test_the_server_or_the_page_names_the_charset(name: str, codec: str, text: str) -> None:
    html = f'<html><head><meta charset="{name}"></head>{text}'
    xhtml = f'<?xml version="1.0" encoding="{name}"?><html>{text}'

    assert decode_page(text.encode(codec), name) == text
    assert decode_page(html.encode(codec), None, is_html=True) == html
    assert decode_page(xhtml.encode(codec), None, is_html=True) == xhtml


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        (("鲸鱼" * 50).encode() + b"\xff", "utf-8", "鲸鱼" * 50 + "\ufffd"),
        (("鲸鱼" * 50).encode() + b"\xff", None, "鲸鱼" * 50 + "\ufffd"),
        ("鲸鱼".encode("utf-16"), "gbk", "鲸鱼"),
        ("\ufeffGröße".encode(), "iso-8859-1", "Größe"),
        ("Größe".encode(), "hex", "Größe"),
        ("Größe".encode(), "unicode_escape", "Größe"),
        (b"1 +AGEAYg-", "utf-7", "1 +AGEAYg-"),
        (b'<meta charset="utf-16">plain', None, '<meta charset="utf-16">plain'),
        (b"", None, ""),
    ],
    ids=[
        *("a wrong byte", "a wrong byte of no charset", "UTF-16 by its mark", "UTF-8 by its mark"),
        *("no charset", "escapes", "UTF-7", "UTF-16 that can't be", "nothing"),
    ],
)
def test_what_is_said_wrongly_does_no_harm(content: bytes, charset: str | None, text: str) -> None:
    assert decode_page(content, charset, is_html=True) == text
