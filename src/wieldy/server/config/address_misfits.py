"""Find addresses, names and header lines in a gateway's file that can never work."""

import ipaddress
import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from wieldy.mcp.serving.access import is_loopback
from wieldy.store.databases.database import parse_address

from .gateway_file import AccessTable, GatewayFile, ListenTable, ServerTable
from .key_lines import KeyPath

Misfit = tuple[KeyPath, str]
_VARIABLE = "${"
_HOST = re.compile(r"\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_ORIGIN = re.compile(r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_URL_TYPES = ("http", "streamable-http", "sse")


def find_bad_addresses(read: GatewayFile) -> Iterator[Misfit]:
    """The addresses of the file that nobody can reach, listen on, or come from."""
    try:
        parse_address(read.store, "full")
    except (ValueError, ImportError) as error:
        yield ("store",), f"{error}."
    yield from _find_bad_listen(read.listen, read.access)
    for name, server in read.servers.items():
        place: KeyPath = ("servers", name)
        yield from (((*place, *path), said) for path, said in _find_bad_server(server))
    oauth = read.access.oauth
    for key in ("issuer", "audience", "jwks_uri"):
        given = None if oauth is None else getattr(oauth, key)
        if given is not None and not _is_web_address(given):
            yield ("access", "oauth", key), "is an address that begins with https:// and a host."
        elif given is not None and key != "jwks_uri" and ("#" in given or "?" in given):
            yield ("access", "oauth", key), "is an address without # and ?."


def _find_bad_listen(listen: ListenTable, access: AccessTable) -> Iterator[Misfit]:
    known = access.tokens or access.anonymous or access.oauth is not None
    if (not _is_network(listen.host) and not _is_host(listen.host)) or "*" in listen.host:
        yield ("listen", "host"), "is an address such as 127.0.0.1, or the name of a host."
    elif not known and not is_loopback(listen.host):
        yield (
            ("listen", "host"),
            "other machines can reach it, so every caller needs a token. Write tokens = true "
            "below [access], and make tokens with `wieldy token make NAME`.",
        )
    checks: list[tuple[str, list[str], Callable[[str], bool], str]] = [
        ("hosts", listen.hosts, _is_host, "is a name without https://, port or path."),
        ("origins", listen.origins, _is_origin, "is written like https://app.example.com."),
        (
            "trusted_proxies",
            listen.trusted_proxies,
            _is_network,
            "is an address or a network, such as 127.0.0.1 or 10.0.0.0/8.",
        ),
    ]
    for key, given, fits, said in checks:
        for number, each in enumerate(given):
            if not fits(each):
                yield ("listen", key, number), said


def _find_bad_server(server: ServerTable) -> Iterator[Misfit]:
    if server.url is not None and _VARIABLE not in server.url and not _is_web_address(server.url):
        yield ("url",), "is an address that begins with https:// or http:// and a host."
    if server.url is not None and server.type == "stdio":
        yield ("type",), "is for a server with a command."
    if server.command is not None and server.type in _URL_TYPES:
        yield ("type",), "is for a server with a url."
    for name, text in server.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _fits_header(text):
            yield ("headers", name), "is no header: names and values are plain ASCII in one line."
    for name in server.env:
        if not name or "=" in name:
            yield ("env", name), "is no name of a variable."


def _fits_header(text: str) -> bool:
    # A placeholder may have any characters, because the variable's value replaces it.
    return _VARIABLE in text or (text.isascii() and text.isprintable())


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None


def _is_origin(text: str) -> bool:
    return _ORIGIN.fullmatch(text) is not None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return text == "*"
    return True
