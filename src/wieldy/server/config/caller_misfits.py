"""Find mistakes in what a gateway's file says about callers: values that servers get for each."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from wieldy.core.names import find_near_names

from .caller_templates import CallerFact, CallerTemplate, names_caller
from .gateway_file import GatewayFile, ServerTable
from .key_lines import KeyPath

Misfit = tuple[KeyPath, str]
# Only these are filled in: what a process is started with can be seen by others.
_FILLED = ("headers", "env")
_FOR_CALLERS = ("listing", "max_connections", "idle")


def find_caller_misfits(read: GatewayFile) -> list[Misfit]:
    """What is wrong with `${caller…}` in servers, and with the values of callers."""
    found: list[Misfit] = []
    for name, server in read.servers.items():
        place: KeyPath = ("servers", name)
        found += _find_wrong_places(place, server)
        found += _find_wrong_templates(place, server, read)
        found += _find_wrong_listing(place, server)
    for name, caller in read.callers.items():
        for key, text in caller.values.items():
            if names_caller(text):
                said = "is a value for ${caller.values.…} itself, and can't have ${caller…} in it."
                found.append((("callers", name, "values", key), said))
    return found


def filled_values(server: ServerTable) -> dict[str, dict[str, str]]:
    """The headers and variables of a server that differ from caller to caller."""
    return {
        key: {name: text for name, text in getattr(server, key).items() if names_caller(text)}
        for key in _FILLED
    }


def _find_wrong_places(place: KeyPath, server: ServerTable) -> Iterator[Misfit]:
    """Where `${caller…}` stands in something that is the same for all callers."""
    for path, text in _list_texts(server.model_dump(exclude={*_FILLED, "listing"}, by_alias=True)):
        if names_caller(text):
            yield (*place, *path), "${caller…} can stand in headers and env only."


def _list_texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _list_texts(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _list_texts(each, (*path, number))


def _find_wrong_templates(
    place: KeyPath, server: ServerTable, read: GatewayFile
) -> Iterator[Misfit]:
    for key, texts in filled_values(server).items():
        meant = "a url" if key == "headers" else "a command"
        if texts and (server.url if key == "headers" else server.command) is None:
            yield (*place, key), f"is for a server with {meant}."
        for name, text in texts.items():
            try:
                facts = CallerTemplate.read(text).facts
            except ValueError as error:
                yield (*place, key, name), f"{error}."
                continue
            reasons = [_explain_unknown(fact, read) for fact in facts]
            yield from (((*place, key, name), said) for said in reasons if said is not None)
    filled = {name.lower() for name in filled_values(server)["headers"]}
    spelled = Counter(name.lower() for name in server.headers)
    for name in server.headers:
        if name.lower() in filled and spelled[name.lower()] > 1:
            yield (*place, "headers", name), "is there more than once, in different spellings."


def _explain_unknown(fact: CallerFact, read: GatewayFile) -> str | None:
    """Why no caller at all can have a fact; None if somebody may."""
    access = read.access
    if not access.tokens and access.oauth is None:
        return "callers are known only if they have tokens. Write tokens = true below [access]."
    if fact.kind == "claims" and access.oauth is None:
        return (
            "only tokens of an issuer have claims. Write [access.oauth], or give callers values "
            "and use ${caller.values.NAME}."
        )
    if fact.kind != "values":
        return None
    known = sorted({key for caller in read.callers.values() for key in caller.values})
    if fact.key in known:
        return None
    near = find_near_names(fact.key, known)
    hint = f"Did you mean {near[0]}?" if near else f'Write values = {{ {fact.key} = "…" }} there.'
    return f"no [callers.NAME] has the value {fact.key}. {hint}"


def _find_wrong_listing(place: KeyPath, server: ServerTable) -> Iterator[Misfit]:
    names = {name for texts in filled_values(server).values() for name in texts}
    if not names:
        for key in _FOR_CALLERS:
            if key in server.model_fields_set:
                yield (*place, key), "is for a server that has ${caller…} in its headers or env."
        return
    for name, text in server.listing.items():
        if name not in names:
            listed = ", ".join(sorted(names))
            said = f"stands in for what differs from caller to caller, which is {listed}."
            yield (*place, "listing", name), said
        elif names_caller(text):
            said = "is the gateway's own, and can't have ${caller…} in it."
            yield (*place, "listing", name), said
