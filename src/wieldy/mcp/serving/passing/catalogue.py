"""The resources and prompts of the servers behind that one client may see, and their names here."""

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote

from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from mcp_types import INVALID_PARAMS

from wieldy.core.call import Call, Scope
from wieldy.core.context import Context
from wieldy.core.errors import WieldyError
from wieldy.mcp.client.offerings import Kind
from wieldy.mcp.client.server_link import Server
from wieldy.mcp.serving.callers import caller_name
from wieldy.mcp.serving.offer import Offer

Definition = dict[str, Any]
_MAX_KEPT = 32
_SOURCE = "mcp:"
Lists = Mapping[Kind, Sequence[Definition]]
T = TypeVar("T")
_SCHEME = "wieldy"
# URIs of these schemes are ours, whoever uses them.
_OURS = (_SCHEME, "artifact")


@dataclass(frozen=True, slots=True)
class Passed:
    """One thing of a server: its own name there, and its definition as clients see it."""

    server: Server
    own: str
    definition: Definition


class Catalogue:
    """Everything that the servers which one client sees offer besides tools."""

    def __init__(self, offered: Sequence[tuple[Server, Lists]]) -> None:
        self.servers = {server.name: server for server, _ in offered}
        self.resources = _name_all(offered, "resources", "uri")
        self.templates = _name_all(offered, "templates", "uriTemplate")
        self.prompts = _name_all_prompts(offered)
        self._owners: dict[str, list[Server]] = {}
        for passed in self.resources.values():
            self._owners.setdefault(passed.own, []).append(passed.server)
        self._templates = [
            (UriTemplate.parse(each.own), each.server) for each in self.templates.values()
        ]
        listing = (each.server for each in (*self.resources.values(), *self.templates.values()))
        self._with_resources = list(dict.fromkeys(listing))

    def find_resource(self, uri: str) -> tuple[Server, str] | None:
        """The server that has a resource, and its own URI; None if none of these servers has.

        A URI that is not listed belongs to the server that has a template for it, or to the only
        one that has resources at all.
        """
        qualified = _split_uri(uri)
        if qualified is not None:
            server = self.servers.get(qualified[0])
            return None if server is None else (server, qualified[1])
        owners = self._owners.get(uri) or self._match_templates(uri)
        if len(owners) > 1:
            choices = " or ".join(_qualify_uri(each.name, uri) for each in owners)
            raise MCPError(INVALID_PARAMS, f"Several servers have this resource: read {choices}.")
        if not owners and len(self._with_resources) == 1:
            owners = self._with_resources
        return (owners[0], uri) if owners else None

    def served_uri(self, server: Server, uri: str) -> str:
        """The name here for a URI that a server mentions, so that reading it asks that server."""
        try:
            found = None if _split_uri(uri) is not None else self.find_resource(uri)
        except MCPError:
            found = None
        plain = found is not None and (found[0].home, found[1]) == (server.home, uri)
        return uri if plain else _qualify_uri(server.name, uri)

    def _match_templates(self, uri: str) -> list[Server]:
        matching = (server for template, server in self._templates if _matches(template, uri))
        return list(dict.fromkeys(matching))


