"""Fill in the defaults of a JSON Schema."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from wieldy.core.arguments.argument_errors import item_parts

from .references import resolve_reference

# The contents of these keywords are values, even if they look like schemas.
_VALUES = ("default", "const", "enum", "examples")
_UNCHANGING = (str, int, float, bool, type(None))
# The keywords that contain further parts.
_HOLDS = ("properties", "items", "prefixItems")
_TELLING = frozenset(("default", "$ref"))


class Defaults:
    """The defaults of one part of a schema, read once and filled in often."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.inner: dict[str, Defaults] = {}
        # The defaults of the first items, and of all later items.
        self.first: list[Defaults] = []
        self.items: Defaults | None = None

    def fill(self, sent: Any) -> Any:
        """A copy of what was sent, with the missing defaults filled in at every depth."""
        if isinstance(sent, list):
            return [each.fill(item) if each else item for each, item in self._with_items(sent)]
        if not isinstance(sent, dict):
            return sent
        filled = dict(sent)
        for name, inner in self.inner.items():
            if name in sent:
                filled[name] = inner.fill(sent[name])
        for name, value in self.given.items():
            if name not in sent:
                # The default is copied, because its receiver may change it.
                filled[name] = value if type(value) in _UNCHANGING else deepcopy(value)
        return filled

    def _with_items(self, sent: list[Any]) -> Iterator[tuple["Defaults | None", Any]]:
        for place, item in enumerate(sent):
            yield self.first[place] if place < len(self.first) else self.items, item


def read_defaults(schema: Any) -> Defaults | None:
    """The defaults of a schema; None if it has none."""
    return _read_part(schema, schema, {}) if states_default(schema) else None


def _read_part(part: Any, root: Mapping[str, Any], known: dict[int, Defaults]) -> Defaults:
    here = resolve_reference(part, root)
    if id(here) in known:
        # A part may refer to itself.
        return known[id(here)]
    made = known[id(here)] = Defaults()
    properties = here.get("properties")
    for name, each in properties.items() if isinstance(properties, Mapping) else ():
        if not isinstance(each, Mapping):
            continue
        said = {**resolve_reference(each, root), **each}
        if "default" in said:
            made.given[name] = said["default"]
        if _may_give(said):
            made.inner[name] = _read_part(each, root, known)
    first, rest = item_parts(here)
    made.first = [_read_part(each, root, known) for each in first]
    made.items = _read_part(rest, root, known) if _may_give(rest) else None
    return made


def _may_give(part: Any) -> bool:
    """Whether there may be a default inside a part, or inside its references."""
    inside = [part.get(key) for key in _HOLDS] if isinstance(part, Mapping) else []
    return any(_mentions_any(each, _TELLING) for each in inside) or (
        isinstance(part, Mapping) and "$ref" in part
    )


def without_required_defaults(schema: Any) -> Any:
    """The schema in which names with a default are not required, at every depth."""
    if isinstance(schema, list):
        return [without_required_defaults(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    changed = {
        key: each if key in _VALUES else without_required_defaults(each)
        for key, each in schema.items()
    }
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list | tuple) and isinstance(properties, Mapping):
        changed["required"] = [name for name in required if not _has_default(properties, name)]
    return changed


def states_default(schema: Any) -> bool:
    """Whether a schema has a default anywhere."""
    return _mentions_any(schema, frozenset(("default",)))


def _mentions_any(schema: Any, keys: frozenset[str]) -> bool:
    if isinstance(schema, Mapping):
        inside = schema.values()
        return not keys.isdisjoint(schema) or any(_mentions_any(each, keys) for each in inside)
    return isinstance(schema, list | tuple) and any(_mentions_any(each, keys) for each in schema)


def _has_default(properties: Mapping[str, Any], name: Any) -> bool:
    part = properties.get(name) if isinstance(name, str) else None
    return isinstance(part, Mapping) and "default" in part
