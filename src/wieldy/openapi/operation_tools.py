"""Make tools from a document's operations."""

import logging
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypedDict

from wieldy.core.choices import ConflictPolicy, PermissionName
from wieldy.core.errors import DocumentError
from wieldy.core.limits.limits import Limits
from wieldy.core.names import listed_names
from wieldy.core.network.http_client import Client
from wieldy.core.tool import Permission, Tool

from .document import Document
from .http_response import response_schema
from .linked_documents import Consent, gather_documents
from .loading import Source, load_document
from .operation import Operation, read_operations
from .schema import is_entangled
from .security import Auth, Credentials
from .server_urls import ServerUrls
from .service import Service, ServiceEndpoint, call_operation

_log = logging.getLogger("wieldy.openapi")
_LIMITS = Limits(timeout=60, retries=2)
_IDEMPOTENT = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE")


class OpenAPIOptions(TypedDict, total=False):
    """The settings that can be given when a document is added.

    Attributes:
        auth: A token or key, or one for each security scheme by its name.
        headers: Headers for every request, hidden like presets.
        presets: Arguments that are filled in, for every operation that takes them.
        limits: Of each tool; a minute, and two more tries of what may be repeated, unless given.
        permission: Of each tool; without it a tool that deletes asks, and the others run.
        trusted: Whether to trust the document, so that what it deletes with needs no person.
        group: The group of the tools.
        prefix: Put before each name, with an underscore.
        refs: Whether references to other files and addresses are followed: True for the
            document's own folder or host, or the folders and addresses that may be read.
        on_conflict: What to do about names that are taken.
    """

    auth: Auth | None
    headers: Mapping[str, Any] | None
    presets: Mapping[str, Any] | None
    limits: Limits | None
    permission: Permission | PermissionName | None
    trusted: bool
    group: str
    prefix: str | None
    refs: Consent
    on_conflict: ConflictPolicy


async def read_tools(
    source: Source,
    base_url: str | None,
    tags: Iterable[str],
    allow: Iterable[str] | str | None,
    deny: Iterable[str] | str | None,
    options: OpenAPIOptions,
) -> tuple[list[Tool], Client]:
    """The tools of a document, and the client that their requests go through."""
    limits = options.get("limits") or _LIMITS
    client = Client(limits.timeout)
    try:
        document = await _open_document(source, options.get("refs", False), client)
        credentials = Credentials(document, options.get("auth"), options.get("headers"))
        servers = ServerUrls(document, base_url, bool(credentials), client)
        service = Service(servers, credentials, client)
        chosen = _choose_operations(document, options.get("prefix"), allow, deny)
        facts = {
            "presets": options.get("presets"),
            "limits": limits,
            "permission": options.get("permission"),
            "trusted": options.get("trusted", False),
            "group": options.get("group", "basic"),
            "source": f"openapi:{document.title[:100]}",
        }
        endpoints = _usable_endpoints(document, [ServiceEndpoint(service, each) for each in chosen])
        return [_make_tool(each, listed_names(tags), facts) for each in endpoints], client
    except BaseException:
        await client.close()
        raise


async def _open_document(source: Source, consent: Consent, client: Client) -> Document:
    loaded = await load_document(source, client)
    document = Document(loaded.address, loaded.shown, loaded.data, loaded.asked)
    if loaded.refers_outward:
        await gather_documents(document, consent, client)
    return document


def _choose_operations(
    document: Document,
    prefix: str | None,
    allow: Iterable[str] | str | None,
    deny: Iterable[str] | str | None,
) -> list[Operation]:
    listed = read_operations(document, prefix)
    wanted, refused = listed_names(allow), listed_names(deny)
    chosen = [
        each
        for each in listed
        if (allow is None or _matches_any(each, wanted)) and not _matches_any(each, refused)
    ]
    if listed and not chosen:
        raise DocumentError(document.shown, "allow and deny leave none of its operations")
    for operation in chosen:
        operation.check()
    return chosen


def _matches_any(operation: Operation, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches the name, the document's own id, or the method and path.

    A pattern that contains a space is compared with the method and path.
    """
    names = (operation.name, operation.id or operation.name)
    return any(
        fnmatchcase(name, pattern)
        for pattern in patterns
        for name in ((operation.title,) if " " in pattern else names)
    )


def _usable_endpoints(
    document: Document, endpoints: list[ServiceEndpoint]
) -> list[ServiceEndpoint]:
    """The operations without those whose schemas are too expensive, which are logged."""
    if not is_entangled(document):
        return endpoints
    for each in endpoints:
        if each.layout.refused is not None:
            title, reason = each.operation.title, each.layout.refused
            _log.warning("%s: %s is left out: %s", document.shown, title, reason)
    return [each for each in endpoints if each.layout.refused is None]


def _make_tool(endpoint: ServiceEndpoint, tags: tuple[str, ...], facts: dict[str, Any]) -> Tool:
    operation = endpoint.operation
    method = operation.method
    return Tool(
        partial(call_operation, endpoint, endpoint.service.credentials.secrets),
        name=operation.name,
        original_names=operation.original_names,
        description=operation.description,
        tags=(*tags, *operation.tags),
        input_schema=endpoint.input_schema,
        output_schema=partial(response_schema, operation),
        # HTTP defines these traits of its methods, and says nothing about the effect of a POST.
        read_only=method in ("GET", "HEAD") or None,
        idempotent=method in _IDEMPOTENT or None,
        destructive=method == "DELETE" or None,
        cautious=True,
        **facts,
    )
