"""Read from pydantic's schemas the names by which fields of nested arguments are sent."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import CoreSchema

from wieldy.core.permission.argument_reach import Aliases

_HOLDERS = ("model-fields", "dataclass-args", "typed-dict")


def read_aliases(schema: CoreSchema) -> Aliases:
    """For each class, and for all dicts, the fields by the names under which they are sent."""
    found: dict[type | None, dict[str, list[str]]] = {}
    rest: list[tuple[Any, type | None]] = [(schema, None)]
    while rest:
        node, owner = rest.pop()
        if isinstance(node, list):
            rest += [(item, owner) for item in node]
        elif isinstance(node, dict):
            owner = node.get("cls", owner)
            # A dict at run time does not show which TypedDict it is.
            names = found.setdefault(None if node.get("type") == "typed-dict" else owner, {})
            for alias, field in _field_names(node):
                names.setdefault(alias, []).append(field)
            rest += [(item, owner) for item in node.values()]
    return found


def _field_names(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each alias of each field that a node of a schema declares."""
    fields = node.get("fields", ()) if node.get("type") in _HOLDERS else ()
    named = fields.items() if isinstance(fields, dict) else ((f["name"], f) for f in fields)
    for field, facts in named:
        for alias in _alias_names(facts.get("validation_alias")):
            yield alias, field


def _alias_names(alias: Any) -> set[str]:
    """The dotted names of an alias: a name, a path, or a choice of paths.

    A rule looks into lists by itself, so it may leave out their indexes. A rule that names the
    beginning of a path covers everything below it.
    """
    if not isinstance(alias, list):
        return set() if alias is None else {alias}
    names: set[str] = set()
    for path in alias if isinstance(alias[0], list) else [alias]:
        plain = [step for step in path if isinstance(step, str)]
        names |= {".".join(plain[:end]) for end in range(1, len(plain) + 1)}
        names.add(".".join(map(str, path)))
    return names
