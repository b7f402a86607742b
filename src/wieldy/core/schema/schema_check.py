"""Hold values to a schema that came from outside, in bounded time.

The validator looks at a value as often as there are ways to it, which a recursive schema
can multiply at every level of a value. So a schema whose parts could come to much is cut
into places. Each place is a schema of its own, in which a keyword of ours stands for the
others, and what a place says of a value is found out once and remembered for the call.
The work of a call is then counted over pairs of a place and a value, and has an end.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .bounded_keywords import (
    PATTERN,
    PLACE,
    UNIQUE,
    check_patterns,
    is_linear,
    own_keywords,
    pattern_options,
)
from .schema_graph import (
    INSIDE,
    INSIDE_NAMED,
    REFERENCES,
    SAME,
    SAME_LISTS,
    SAME_NAMED,
    Node,
    SchemaGraph,
    SchemaRefused,
    add_up,
)

# What comes to less is not cut: remembering would cost more than looking.
_SMALL = 300
# The event loop stands still meanwhile, so this is a fraction of a second.
_MOST_WORK = 5_000_000
_WORK_PER_PAIR = 20
_WORK_PER_LOOK = 5
_WORK_TO_MAKE = 300
# What names a part has done so once it is written into a place; our keywords are ours alone.
_LEFT_OUT = frozenset({
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs",
    "definitions", PLACE, PATTERN,
})  # fmt: skip
_NOWHERE = -1
# Where these are spoken, nothing beside a reference counts.
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")
_SCALARS = (str, int, float, bool, type(None))


class TooComplex(ValueError):
    """A value that a schema would have to be looked at with too often."""

    def __init__(self) -> None:
        super().__init__("too deep or too large for the schema that it has to be checked with")


class SchemaCheck:
    """A schema that values can be held to. Safe from any thread.

    A schema that asks for too much, or that is none, is a `ValueError`.
    """

    def __init__(self, schema: Node) -> None:
        self.graph = SchemaGraph(schema)
        self.graph.check()
        check_patterns(self.graph.parts)
        self._dialect = {key: schema[key] for key in ("$schema",) if key in schema}
        self.is_old = any(draft in str(schema.get("$schema")) for draft in _OLD_DRAFTS)
        self._now = threading.local()
        self._keywords = own_keywords(self._now)
        self._lock = threading.Lock()
        self._numbers: dict[int, int] = {}
        self._places: list[Node] = []
        self._validators: dict[int, Any] = {}
        self._leaves: dict[int, Any] = {}
        # Made in any case: it refuses what is no schema.
        self._whole = self._validator(dict(schema), UNIQUE)
        if self.graph.unresolved:
            raise SchemaRefused(
                f"it refers to {self.graph.unresolved[0]!r:.200}, which is not there"
            )
        self._again = add_up(self.graph.parts, self.graph.look_again)
        self._sizes = add_up(self.graph.parts, self._onward, _own_size)
        odd = any(_has_odd_pattern(node) for node in self.graph.parts)
        self.is_whole = not odd and not self.graph.rings and self._is_small(schema)

    def fits(self, value: Any) -> bool:
        """Whether a value fits; `TooComplex` where that is too much to find out."""
        if self.is_whole:
            return bool(self._whole.is_valid(value))
        return self.start().fits(self.graph.root, value)

    def start(self) -> "CheckSession":
        """Questions about one value and its parts, which share what was found out."""
        return CheckSession(self, self._now)

    def place(self, node: Node) -> int:
        """The number of a part as a place of its own; what only refers to one is that one."""
        while node.keys() == {"$ref"} and not self.graph.closes_ring(node, "$ref"):
            target = self.graph.target(node)
            if not isinstance(target, Mapping):
                break
            node = target
        with self._lock:
            number = self._numbers.setdefault(id(node), len(self._places))
            if number == len(self._places):
                self._places.append(node)
        return number

    def ask(self, number: int) -> Any:
        """The validator of a place, made when it is first needed."""
        validator = self._validators.get(number)
        if validator is None:
            alone = self._alone(number)
            validator = self._validators[number] = self._validator(alone, self._keywords)
        return validator

    def work(self, number: int) -> int:
        """What it costs to look at a value from a place, the first time more."""
        node = self._places[number]
        size = self._sizes.get(id(node), 1)
        size = size if size <= _SMALL else self._again.get(id(node), 1)
        made = 1 if number in self._validators else _WORK_TO_MAKE
        return _WORK_PER_PAIR + made * size

    def leaf(self, node: Node, keywords: Collection[str]) -> Any:
        """A validator for some of a part's keywords, which hold no other schemas."""
        validator = self._leaves.get(id(node))
        if validator is None:
            own = {key: node[key] for key in keywords}
            validator = self._leaves[id(node)] = self._validator(self._dialect | own, UNIQUE)
        return validator

    def _validator(self, schema: dict[str, Any], keywords: dict[str, Any]) -> Any:
        # Loaded at the first foreign schema, to keep `import wieldy` light.
        import jsonschema_rs  # noqa: PLC0415

        try:
            # The mask stands for values in messages: they may be long, or secret.
            return jsonschema_rs.validator_for(
                schema,
                retriever=_refuse_reference,
                mask="it",
                keywords=keywords,
                pattern_options=pattern_options(),
            )
        except (RecursionError, jsonschema_rs.ReferencingError) as error:
            raise SchemaRefused(str(error)) from error

    def _onward(self, node: Node) -> list[Node]:
        return [*self.graph.look_again(node), *self.graph.look_inside(node)]

    def _is_small(self, node: Node) -> bool:
        return self._sizes.get(id(node), 1) <= _SMALL

    def _alone(self, number: int) -> dict[str, Any]:
        """A place as a schema of its own, with what it refers to on the same value."""
        defined: dict[str, Any] = {}
        waiting = [self._places[number]]
        while waiting:
            node = waiting.pop()
            name = f"p{self.place(node)}"
            if name not in defined:
                defined[name] = self._written(node, self._is_small(self._places[number]), waiting)
        return {**self._dialect, "$ref": f"#/$defs/p{number}", "$defs": defined}

    def _written(self, node: Any, small: bool, waiting: list[Node]) -> Any:
        """A part as it stands in a place; `waiting` hears of what it refers to."""
        if not isinstance(node, Mapping):
            return node
        written: dict[str, Any] = {}
        alone = self.is_old and "$ref" in node
        for key, value in node.items():
            if alone and key != "$ref":
                continue
            if key in REFERENCES:
                written.update(self._reference(node, key, waiting))
            elif key in SAME or key in SAME_LISTS or key in SAME_NAMED:
                written[key] = _each(value, key, lambda e: self._written(e, small, waiting))
            elif key in INSIDE or key in INSIDE_NAMED:
                written[key] = _each(value, key, lambda e: self._inside(e, small, waiting))
            elif key == "pattern" and not is_linear(value):
                written[PATTERN] = value
            elif key not in _LEFT_OUT:
                written[key] = value
        return written

    def _inside(self, node: Any, small: bool, waiting: list[Node]) -> Any:
        if not isinstance(node, Mapping) or small:
            return self._written(node, small, waiting)
        return {PLACE: self.place(node)}

    def _reference(self, node: Node, key: str, waiting: list[Node]) -> dict[str, Any]:
        target = self.graph.target(node, key)
        if not isinstance(target, Mapping):
            # A document that validators know themselves, or a plain true or false.
            return {key: node[key]} if target is None else {} if target else {PLACE: _NOWHERE}
        number = self.place(target)
        if self.graph.closes_ring(node, key):
            return {PLACE: number}
        waiting.append(target)
        return {"$ref": f"#/$defs/p{number}"}


