"""Compare an argument that is written as text with a pattern: a name, a path, a URL."""

import fnmatch
import re
from typing import Any

from .conditions import Match
from .path_match import PathPattern
from .url_match import (
    UrlPattern,
    address_urls,
    file_paths,
    is_address_pattern,
    is_url_pattern,
    looks_like_url,
    names_host,
    plain_texts,
)

_OPAQUE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")


def compile_text_matcher(matcher: str | re.Pattern[str]) -> Match:
    """A function of a reading and of whether the rule restricts."""
    if isinstance(matcher, re.Pattern):
        return _expression_matcher(matcher)
    if is_url_pattern(matcher):
        return _url_matcher(matcher)
    return _path_matcher(matcher) if "/" in matcher else _glob_matcher(matcher)


def _text_of(value: Any) -> str | None:
    """The text of a value that is written as text: a path, a URL, a date, an id."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return None if value is None or isinstance(value, int | float) else str(value)


def _without_text(value: Any) -> bool | None:
    """Whether a value that has no text matches: nothing does not, a number can't be compared."""
    return False if value is None else None


def _names_address(text: str, hosts: UrlPattern) -> bool:
    """Whether a text without a scheme begins with an address that is meant, however written."""
    return any(hosts.holds(url, True) for url in address_urls(text))


def _glob_matcher(pattern: str) -> Match:
    """A pattern for the whole text; one that restricts also means the host of a URL."""
    match = re.compile(fnmatch.translate(pattern)).match
    host = UrlPattern(f"*://{pattern}", bare=False)
    by_address = is_address_pattern(pattern)

    def matches(value: Any, restricts: bool) -> bool | None:
        text = value if type(value) is str else _text_of(value)
        if text is None:
            return _without_text(value)
        if match(text):
            return True
        if restricts and by_address and _names_address(text, host):
            return True
        # Most texts are not URLs, and need no further comparison.
        if not restricts or not (":" in text or "/" in text or "\\" in text):
            return False
        return any(match(each) for each in plain_texts(text)) or (
            names_host(text) and host.holds(text, True)
        )

    return matches


def _expression_matcher(expression: re.Pattern[str]) -> Match:
    """A rule that restricts looks for the expression anywhere; one that allows wants all of it."""

    def matches(value: Any, restricts: bool) -> bool | None:
        text = _text_of(value)
        if text is None:
            return _without_text(value)
        if not restricts:
            return expression.fullmatch(text) is not None
        return any(expression.search(each) for each in plain_texts(text))

    return matches


def _url_matcher(pattern: str) -> Match:
    wanted = UrlPattern(pattern)

    def matches(value: Any, restricts: bool) -> bool | None:
        text = _text_of(value)
        return _without_text(value) if text is None else wanted.holds(text, restricts)

    return matches


def _path_matcher(pattern: str) -> Match:
    """A pattern for paths; one that restricts also means `file:` URLs, and a host with its path."""
    wanted = PathPattern(pattern)
    opaque = _OPAQUE.match(pattern) is not None
    hosts = UrlPattern(f"*://{pattern}", bare=False) if pattern[:1] not in "/~." else None
    by_address = hosts is not None and is_address_pattern(pattern)

    def restricts_path(text: str) -> bool:
        return (
            any(wanted.holds(each, True) for each in (plain_texts(text) if opaque else [text]))
            or any(wanted.holds(path, True) for path in file_paths(text))
            or (hosts is not None and names_host(text) and hosts.holds(text, True))
            or (hosts is not None and by_address and _names_address(text, hosts))
        )

    def matches(value: Any, restricts: bool) -> bool | None:
        text = _text_of(value)
        if text is None:
            return _without_text(value)
        if restricts:
            return restricts_path(text)
        # A pattern for paths must not allow a URL that looks like a path.
        return wanted.holds(text, False) and (opaque or not looks_like_url(text))

    return matches
