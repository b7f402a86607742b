"""Compare URLs with patterns, as two standards read them.

Programs read a URL in two ways: browsers and many clients as WHATWG says, which is
`pydantic_core.Url` here, and others by the older RFC 3986, which is `urlsplit`. They
don't agree on backslashes, on `https:/host`, on numbers as hosts, and on more. A rule
that allows needs both readings to say the same, and matches nothing that has userinfo,
a backslash, or characters that can't be seen. A rule that restricts matches if either
reading does, or one of a text that has been cleaned of such characters; a URL of its
scheme that can't be read at all counts as a match.

In a pattern, `?` begins the query, and a pattern without one says nothing about it.
Fragments never count. A pattern without a port allows the scheme's own and restricts
all; one without a path allows the root of the host and restricts the whole host.
"""

import fnmatch
import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic_core import Url

from wieldy.core.network.addresses import embedded_addresses, read_spellings

from .path_match import PathPattern, StepPattern, path_spellings, resolve_steps, unescape_pattern

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
_WEB = frozenset(_PORTS)
# A scheme of one letter would be a drive letter.
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):")
_PATTERN_SCHEME = re.compile(
    r"([a-zA-Z*?\[][a-zA-Z0-9+.*?!\[\]-]*)://|(https?|wss?|ftp|file):", re.I
)
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*:[^\]]*\]|[^:]*)(?::(?P<port>[0-9]*|\*))?")
# Characters that every reader of a host treats alike.
_PLAIN_HOST = re.compile(r"(?!.*\.\.)[a-z0-9_][a-z0-9_.-]{0,252}|[0-9a-f:]*:[0-9a-f:.]*|")
_ROOTED = re.compile(_SCHEME.pattern + "/")
_ESCAPED_DOT = re.compile("%2e", re.I)
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_HOST = 253
# A pattern for addresses, as far as that can be seen from its beginning.
_ADDRESS_PATTERN = re.compile(
    r"\[?(?:[1-9][0-9]{0,2}\.|(?:[0-9*?]+\.){3}|[0-9a-f*?]*:)[0-9a-f.:*?]*\]?(?::[0-9*]+)?", re.I
)
_MAX_WRAPPINGS = 4


class _Reading(NamedTuple):
    scheme: str
    host: str
    port: int | None
    path: str
    query: str
    userinfo: bool

    @property
    def plain_host(self) -> str | None:
        """The host in its normal form, or None if it can be read in two ways."""
        if self.scheme == "file" and self.host == "localhost":
            return ""
        plain = _canonical_host(self.host.removesuffix("."))
        return plain if _PLAIN_HOST.fullmatch(plain) else None