class Catalogues:
    """Makes the catalogue of each client, and keeps those that were used last."""

    def __init__(self, box: object, offer: Callable[[], Offer]) -> None:
        # The servers are the box's, also where a view of it is served.
        self._box = getattr(box, "box", box)
        self._offer = offer
        self._kept: OrderedDict[tuple[Any, ...], Catalogue] = OrderedDict()

    @property
    def servers(self) -> Mapping[str, Server]:
        """All servers behind, whoever may see them."""
        found: Mapping[str, Server] = getattr(self._box, "mcp", {})
        return found

    @property
    def has_servers(self) -> bool:
        """Whether there is any server behind."""
        return len(self.servers) > 0

    async def visible_servers(self) -> list[Server]:
        """The servers that whoever sent the current request may see.

        Those are the servers of which it could call a tool. A server that has no tools is seen by
        everybody who sees the whole box.
        """
        servers = self.servers
        if not self.has_servers:
            return []
        caller, offer = caller_name(), self._offer()
        tools = await offer.callable_tools(Scope(caller, caller, caller=caller), loaded_only=False)
        sources, whole = {tool.source for tool in tools}, getattr(offer, "whole", False)
        asking = make_context("resources/list")
        return [
            server
            for server in list(servers.values())
            if (f"{_SOURCE}{server.name}" in sources or (whole and not server.lists_tools))
            and server.admits(asking)
        ]

    async def _reach_all(self, servers: Iterable[Server]) -> AsyncIterator[Server]:
        """The servers as the sender of the current request reaches them."""
        for server in servers:
            # A server that can't be reached now has nothing to offer now.
            with suppress(WieldyError):
                yield await server.reach(make_context("resources/list"))

    async def current(self, *kinds: Kind) -> Catalogue:
        """What the sender of the current request may see; all kinds, unless some are named."""
        servers = [each async for each in self._reach_all(await self.visible_servers())]
        wanted: tuple[Kind, ...] = kinds or ("resources", "templates", "prompts")
        offered = [
            (server, {kind: await server.offered(kind) for kind in wanted}) for server in servers
        ]
        key = (wanted, *((id(each), each.name, each.offerings.version) for each in servers))
        found = self._kept.pop(key, None) or Catalogue(offered)
        self._kept[key] = found
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return found


def make_context(method: str) -> Context:
    """The sender of the current request, as the context of a call without a tool."""
    channel = SimpleNamespace(
        call=make_request_call(method), tool_name=method, deps=None, attempts=1
    )
    return Context(cast(Any, channel))


def make_request_call(method: str) -> Call:
    """A call that stands for the sender of the current request."""
    caller = caller_name()
    return Call(method, None, Scope(caller, caller, caller=caller))


def _name_all(offered: Sequence[tuple[Server, Lists]], kind: Kind, key: str) -> dict[str, Passed]:
    pairs = [(server, each) for server, lists in offered for each in lists.get(kind, ())]
    names = _name_uris((server.name, each[key]) for server, each in pairs)
    found: dict[str, Passed] = {}
    for server, each in pairs:
        served = names[server.name, each[key]]
        found[served] = Passed(server, each[key], {**each, key: served})
    return found


def _name_all_prompts(offered: Sequence[tuple[Server, Lists]]) -> dict[str, Passed]:
    pairs = [(server, each) for server, lists in offered for each in lists.get("prompts", ())]
    names = _name_prompts([(server.name, server.prefix, each["name"]) for server, each in pairs])
    found: dict[str, Passed] = {}
    for server, each in pairs:
        served = names[server.name, each["name"]]
        found[served] = Passed(server, each["name"], {**each, "name": served})
    return found


def _matches(template: UriTemplate, uri: str) -> bool:
    return template.match(uri) is not None


def _qualify_uri(server: str, uri: str) -> str:
    """The URI of a resource, or a template, with its server in it."""
    return f"{_SCHEME}:{quote(server, safe='')}/{uri}"


def _split_uri(uri: str) -> tuple[str, str] | None:
    """The server and its own URI of a qualified URI; None for any other."""
    scheme, colon, rest = uri.partition(":")
    server, slash, own = rest.partition("/")
    if scheme.lower() != _SCHEME or not (colon and slash and server and own):
        return None
    return unquote(server), own


def _is_ours(uri: str) -> bool:
    """Whether a URI has a scheme that means something here, so that it can't stay as it is."""
    return uri.partition(":")[0].lower() in _OURS


def _name_uris(offered: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Name each URI, given as pairs of a server and its URI."""
    pairs = list(offered)
    count = Counter(uri for _, uri in pairs)
    return {
        (server, uri): _qualify_uri(server, uri) if count[uri] > 1 or _is_ours(uri) else uri
        for server, uri in pairs
    }


def _name_prompts(offered: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    """Name each prompt, given as its server, the server's prefix and the prompt's name."""
    plain = {(server, name): f"{prefix}{name}" for server, prefix, name in offered}
    full = {key: f"{key[0]}__{name}" for key, name in plain.items()}
    count = Counter(plain.values())
    # A prompt that is called like another's qualified name must not be taken for it.
    qualified = {full[key] for key, name in plain.items() if count[name] > 1}
    found: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for key, name in plain.items():
        clear = count[name] == 1 and name not in qualified
        found[key] = _free_name(name if clear else full[key], taken)
        taken.add(found[key])
    return found


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
