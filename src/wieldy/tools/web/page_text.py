"""Turn a downloaded document into text for a model: HTML, PDF, JSON and plain text."""

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO

from wieldy.core.bounded_json import dump_json, parse_json
from wieldy.core.errors import ServiceError

from .page_charset import decode_page

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.ASCII | re.IGNORECASE)
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("application/xml", "application/javascript", "application/yaml", "application/x-yaml")
_JSON = ("application/json", "text/json", "application/x-ndjson")
_PDF = ("application/pdf", "application/x-pdf")
# What a site says of a file whose kind it does not know.
_ANY = ("", "application/octet-stream", "binary/octet-stream", "application/download")
# How much is looked at to tell what something without a content type is.
_GLANCE = 1000
_MAX_TITLE = 300
_MAX_PAGES = 1000
_MAX_HTML = 1_000_000
# Reading takes longer than in proportion to the tags of a page and to the attributes of a tag.
_MAX_TAGS = 25_000
_MAX_TAG = 10_000
_FEW_TAGS = 2_000
# A comment's beginning, or a tag with its attributes, as browsers and libxml2 read it. No letter
# is looked at twice.
_TAG = re.compile(
    r"<!--|<[a-z][^\s/>]*+"
    r"(?:[\s/]++|[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|(?![\"'])[^\s>]*+))?)*",
    re.IGNORECASE,
)
_ROOT = re.compile(r"<html\b", re.IGNORECASE)
_TAG_NAME = re.compile(r"<!--|<[a-z][a-z0-9-]{0,30}", re.IGNORECASE)
# Elements without text of the page, and their ends. They are removed, because the time that a
# library spends in scripts grows faster than their length.
_UNREAD = {
    "<!--": re.compile("-->"),
    "<script": re.compile(r"</script\b[^>]*+>?+", re.IGNORECASE),
    "<style": re.compile(r"</style\b[^>]*+>?+", re.IGNORECASE),
}
OnPart = Callable[[str, str], None]
_MISSING = 'Reading {kind} needs the extra `web`: pip install "wieldy[web]"'


@dataclass(frozen=True, slots=True)
class PageText:
    """A page that was read: its title, its text, and whether there would be more."""

    title: str
    text: str
    kind: str
    complete: bool = True


def is_pdf(content: bytes, content_type: str) -> bool:
    """Whether a document is read page by page."""
    return _find_kind(content, content_type) in _PDF


def read_page(
    content: bytes,
    content_type: str,
    url: str,
    most: int,
    end: float = math.inf,
    on_part: OnPart | None = None,
) -> PageText:
    """The text of a page, up to `most` characters.

    Args:
        content: The page.
        content_type: What its site says that it is.
        url: Its address.
        most: How many characters are wanted.
        end: The `time.monotonic()` after which no further page of a PDF document is read.
        on_part: Gets the title and the text of each page of a PDF document when it is read.

    Raises:
        ServiceError: It is not something that can be read as text.
    """
    charset = _split_type(content_type)[1]
    kind = _find_kind(content, content_type)
    read = partial(_read_pdf, end=end, on_part=on_part) if kind in _PDF else _find_reader(kind)
    if read is None:
        size = f"{len(content):,} bytes"
        raise ServiceError(f"it is {kind or 'data of an unknown kind'} ({size}), which has no text")
    try:
        page = read(content, charset, url, most)
    except ServiceError:
        raise
    except RecursionError as error:
        # The readers of documents are not ours, and end where the stack does.
        raise ServiceError(f"the {kind} document is nested too deeply to be read") from error
    except Exception as error:
        # A broken document breaks the libraries that read it in many ways.
        said = str(error)[:200] or type(error).__name__
        raise ServiceError(f"the {kind} document can't be read: {said}") from error
    complete = page.complete and len(page.text) <= most
    return PageText(_shorten_title(page.title), page.text[:most], page.kind, complete)


_Reader = Callable[[bytes, str | None, str, int], PageText]


def _find_reader(kind: str) -> _Reader | None:
    if kind in _HTML:
        return _read_html
    if kind in _JSON or kind.endswith("+json"):
        return _read_json
    if kind.startswith("text/") or kind in _TEXT or kind.endswith("+xml"):
        return _read_text
    return None


def _split_type(content_type: str) -> tuple[str, str | None]:
    kind = content_type.partition(";")[0].strip().lower()
    found = _CHARSET.search(content_type)
    return kind, found[1] if found else None


