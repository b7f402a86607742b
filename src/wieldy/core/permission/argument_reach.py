"""Find the values that a rule's argument name means, in models, mappings and lists.

A name such as `filter.path` may be one argument, or a part of another one, and a model's
field may be sent under several names. All values that a name can mean are found: a rule that
restricts matches if any of them does, a rule that allows only if all of them do.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from wieldy.core.secrets.secret import reveal_secret

if TYPE_CHECKING:
    from .argument_places import Places

PLAIN = frozenset({str, int, float, bool, type(None)})
LISTS = (list, tuple, set, frozenset, deque)
UNREADABLE: Any = object()
_MISSING: Any = object()
# Keywords beside which `properties` names all arguments.
_PLAIN_KEYWORDS = frozenset(
    {
        *("$comment", "$defs", "$id", "$schema", "additionalProperties", "default", "definitions"),
        *("description", "examples", "maxProperties", "minProperties", "properties", "required"),
        *("title", "type"),
    }
)

# For each class, and for dicts under None, the fields by the names under which they are sent.
Aliases = Mapping[type | None, Mapping[str, Sequence[str]]]


class ArgumentNames:
    """The names by which rules may refer to one tool's arguments.

    `own` has the function's names of arguments that the model sees under others. `declared` gives
    the names of all arguments, or None if there may be others.
    """

    __slots__ = ("_aliases", "_read", "_schema", "declared", "own", "places")

    def __init__(
        self,
        own: Mapping[str, str],
        read_aliases: Callable[[], Aliases],
        declared: Callable[[], Collection[str] | None],
        schema: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.own = own
        self._schema = schema
        self.places = cache(self._find_places)
        self.declared = cache(declared)
        self._read = read_aliases
        self._aliases: Aliases | None = None

    def may_have(self, path: Sequence[str]) -> bool:
        """Whether a dotted name may mean an argument of the tool, or a part of one."""
        declared = self.declared()
        names = [".".join(path[:end]) for end in range(1, len(path) + 1)]
        if declared is not None and not any(name in declared for name in names):
            return False
        return len(path) == 1 or any(self.places(tuple(path)))

    def _find_places(self, path: tuple[str, ...]) -> "Places":
        """What the schema says of the values that a dotted name means."""
        # Few rules have a condition that is not met where it is expected.
        from .argument_places import find_places  # noqa: PLC0415

        aliases = self._all_aliases() if len(path) > 1 else {}
        return find_places(self._schema(), path, aliases)

    def _all_aliases(self) -> Aliases:
        if self._aliases is None:
            # Read only when needed, because most rules never look into an argument.
            self._aliases = self._read()
        return self._aliases

    def fields(self, kind: type, name: str) -> Iterator[str]:
        """The fields of a class, or of any dict, that are sent under this name."""
        aliases = self._all_aliases()
        for each in (None,) if issubclass(kind, Mapping) else kind.__mro__:
            yield from aliases.get(each, {}).get(name, ())

    def readings(self, values: Mapping[str, Any], path: Sequence[str]) -> Iterator[Any]:
        """Each plain value that a dotted name means."""
        for end in range(1, len(path) + 1):
            shown = ".".join(path[:end])
            own = self.own.get(shown, shown)
            if own in values:
                for found in self._reach_values(values[own], path[end:]):
                    yield from _find_leaves(found)

    def _reach_values(self, here: Any, path: Sequence[str]) -> Iterator[Any]:
        if not path:
            yield here
        elif hasattr(here, "__next__"):
            yield UNREADABLE
        elif _is_root(here):
            yield from self._reach_values(here.root, path)
        else:
            if isinstance(here, LISTS):
                for item in here:
                    yield from self._reach_values(item, path)
            for end in range(1, len(path) + 1):
                for member in self._named_members(here, ".".join(path[:end])):
                    yield from self._reach_values(member, path[end:])

    def _named_members(self, here: Any, name: str) -> Iterator[Any]:
        for own in dict.fromkeys((name, *self.fields(type(here), name))):
            member = (
                _mapping_entry(here, own)
                if isinstance(here, Mapping)
                else _read_attribute(here, own)
            )
            if member is not _MISSING:
                yield member


def declared_names(schema: Mapping[str, Any], closed: bool) -> frozenset[str] | None:
    """The names of the arguments in a schema; None if others than these are taken.

    `closed` says that a schema takes no others where it says nothing about that.
    """
    others = schema.get("additionalProperties", not closed)
    return (
        None
        if others or not _PLAIN_KEYWORDS.issuperset(schema)
        else frozenset(schema["properties"])
    )


def _is_root(here: Any) -> bool:
    return list(getattr(type(here), "model_fields", ())) == ["root"]


def _mapping_entry(here: Mapping[Any, Any], name: str) -> Any:
    """The value of a mapping under a name; a key that is not text is compared by its text."""
    found = here.get(name, _MISSING)
    if found is _MISSING and any(type(key) is not str for key in here):
        texts = {str(key.value if isinstance(key, Enum) else key): key for key in here}
        found = here[texts[name]] if name in texts else _MISSING
    return found


def _read_attribute(here: Any, name: str) -> Any:
    extra = getattr(here, "__pydantic_extra__", None)
    if isinstance(extra, Mapping) and name in extra:
        # An undeclared field may have the name of a method.
        return extra[name]
    try:
        found = getattr(here, name, _MISSING)
    except Exception:
        # Reading an attribute may run other people's code.
        return UNREADABLE
    return found if name in _field_names(here) or not callable(found) else _MISSING


def _field_names(value: Any) -> Sequence[str]:
    kind = type(value)
    return list(getattr(kind, "model_fields", getattr(kind, "__dataclass_fields__", ())))


def _find_leaves(value: Any) -> Iterator[Any]:
    value = reveal_secret(value)
    if isinstance(value, Enum):
        yield from _find_leaves(value.value)
    elif type(value) in PLAIN:
        yield value
    elif isinstance(value, Mapping):
        yield from _find_leaves([*value.keys(), *value.values()])
    elif isinstance(value, LISTS):
        for item in value:
            yield from _find_leaves(item)
    elif hasattr(type(value), "model_fields") or is_dataclass(value):
        extra = getattr(value, "__pydantic_extra__", None) or {}
        yield from _find_leaves([*(getattr(value, name) for name in _field_names(value)), extra])
    else:
        # An iterator can be read only once, and the function needs it.
        yield UNREADABLE if hasattr(value, "__next__") else value
