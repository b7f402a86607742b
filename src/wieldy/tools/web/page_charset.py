"""Decode the bytes of a page as browsers do: by the charset that it names, or by their look.

A charset has the meaning that the Encoding Standard of the web gives to its name: pages that say
ISO-8859-1 are in Windows-1252, and those that say GB2312 are in GB18030.
"""

import codecs
import re
from collections.abc import Iterator

# Names of the web that Python does not know, or reads in a narrower sense.
_LABELS = {
    "dos-874": "cp874",
    "iso-8859-11": "cp874",
    "iso-8859-8-i": "iso8859-8",
    "ks_c_5601-1987": "cp949",
    "unicode-1-1-utf-8": "utf-8",
    "windows-874": "cp874",
    "x-euc-jp": "euc_jp",
    "x-gbk": "gb18030",
    "x-sjis": "cp932",
}
# Codecs of Python by their own names, and those that hold more characters and are meant.
_WIDER = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
    "utf-8": "utf-8-sig",
}
# Codecs of Python that are no charsets of pages. The first takes hours for ten megabytes.
_NO_CHARSETS = frozenset(("punycode", "idna", "unicode-escape", "raw-unicode-escape", "utf-7"))
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META = re.compile(
    rb"<(?:meta\b[^>]{0,300}?\bcharset|\?xml\b[^>]{0,100}?\bencoding)\s*=\s*[\"']?\s*([\w.:-]{1,40})",
    re.IGNORECASE,
)
_META_BYTES = 2048
_DETECTED_BYTES = 100_000
# One wrong character among so many is a mistake in the page. More are a sign of a wrong charset.
_LEAST_RIGHT = 50


def decode_page(content: bytes, charset: str | None, is_html: bool = False) -> str:
    """The text of a page.

    Args:
        content: Its bytes.
        charset: The charset that the server names.
        is_html: Whether the page itself may name one.
    """
    named = _META.search(content[:_META_BYTES]) if is_html else None
    inner = named[1].decode("ascii", "replace") if named else None
    for codec in _find_codecs(content, charset, inner):
        text = _decode_mostly(content, codec)
        if text is not None:
            return text
    try:
        from charset_normalizer import from_bytes  # noqa: PLC0415 - comes with the extra
    except ImportError:
        return content.decode("latin-1")
    best = from_bytes(content[:_DETECTED_BYTES]).best()
    return content.decode(best.encoding if best is not None else "latin-1", "replace")


def _find_codecs(content: bytes, charset: str | None, inner: str | None) -> Iterator[str]:
    """The codecs to try: of the mark at the beginning, of the server, of the page, and UTF-8."""
    yield from (codec for mark, codec in _MARKS if content.startswith(mark))
    if charset is not None:
        yield from _find_codec(charset)
    if inner is not None:
        # A page whose name of a charset could be read is not in UTF-16, whatever it says.
        yield from (each for each in _find_codec(inner) if not each.startswith("utf-16"))
    yield "utf-8-sig"


def _find_codec(label: str) -> tuple[str, ...]:
    """The codec that a name of the web means; none if there is no such charset."""
    name = label.lower()
    name = _LABELS.get(name, name.removeprefix("x-") if name.startswith("x-cp") else name)
    try:
        known = codecs.lookup(name).name
    except LookupError:
        return ()
    return () if known in _NO_CHARSETS else (_WIDER.get(known, known),)


def _decode_mostly(content: bytes, codec: str) -> str | None:
    """The text, with a sign for each of a few wrong bytes; None where too many are wrong."""
    try:
        text = content.decode(codec, "replace")
    except (LookupError, ValueError):
        return None
    wrong = text.count("\ufffd")
    return text if wrong * _LEAST_RIGHT <= len(text) else None