def _find_kind(content: bytes, content_type: str) -> str:
    kind = _split_type(content_type)[0]
    guessed = _guess_kind(content) if kind in _ANY else kind
    # A file of an unknown kind may be anything; that it is text is only taken from its site.
    return guessed if guessed in _PDF else kind or guessed


def _shorten_title(title: str) -> str:
    return " ".join(title[:_MAX_TITLE].split())


def _guess_kind(content: bytes) -> str:
    head = content[:_GLANCE].lstrip().lower()
    if head.startswith(b"%pdf-"):
        return "application/pdf"
    if head.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    return "" if b"\0" in head else "text/plain"


def _read_html(content: bytes, charset: str | None, url: str, most: int) -> PageText:
    try:
        import trafilatura  # noqa: PLC0415 - an extra, and heavy
    except ImportError as error:
        raise ServiceError(_MISSING.format(kind="web pages")) from error
    whole = decode_page(content, charset, is_html=True)
    # Finding the main content of a large page takes minutes.
    source, tags = _limit_tags(whole[:_MAX_HTML])
    if not _ROOT.search(source):
        # HTML may leave its outer tags out. Without them trafilatura finds no page in it.
        source = f"<!doctype html><html>{source}"
    about = trafilatura.extract_metadata(source, default_url=url)
    text = trafilatura.extract(
        source,
        url=url,
        output_format="markdown",
        include_links=True,
        include_formatting=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
        # The time of its other ways to find the content grows with the square of the tags.
        fast=tags > _FEW_TAGS,
    )
    if not text or not text.strip():
        # Nothing on it looks like an article: all of its text is better than none.
        text = trafilatura.html2txt(source) or ""
    complete = tags <= _MAX_TAGS and len(whole) <= _MAX_HTML
    return PageText((about and about.title) or "", text.strip(), "html", complete)


def _limit_tags(source: str) -> tuple[str, int]:
    """A page without comments, scripts and the attributes of huge tags, and its number of tags.

    Of a page with more tags than are read, the part before these.
    """
    parts: list[str] = []
    at = place = count = 0
    while count < _MAX_TAGS and (tag := _TAG.search(source, place)) is not None:
        named = _TAG_NAME.match(tag[0])
        name = named[0].lower() if named else "<div"
        place = tag.end()
        if name in _UNREAD:
            # In XHTML such a tag can be its own end, and in HTML `<!-->` is.
            own = name != "<!--" and tag[0].endswith("/")
            end = None if own else _UNREAD[name].search(source, place - 2)
            parts.append(source[at : tag.start()])
            at = place = place + 1 if own else len(source) if end is None else end.end()
        elif place - tag.start() > _MAX_TAG:
            parts += [source[at : tag.start()], name]
            at = place
        count += name != "<!--"
    last = _TAG.search(source, place) if count == _MAX_TAGS else None
    rest = source[at:] if last is None else source[at : last.start()]
    return "".join([*parts, rest]), count + (last is not None)


def _read_pdf(
    content: bytes, charset: str | None, url: str, most: int, end: float, on_part: OnPart | None
) -> PageText:
    try:
        from pypdf import PdfReader  # noqa: PLC0415 - an extra, and heavy
    except ImportError as error:
        raise ServiceError(_MISSING.format(kind="PDF documents")) from error
    document = PdfReader(BytesIO(content))
    if document.is_encrypted and not document.decrypt(""):
        raise ServiceError("the PDF document is encrypted, and nobody has its password here")
    title = _shorten_title(str((document.metadata and document.metadata.title) or ""))
    parts: list[str] = []
    size = 0
    for number, page in enumerate(document.pages, start=1):
        if size > most or number > _MAX_PAGES or time.monotonic() > end:
            return PageText(title, "\n\n".join(parts), "pdf", complete=False)
        parts.append(f"[page {number}]\n{(page.extract_text() or '').strip()}")
        size += len(parts[-1])
        if on_part is not None:
            on_part(title, parts[-1][:most])
    return PageText(title, "\n\n".join(parts), "pdf")


def _read_json(content: bytes, charset: str | None, url: str, most: int) -> PageText:
    text = decode_page(content, charset)
    try:
        # Such as it is where indenting it would only make it longer than what is shown.
        shown = (
            text if len(text) > most else dump_json(parse_json(text), indent=2, ensure_ascii=False)
        )
    except ValueError:
        shown = text
    return PageText("", shown, "json")


def _read_text(content: bytes, charset: str | None, url: str, most: int) -> PageText:
    return PageText("", decode_page(content, charset), "text")
