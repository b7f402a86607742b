"""Servers behind a gateway that each caller reaches with headers or variables of their own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wieldy.core.call import Scope
from wieldy.core.context import Context
from wieldy.core.errors import InvalidSource, ServerUnavailable
from wieldy.core.secrets.credential import is_credential
from wieldy.core.secrets.secret import Secret
from wieldy.core.tool import Tool
from wieldy.mcp.client.config import expand_variables, read_entries
from wieldy.mcp.client.server_source import Address, Command, PerCaller
from wieldy.mcp.serving.callers import caller_name
from wieldy.view import View

from .config.caller_misfits import filled_values
from .config.caller_templates import CallerFact, CallerTemplate
from .config.gateway_file import CallerTable, ServerTable, read_seconds
from .known_callers import FactMissing, KnownCallers

Templates = Mapping[str, CallerTemplate]


class CallerSource:
    """How the callers of one server reach it.

    Args:
        name: The name of the server.
        table: What the file says about it.
        entry: The same as an entry of `mcpServers`.
        callers: What is known of callers.

    Raises:
        InvalidSource: A variable of the environment is not set, or the entry names no server.
    """

    def __init__(
        self, name: str, table: ServerTable, entry: Mapping[str, Any], callers: KnownCallers
    ) -> None:
        self._name = name
        self._callers = callers
        self._filled: dict[str, str] = {}
        self._templates = {
            key: {each: self._read(each, text) for each, text in texts.items()}
            for key, texts in filled_values(table).items()
        }
        self.listing = _read_listing(name, table, entry)
        self._most, self._idle = table.max_connections, read_seconds(table.idle)

    @property
    def claims(self) -> set[str]:
        """The claims that callers need."""
        return self.find_claims(credential=True) | self.find_claims(credential=False)

    def find_claims(self, *, credential: bool) -> set[str]:
        """The claims that are put into credentials, or those that are put anywhere else."""
        return {
            fact.key
            for templates in self._templates.values()
            for place, template in templates.items()
            for fact in template.facts
            if fact.kind == "claims"
            and (is_credential(place) or is_credential(fact.key)) is credential
        }

    def to_source(self) -> PerCaller:
        """The source, for `add_mcp`."""
        return PerCaller(self.listing, self._find_way, self._most, self._idle)

    def is_for(self, caller: str | None) -> bool:
        """Whether a caller reaches the server at all."""
        try:
            self._fill(caller)
        except (FactMissing, InvalidSource):
            return False
        return True

    def _read(self, place: str, text: str) -> CallerTemplate:
        def expand(piece: str) -> str:
            expanded: str = expand_variables(self._name, piece, self._filled, place)
            return expanded

        return CallerTemplate.read(text).expand(expand)

    def _find_way(self, context: Context) -> Command | Address:
        known: dict[str, str] = {**self._filled}
        try:
            filled = self._fill(context.scope.caller, known)
        except (FactMissing, InvalidSource) as missing:
            reason = f"everybody reaches it as themselves, and {missing}."
            raise ServerUnavailable(self._name, reason) from missing
        listing = replace(self.listing, filled={**self.listing.filled, **known})
        if isinstance(listing, Command):
            return replace(listing, env={**listing.env, **filled["env"]})
        assert not callable(listing.headers)
        return replace(listing, headers={**listing.headers, **filled["headers"]})

    def _fill(
        self, caller: str | None, known: dict[str, str] | None = None
    ) -> dict[str, dict[str, Any]]:
        return {
            key: {each: self._fill_one(key, t, caller, known) for each, t in templates.items()}
            for key, templates in self._templates.items()
        }

    def _fill_one(
        self, key: str, template: CallerTemplate, caller: str | None, known: dict[str, str] | None
    ) -> str | Secret:
        def find(fact: CallerFact) -> str:
            return _checked(fact, key, self._callers.find(caller, fact, known))

        text = template.fill(find)
        secret = any(is_credential(fact.key) for fact in template.facts)
        return Secret(text) if secret else text


class CallerSources:
    """The servers of a gateway that everybody reaches as themselves, by name.

    Args:
        callers: What the file says about callers by name; it may change.
    """

    def __init__(self, callers: Mapping[str, CallerTable]) -> None:
        self.known = KnownCallers(callers)
        self._sources: dict[str, CallerSource] = {}

    def add(self, name: str, table: ServerTable, entry: Mapping[str, Any]) -> PerCaller:
        """The source of a server, for `add_mcp`; `InvalidSource` if the entry names no server."""
        source = CallerSource(name, table, entry, self.known)
        self._sources[name] = source
        self._want_claims()
        return source.to_source()

    def drop(self, name: str) -> None:
        """Forget a server."""
        self._sources.pop(name, None)
        self._want_claims()

    def screen(self, offer: View) -> View:
        """What is there of an offer for whoever looks: no tool of a server they don't reach."""
        view = offer.view(where=self._shows)
        view.whole = offer.whole
        return view

    def digests(self, tool: Tool, scope: Scope) -> Mapping[str, str]:
        """The digests of the claims that a call of this tool depends on.

        Those are the claims that chose the view of its caller, and those that its server is sent
        outside of credentials. A credential may be renewed while a call waits.
        """
        source = self._find_source(tool)
        names = set() if source is None else source.find_claims(credential=False)
        return self.known.find_digests(scope.caller, names - self._find_credentials())

    def find_changed(self, scope: Scope, kept: Mapping[str, str]) -> str | None:
        """The name of a claim that is another one by now; None if each is as it was kept."""
        return self.known.find_changed(scope.caller, kept)

    def _find_source(self, tool: Tool) -> CallerSource | None:
        kind, _, name = tool.source.partition(":")
        return self._sources.get(name) if kind == "mcp" else None

    def _find_credentials(self) -> set[str]:
        return {
            name for each in self._sources.values() for name in each.find_claims(credential=True)
        }

    def _shows(self, tool: Tool, scope: Scope) -> bool:
        source = self._find_source(tool)
        # A client's list is made in its own request, before there is any call with a caller.
        return source is None or source.is_for(scope.caller or caller_name())

    def _want_claims(self) -> None:
        wanted = set().union(*(each.claims for each in self._sources.values()))
        self.known.want_claims(wanted)
        self.known.bind_claims(wanted - self._find_credentials())


def _checked(fact: CallerFact, key: str, text: str) -> str:
    """A text that a header, or a variable, can hold."""
    fits = text.isascii() and text.isprintable() if key == "headers" else "\0" not in text
    if not fits:
        raise FactMissing(f"{fact} has characters that {key} can't hold")
    return text


def _read_listing(name: str, table: ServerTable, entry: Mapping[str, Any]) -> Command | Address:
    """How the gateway itself reaches the server: without anything that is a caller's."""
    own = dict(entry)
    for key, texts in filled_values(table).items():
        given = {**entry.get(key, {})}
        for each in texts:
            given.pop(each)
            if each in table.listing:
                given[each] = table.listing[each]
        own[key] = given
    source = read_entries({"mcpServers": {name: own}}, name)[name]()
    if not isinstance(source, Command | Address):
        raise InvalidSource(name, "it is disabled")
    return source
