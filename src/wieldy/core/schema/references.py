"""Follow the references inside a schema, which are JSON Pointers written as parts of a URL.

A reference may also name the anchor or the `$id` of the schema, or of a definition in it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urljoin

CHOICES = ("anyOf", "oneOf", "allOf")
DEFINITIONS = ("$defs", "definitions")
_ANCHORS = ("$anchor", "$dynamicAnchor")
# How many references may follow each other directly.
_MAX_CHAIN = 20


def split_reference(reference: str) -> list[str]:
    """The names on the way that a reference such as `#/$defs/a%20b` leads."""
    return [read_step(step) for step in unquote(reference.partition("#")[2]).split("/")[1:]]


def write_reference(*names: str) -> str:
    """The reference that leads to a part by these names."""
    return "#" + "".join(f"/{quote(write_step(name), safe='$~')}" for name in names)


def read_step(step: str) -> str:
    """The name that one step of a JSON Pointer (RFC 6901) means."""
    return step.replace("~1", "/").replace("~0", "~")


def write_step(name: str) -> str:
    """A name as one step of a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def last_name(reference: str) -> str:
    """The last name of a reference: of a definition, or of a file if it leads to a whole one."""
    return [reference.rpartition("/")[2], *split_reference(reference)][-1]


def locate_part(reference: Any, root: Any) -> list[str] | None:
    """The names on the way from a schema to what a reference leads to; None if it leads out."""
    if not isinstance(reference, str):
        return None
    place, _, fragment = reference.partition("#")
    document = _locate_document(place, root)
    if document is None or not fragment or fragment[0] == "/":
        return None if document is None else [*document, *split_reference(reference)]
    anchor = _locate_definition(
        lambda part: fragment in [part.get(key) for key in _ANCHORS], step_down(root, document)
    )
    return None if anchor is None else [*document, *anchor]


def find_part(reference: Any, root: Any) -> Any:
    """The part of a schema that a reference leads to; None if it is not in there."""
    names = locate_part(reference, root)
    return None if names is None else step_down(root, names)


def step_down(here: Any, names: list[str]) -> Any:
    """The part below another, by the names on the way; None if there is none."""
    for name in names:
        if isinstance(here, Mapping):
            here = here.get(name)
        elif isinstance(here, list | tuple) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here


def resolve_reference(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that references lead to; an empty one if they lead nowhere."""
    for _ in range(_MAX_CHAIN):
        if not isinstance(schema, Mapping):
            return {}
        if not isinstance(schema.get("$ref"), str):
            return schema
        schema = find_part(schema["$ref"], root)
    return {}


def walk_parts(start: Any, root: Any = None) -> Iterator[Mapping[str, Any]]:
    """Every mapping in a value, each once; with a root, also those that references lead to."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list | tuple):
            waiting += here
        elif isinstance(here, Mapping) and id(here) not in seen:
            seen.add(id(here))
            yield here
            waiting += here.values()
            if root is not None and "$ref" in here:
                waiting.append(find_part(here["$ref"], root))


def choices_of(part: Mapping[str, Any], root: Any) -> list[Mapping[str, Any]]:
    """The parts that describe the same value: members of unions, and a reference's target."""
    found = [each for key in CHOICES for each in part.get(key) or ()]
    if "$ref" in part:
        found.append(find_part(part["$ref"], root))
    return [each for each in found if isinstance(each, Mapping)]


def walk_choices(start: Any, root: Any) -> Iterator[Mapping[str, Any]]:
    """A part and all others that describe the same value, each once."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting += choices_of(part, root)


def used_definitions(schema: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The definitions that a schema uses, directly or through others: where they are, and names."""
    used: set[tuple[str, str]] = set()
    waiting: list[Any] = [{key: each for key, each in schema.items() if key not in DEFINITIONS}]
    while waiting:
        for part in walk_parts(waiting.pop()):
            # A reference may lead to a place inside a definition.
            names = (locate_part(part.get("$ref"), schema) or [])[:2]
            if len(names) == 2 and names[0] in DEFINITIONS and (names[0], names[1]) not in used:
                used.add((names[0], names[1]))
                waiting.append(step_down(schema, names))
    return used


def _locate_document(place: str, root: Any) -> list[str] | None:
    """The way to the part whose `$id` is this address: the schema, or a definition of it."""
    if not place:
        return []
    own = step_down(root, ["$id"])
    base = own if isinstance(own, str) else ""
    address = urljoin(base, place)
    return _locate_definition(lambda part: _address_of(part, base) == address, root)


def _address_of(part: Mapping[str, Any], base: str) -> str | None:
    own = part.get("$id")
    return urljoin(base, own).partition("#")[0] if isinstance(own, str) else None


def _locate_definition(fits: Callable[[Mapping[str, Any]], bool], root: Any) -> list[str] | None:
    """The way to the first that fits, of the schema and its definitions."""
    homes = [(key, step_down(root, [key])) for key in DEFINITIONS]
    named = [[key, each] for key, home in homes if isinstance(home, Mapping) for each in home]
    for way in ([], *named):
        part = step_down(root, way)
        if isinstance(part, Mapping) and fits(part):
            return way
    return None