class CheckSession:
    """What was found out about the parts of one value, and how much may still be."""

    def __init__(self, check: SchemaCheck, now: threading.local) -> None:
        self._check = check
        self._now = now
        self._left = _MOST_WORK
        self._known: dict[Any, tuple[bool, Any]] = {}
        self._open: set[Any] = set()
        self._missing: dict[Any, tuple[int, Any]] = {}

    def fits(self, node: Any, value: Any) -> bool:
        """Whether a value fits a part of the schema; `TooComplex` where that is too much."""
        if not isinstance(node, Mapping):
            return node is not False
        first = (self._check.place(node), value)
        waiting = [first]
        while waiting:
            place, here = waiting[-1]
            key = _key(place, here)
            if key in self._known:
                waiting.pop()
                continue
            verdict = self._look(place, here, key)
            if self._missing:
                waiting += self._missing.values()
                continue
            self._known[key] = (verdict, here)
            self._open.discard(key)
        return self._known[_key(*first)][0]

    def recall(self, place: int, value: Any) -> bool:
        """What is known of a pair; one that is not known yet passes, and is looked at next."""
        key = _key(place, value)
        known = self._known.get(key)
        if known is not None:
            return known[0] and self.spend(_WORK_PER_LOOK)
        # A pair that leads back to itself asks for no more than it asks for anyway.
        if key not in self._open and place != _NOWHERE:
            self._missing[key] = (place, value)
        return place != _NOWHERE and self.spend(_WORK_PER_LOOK)

    def spend(self, work: int) -> bool:
        """Count work; gives whether there is some left."""
        self._left -= work
        return self._left >= 0

    def _look(self, place: int, value: Any, key: Any) -> bool:
        self._missing = {}
        self._open.add(key)
        self._now.asking = self
        if not self.spend(self._check.work(place)):
            raise TooComplex
        verdict = bool(self._check.ask(place).is_valid(value))
        # What our keywords raise when there is no work left is taken for a misfit.
        if self._left < 0:
            raise TooComplex
        return verdict


def _refuse_reference(uri: str) -> Any:
    """Never fetch and never read a file because a schema says so."""
    raise ValueError(f"it refers to {uri}, and references to other documents are not followed")


def _key(place: int, value: Any) -> Any:
    """A pair's key: a scalar counts by what it is, since it may be made anew for each look."""
    if isinstance(value, _SCALARS):
        return place, type(value), value
    return place, id(value)


def _own_size(node: Node) -> int:
    """What a part costs by itself: members that are no scalars are compared one by one."""
    listed, required = node.get("enum"), node.get("required")
    slow = sum(isinstance(e, dict | list) for e in listed) if isinstance(listed, list) else 0
    return 1 + slow + (len(required) if isinstance(required, list) else 0)


def _has_odd_pattern(node: Node) -> bool:
    pattern = node.get("pattern")
    return isinstance(pattern, str) and not is_linear(pattern)


def _each(value: Any, key: str, write: Callable[[Any], Any]) -> Any:
    """What stands under a keyword, each schema of it written anew."""
    if isinstance(value, list):
        return [write(each) for each in value]
    if isinstance(value, Mapping) and (key in INSIDE_NAMED or key in SAME_NAMED):
        return {name: write(each) for name, each in value.items()}
    return write(value)