class UrlPattern:
    """A URL with wildcards, as a rule has it.

    `bare` says that a rule which restricts also reads texts without a scheme.
    """

    __slots__ = ("_bare", "_file", "_host", "_path", "_port", "_query", "_scheme")

    def __init__(self, pattern: str, bare: bool = True) -> None:
        self._bare = bare
        found = _PATTERN_SCHEME.match(pattern)
        assert found is not None
        self._scheme = (found[1] or found[2]).lower()
        rest = pattern[found.end() :].replace("\\", "/").partition("#")[0]
        rest, asks, query = rest.partition("?")
        if self._scheme in _WEB or (found[1] is None and self._scheme != "file"):
            rest = rest.lstrip("/")
        elif found[1] is None:
            # `file:/etc` has no host, `file://host/etc` has one.
            rest = rest[2:] if rest.startswith("//") else rest
        authority, slash, path = rest.partition("/")
        self._host, self._port = _HostPattern.read(authority)
        if authority == "**" or (slash and not path):
            # `https://**` crosses from the host into the path.
            slash, path = "/", f"**/{path}" if path else "**"
        self._path = StepPattern(resolve_steps(unescape_pattern(path))) if slash else None
        self._query = _QueryPattern(unescape_pattern(query)) if asks else None
        self._file = PathPattern(f"/{path}") if self._scheme == "file" and slash else None

    def holds(self, text: str, restricts: bool) -> bool:
        """Whether the URL is meant, by any reading of it or by all."""
        if not restricts:
            return self._allows_url(text)
        if self._file is not None and self._file.holds(text, True):
            return True
        own = dict.fromkeys((text, *unwrapped(text)))
        if any(self._is_unreadable(each) for each in own):
            return True
        meant = dict.fromkeys((*own, *self._with_scheme(own)))
        readings = {reading for each in meant for reading in _read_url(each)}
        return any(self._reaches_reading(reading) for reading in readings)

    def _allows_url(self, text: str) -> bool:
        if "\\" in text or not text.isprintable() or text != text.strip():
            return False
        whatwg, split = _read_whatwg(text), _read_split(text)
        if whatwg is None or split is None:
            return False
        host = whatwg.plain_host
        wanted = _PORTS.get(whatwg.scheme) if self._port is None else self._port
        return (
            (whatwg.scheme, whatwg.port, host) == (split.scheme, split.port, split.plain_host)
            and host is not None
            and wanted in ("*", whatwg.port)
            and self._means_scheme(whatwg.scheme)
            and self._host.allows(host)
            and all(self._leads_on(reading) for reading in (whatwg, split))
        )

    def _leads_on(self, reading: _Reading) -> bool:
        """Whether a rule that allows matches path and query, in every spelling."""
        if reading.userinfo or (reading.path and not reading.path.startswith("/")):
            return False
        paths = _path_readings(reading.path, restricts=False)
        if not all(_is_plain(step) for steps in paths for step in steps):
            return False
        there = self._path.holds(paths, False) if self._path else paths == [[""]] * len(paths)
        return there and (self._query is None or self._query.allows(reading.query))

    def _is_unreadable(self, text: str) -> bool:
        """Whether the URL has the rule's scheme and a host that can't be read."""
        found = _SCHEME.match(text)
        if (
            found is None
            or text[found.end() :][:1] != "/"
            or not self._means_scheme(found[1].lower())
        ):
            return False
        return _read_whatwg(text) is None

    def _reaches_reading(self, reading: _Reading) -> bool:
        """Whether a rule that restricts matches this reading."""
        schemes = {reading.scheme, *reading.scheme.split("+")}
        return (
            any(self._means_scheme(scheme) for scheme in schemes)
            and (self._port in (None, "*", reading.port) or reading.port is None)
            and (self._scheme == "file" or self._host.restricts(reading.host))
            and self._path_reaches(reading.path)
            and (self._query is None or self._query.restricts(reading.query))
        )

    def _path_reaches(self, path: str) -> bool:
        if self._path is None:
            return True
        return self._path.holds(_path_readings(path, restricts=True), True)

    def _means_scheme(self, scheme: str) -> bool:
        return fnmatch.fnmatchcase(scheme, self._scheme)

    def _with_scheme(self, texts: Iterable[str]) -> Iterator[str]:
        """The URLs that a text without a scheme may mean, if a tool adds the usual scheme."""
        usual = "https" if _has_wildcard(self._scheme) else self._scheme
        for text in texts:
            if text.startswith("//"):
                yield f"{usual}:{text}"
            elif self._bare and not self._host.wild and _ROOTED.match(text) is None:
                yield f"{usual}://{text}"
                yield from address_urls(text, usual)


class _HostPattern:
    """A host, or a host with wildcards."""

    __slots__ = ("_match", "_names", "_plain", "wild")

    def __init__(self, host: str) -> None:
        literal = not _has_wildcard(host) or _read_address(host) is not None
        self._names = _host_names(host) if literal else set()
        self._plain = _canonical_host(host.rstrip("."))
        labels = (
            each if _has_wildcard(each) else _canonical_host(each) for each in host.split(".")
        )
        self._match = None if literal else re.compile(fnmatch.translate(".".join(labels).lower()))
        # A pattern of wildcards alone matches every host.
        self.wild = not host.strip("*?.")

    @classmethod
    def read(cls, authority: str) -> tuple["_HostPattern", "int | str | None"]:
        """The host of a pattern, and its port: a number, `*`, or None if none is said."""
        found = _AUTHORITY.fullmatch(authority.rpartition("@")[2])
        if found is None:
            return cls(authority), None
        port = found["port"] or None
        return cls(found["host"]), int(port) if port and port != "*" else port

    def allows(self, host: str) -> bool:
        """Whether this one host is meant, given as both readings have it."""
        if self._match is not None:
            return host != "" and self._match.match(host) is not None
        # An address that the pattern's contains is not the one that is written there.
        return host == self._plain or (_read_address(self._plain) is None and host in self._names)

    def restricts(self, host: str) -> bool:
        """Whether this host may be the one that is meant."""
        names = _host_names(host)
        if self._match is not None:
            return any(self._match.match(name) for name in names)
        return not self._names.isdisjoint(names)


class _QueryPattern:
    """A query, part by part: `*` stays within one, `**` stands for any number of them."""

    __slots__ = ("_parts", "_single")

    def __init__(self, query: str) -> None:
        parts = query.split("&")
        self._parts = StepPattern([parts])
        self._single = [StepPattern([[part]]) for part in parts if part != "**"]

    def allows(self, query: str) -> bool:
        """Whether the parts are those that are meant, in their order."""
        return self._parts.holds([form.split("&") for form in _query_forms(query)], False)

    def restricts(self, query: str) -> bool:
        """Whether each part that is meant is somewhere."""
        found = [[part] for form in _query_forms(query) for part in re.split("[&;]", form)]
        return all(part.holds(found, True) for part in self._single)


def is_url_pattern(pattern: str) -> bool:
    """Whether a pattern is for URLs, and not for paths or other texts."""
    return _PATTERN_SCHEME.match(pattern) is not None


