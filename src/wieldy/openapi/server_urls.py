"""Choose the address of an API, and decide whether secrets may be sent there."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from wieldy.core.errors import DocumentError
from wieldy.core.network.http_client import Client, url_origin

from .document import Document, Node
from .operation import Operation

_VARIABLE = re.compile(r"\{([^{}]*)\}")


class ServerUrls:
    """The address for requests: `base_url` if one was given, else a server of the document.

    A document is untrusted, so its influence is limited. Secrets go only to `base_url` or to
    the document's first server. A document that was fetched can't send them to another origin
    than its own, and can't point to this machine or its network.
    """

    def __init__(
        self,
        document: Document,
        base_url: str | None,
        has_secrets: bool,
        client: Client | None = None,
    ) -> None:
        self._document = document
        self._client = client or Client()
        self._base = None if base_url is None else _given_base(document, base_url)
        self._has_secrets = has_secrets
        self._main = self._base or self._named_server(Node(document.root, document.address)) or ""
        if self._base is not None:
            self._client.allow(self._base)
        elif document.address[:4] == "http":
            self._check_origin(self._main)

    def address(self, operation: Operation) -> str:
        """The address to which an operation's path is appended."""
        if self._base is not None:
            return self._base
        found = (
            self._named_server(operation.node) or self._named_server(operation.item) or self._main
        )
        if url_origin(found)[:4] != "http":
            raise DocumentError(
                self._document.shown, 'it does not say where its API is. Pass base_url="https://…".'
            )
        if found != self._main:
            self._check_other(operation, found)
        if self._leads_near:
            self._client.allow(found)
        return found.rstrip("/")

    @property
    def _leads_near(self) -> bool:
        """Whether the document may name a local server: it is the user's file, or itself local."""
        fetched = self._document.address[:4] == "http"
        return not fetched or self._client.is_near(self._document.asked)

    def _named_server(self, holder: Node) -> str | None:
        servers = holder.get("servers")
        first = servers[0] if isinstance(servers, list) and servers else None
        if first is None and holder.value is self._document.root:
            first = {"url": "/"}
        if not isinstance(first, Mapping) or not isinstance(first.get("url"), str):
            return None
        written = self._fill_variables(first["url"], first.get("variables"))
        try:
            parts = urlsplit(urljoin(self._document.address, written))
        except ValueError:
            return None
        host = parts.netloc.rpartition("@")[2]
        whole = f"{parts.scheme}://{host}{parts.path}"
        return whole if url_origin(whole) else None

    def _fill_variables(self, url: str, variables: Any) -> str:
        def default(found: re.Match[str]) -> str:
            known = variables.get(found[1]) if isinstance(variables, Mapping) else None
            value = known.get("default") if isinstance(known, Mapping) else None
            return found[0] if value is None else str(value)

        return _VARIABLE.sub(default, url)

    def _check_origin(self, url: str) -> None:
        own, there = url_origin(self._document.asked), url_origin(url)
        if not there or own == there:
            return
        if self._has_secrets:
            self._refuse_server(f"the credentials would go to {there}", url)
        if self._client.is_near(url) and not self._leads_near:
            self._refuse_server(f"its server is {there}, on this machine or its network", url)

    def _check_other(self, operation: Operation, url: str) -> None:
        there = url_origin(url)
        if there != url_origin(self._main) and self._has_secrets:
            self._refuse_server(f"the credentials for {operation.title} would go to {there}", url)
        if self._document.address[:4] == "http":
            self._check_origin(url)

    def _refuse_server(self, what: str, url: str) -> None:
        raise DocumentError(
            self._document.shown,
            f"{what}, which is not where it came from or what it names first. "
            f"If that is right, pass base_url={url!r}.",
        )


def _given_base(document: Document, base_url: str) -> str:
    if url_origin(base_url)[:4] != "http" or any(mark in base_url for mark in "?#@"):
        reason = "base_url must be like https://host/v1; who asks is said with auth"
        raise DocumentError(document.shown, reason)
    return base_url.rstrip("/")