def looks_like_url(text: str) -> bool:
    """Whether some tool would take a text for a URL, and not for a path."""
    for each in unwrapped(text) if ":" in text else ():
        found = _SCHEME.match(each)
        if found is not None:
            known = found[1].lower() in (*_PORTS, "file", "data", "javascript")
            return known or each[found.end() :][:1] == "/"
    return False


def names_host(text: str) -> bool:
    """Whether a text clearly begins with a host or a scheme."""
    slashes = "/" in text or "\\" in text
    return looks_like_url(text) or (slashes and next(unwrapped(text)).startswith("//"))


def is_address_pattern(pattern: str) -> bool:
    """Whether a pattern may be for the addresses of hosts."""
    return _ADDRESS_PATTERN.fullmatch(pattern.partition("/")[0]) is not None


def address_urls(text: str, scheme: str = "http") -> Iterator[str]:
    """The URLs that a text without a scheme may mean, if it begins with an address."""
    host, slash, rest = next(unwrapped(text)).partition("/")
    named = _AUTHORITY.fullmatch(host)
    for each in dict.fromkeys((host, host if named is None else named["host"])):
        for address in read_spellings(each):
            shown = address if address.version == 4 else f"[{address}]"
            yield f"{scheme}://{shown}{slash}{rest}"


def file_paths(text: str) -> Iterator[str]:
    """The paths that a `file:` URL may stand for."""
    for each in unwrapped(text) if ":" in text else ():
        for reading in _read_url(each):
            if "file" in reading.scheme.split("+"):
                yield reading.path


def plain_texts(text: str) -> Iterator[str]:
    """A text, and if it is a URL, the forms that it has when it is normalised."""
    yield text
    if ":" not in text:
        return
    for each in unwrapped(text):
        if _SCHEME.match(each) is not None:
            yield each
            try:
                normal = str(Url(each))
            except ValueError:
                continue
            yield normal
            yield unquote(normal)


def unwrapped(text: str) -> Iterator[str]:
    """A text without invisible characters and wrappers, and with its backslashes turned.

    Wrappers are prefixes of a URL such as `URL:`, `view-source:` and `jar:`.
    """
    text = _UNSEEN.sub("", text).strip().strip("<>").strip().replace("\\", "/")
    yield text
    for _ in range(_MAX_WRAPPINGS):
        found = _SCHEME.match(text)
        if found is None or _SCHEME.match(text, found.end()) is None:
            return
        text = text[found.end() :]
        yield text


def _read_url(text: str) -> Iterator[_Reading]:
    for reading in (_read_whatwg(text), _read_split(text)):
        if reading is not None:
            yield reading


def _read_whatwg(text: str) -> _Reading | None:
    try:
        url = Url(text)
    except ValueError:
        return None
    userinfo = url.username is not None or url.password is not None
    host = (url.host or "").lower()
    return _Reading(url.scheme, host, url.port, url.path or "", url.query or "", userinfo)


def _read_split(text: str) -> _Reading | None:
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError:
        return None
    try:
        port = _PORTS.get(parts.scheme) if parts.port is None else parts.port
    except ValueError:
        port = None
    return _Reading(parts.scheme, host, port, parts.path, parts.query, userinfo="@" in parts.netloc)


def _path_readings(path: str, restricts: bool) -> list[list[str]]:
    """The steps of a path, unescaped after splitting, as servers should do, and before it."""
    split_first = resolve_steps(_ESCAPED_DOT.sub(".", path))
    unescaped = [[unquote(step) for step in steps] for steps in split_first]
    others = path_spellings(path, restricts) - {path}
    return [*unescaped, *(steps for form in others for steps in resolve_steps(form))]


def _is_plain(step: str) -> bool:
    """Whether nothing in a step can be read in two ways."""
    return step.isprintable() and "\\" not in step and "\ufffd" not in step


def _canonical_host(host: str) -> str:
    address = _read_address(host)
    if address is not None:
        return address.compressed
    if host.isascii() or len(host) > _MAX_HOST:
        return host.lower()
    try:
        return host.encode("idna").decode().lower()
    except UnicodeError:
        return host.lower()


def _host_names(host: str) -> set[str]:
    """The names and addresses that a host may stand for."""
    whatwg = _read_whatwg(f"http://{host}/")
    written = {host, unquote(host), "" if whatwg is None else whatwg.host}
    names = {_canonical_host(each.strip().rstrip(".")) for each in written} - {""}
    for name in list(names):
        names.update(each.compressed for each in embedded_addresses(_read_address(name)))
    return names or {""}


def _read_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _query_forms(query: str) -> set[str]:
    return {query, *path_spellings(query, restricts=False), query.replace("+", " ")}


def _has_wildcard(text: str) -> bool:
    return any(mark in text for mark in "*?[")
