"""Check values against a schema from outside, in bounded time.

A validator checks a value once for each way that leads to it, and a recursive schema can
multiply these ways at every level of a value. So a schema that could need much work is cut
into places. Each place is a schema of its own, in which our keyword refers to other places.
The result of a place for a value is computed once and remembered for the call. The work of
a call is counted over pairs of a place and a value, and is limited.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from wieldy.core.bounded_json import check_depth

from .bounded_keywords import (
    PATTERN,
    PLACE,
    UNIQUE,
    check_patterns,
    is_linear,
    own_keywords,
    pattern_options,
)
from .references import write_reference
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

# A schema with less work is not cut, because remembering would cost more than checking.
_SMALL = 300
# A check blocks the event loop, so this much work takes a fraction of a second.
_MAX_WORK = 5_000_000
_WORK_PER_PAIR = 20
_WORK_PER_LOOK = 5
_WORK_TO_MAKE = 300
# Keywords that name a part are not needed inside a place, and our own may not come from outside.
_LEFT_OUT = frozenset({
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs",
    "definitions", PLACE, PATTERN,
})  # fmt: skip
_NOWHERE = -1
# In these drafts the keywords beside a reference are ignored.
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")
_SCALARS = (str, int, float, bool, type(None))


class TooComplex(ValueError):
    """Raised if checking a value takes too much work."""

    def __init__(self) -> None:
        super().__init__("too deep or too large for the schema that it has to be checked with")


class SchemaCheck:
    """A schema that values are checked against. Safe from any thread.

    It raises `ValueError` for a schema that needs too much work or is invalid.
    """

    def __init__(self, schema: Node) -> None:
        self.graph = SchemaGraph(schema)
        self.graph.check()
        check_depth(schema)
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
        # This is made in any case, because it refuses an invalid schema.
        self._whole = self._make_validator(dict(schema), UNIQUE)
        if self.graph.unresolved:
            raise SchemaRefused(
                f"it refers to {self.graph.unresolved[0]!r:.200}, which is not there"
            )
        self._again = add_up(self.graph.parts, self.graph.look_again)
        self._sizes = add_up(self.graph.parts, self._next_nodes, _own_size)
        odd = any(_has_odd_pattern(node) for node in self.graph.parts)
        self.is_whole = not odd and not self.graph.rings and self._is_small(schema)

    def fits(self, value: Any) -> bool:
        """Whether a value fits; `TooComplex` if that takes too much work."""
        if self.is_whole:
            return bool(self._whole.is_valid(value))
        return self.start().fits(self.graph.root, value)

    def start(self) -> "CheckSession":
        """A session for one value and its parts, whose results are shared."""
        return CheckSession(self, self._now)

    def place(self, node: Node) -> int:
        """The number of a part's place; a part that is only a reference has its target's place."""
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
            alone = self._schema_of(number)
            validator = self._validators[number] = self._make_validator(alone, self._keywords)
        return validator

    def work(self, number: int) -> int:
        """The work of checking a value at a place; the first time costs more."""
        node = self._places[number]
        size = self._sizes.get(id(node), 1)
        size = size if size <= _SMALL else self._again.get(id(node), 1)
        made = 1 if number in self._validators else _WORK_TO_MAKE
        return _WORK_PER_PAIR + made * size

    def leaf(self, node: Node, keywords: Collection[str]) -> Any:
        """A validator for some of a part's keywords, which contain no schemas."""
        validator = self._leaves.get(id(node))
        if validator is None:
            own = {key: node[key] for key in keywords}
            validator = self._leaves[id(node)] = self._make_validator(self._dialect | own, UNIQUE)
        return validator

    def _make_validator(self, schema: dict[str, Any], keywords: dict[str, Any]) -> Any:
        # Loaded at the first foreign schema, to keep `import wieldy` light.
        import jsonschema_rs  # noqa: PLC0415

        try:
            # Values in messages are replaced by the mask, because they may be long or secret.
            return jsonschema_rs.validator_for(
                schema,
                retriever=_refuse_reference,
                mask="it",
                keywords=keywords,
                pattern_options=pattern_options(),
            )
        except jsonschema_rs.ReferencingError as error:
            raise SchemaRefused(str(error)) from error

    def _next_nodes(self, node: Node) -> list[Node]:
        return [*self.graph.look_again(node), *self.graph.look_inside(node)]

    def _is_small(self, node: Node) -> bool:
        return self._sizes.get(id(node), 1) <= _SMALL

    def _schema_of(self, number: int) -> dict[str, Any]:
        """A place as a schema of its own, with the targets of its references on the same value."""
        defined: dict[str, Any] = {}
        waiting = [self._places[number]]
        while waiting:
            node = waiting.pop()
            name = f"p{self.place(node)}"
            if name not in defined:
                defined[name] = self._write_part(
                    node, self._is_small(self._places[number]), waiting
                )
        return {**self._dialect, "$ref": write_reference("$defs", f"p{number}"), "$defs": defined}

    def _write_part(self, node: Any, small: bool, waiting: list[Node]) -> Any:
        """A part as it is written in a place; targets of references are added to `waiting`."""
        if not isinstance(node, Mapping):
            return node
        written: dict[str, Any] = {}
        alone = self.is_old and "$ref" in node
        for key, value in node.items():
            if alone and key != "$ref":
                continue
            if key in REFERENCES:
                written.update(self._write_reference(node, key, waiting))
            elif key in SAME or key in SAME_LISTS or key in SAME_NAMED:
                written[key] = _rewrite_each(
                    value, key, lambda e: self._write_part(e, small, waiting)
                )
            elif key in INSIDE or key in INSIDE_NAMED:
                written[key] = _rewrite_each(
                    value, key, lambda e: self._write_inside(e, small, waiting)
                )
            elif key == "pattern" and not is_linear(value):
                written[PATTERN] = value
            elif key not in _LEFT_OUT:
                written[key] = value
        return written

    def _write_inside(self, node: Any, small: bool, waiting: list[Node]) -> Any:
        if not isinstance(node, Mapping) or small:
            return self._write_part(node, small, waiting)
        return {PLACE: self.place(node)}

    def _write_reference(self, node: Node, key: str, waiting: list[Node]) -> dict[str, Any]:
        target = self.graph.target(node, key)
        if not isinstance(target, Mapping):
            # The target is a document that validators know themselves, or a boolean schema.
            return {key: node[key]} if target is None else {} if target else {PLACE: _NOWHERE}
        number = self.place(target)
        if self.graph.closes_ring(node, key):
            return {PLACE: number}
        waiting.append(target)
        return {"$ref": write_reference("$defs", f"p{number}")}


class CheckSession:
    """The results for one value and its parts, and how much work is left."""

    def __init__(self, check: SchemaCheck, now: threading.local) -> None:
        self._check = check
        self._now = now
        self._left = _MAX_WORK
        self._known: dict[Any, tuple[bool, Any]] = {}
        self._open: set[Any] = set()
        self._missing: dict[Any, tuple[int, Any]] = {}

    def fits(self, node: Any, value: Any) -> bool:
        """Whether a value fits a part of the schema; `TooComplex` if that takes too much work."""
        if not isinstance(node, Mapping):
            return node is not False
        first = (self._check.place(node), value)
        waiting = [first]
        while waiting:
            place, here = waiting[-1]
            key = _pair_key(place, here)
            if key in self._known:
                waiting.pop()
                continue
            verdict = self._look_once(place, here, key)
            if self._missing:
                waiting += self._missing.values()
                continue
            self._known[key] = (verdict, here)
            self._open.discard(key)
        return self._known[_pair_key(*first)][0]

    def recall(self, place: int, value: Any) -> bool:
        """The result of a pair; an unknown pair passes for now, and is checked next."""
        key = _pair_key(place, value)
        known = self._known.get(key)
        if known is not None:
            return known[0] and self.spend(_WORK_PER_LOOK)
        # A pair that leads back to itself adds no further condition.
        if key not in self._open and place != _NOWHERE:
            self._missing[key] = (place, value)
        return place != _NOWHERE and self.spend(_WORK_PER_LOOK)

    def spend(self, work: int) -> bool:
        """Count work; returns whether any is left."""
        self._left -= work
        return self._left >= 0

    def _look_once(self, place: int, value: Any, key: Any) -> bool:
        self._missing = {}
        self._open.add(key)
        self._now.asking = self
        if not self.spend(self._check.work(place)):
            raise TooComplex
        verdict = bool(self._check.ask(place).is_valid(value))
        # If the work is used up, our keywords fail, and the validator reports a misfit.
        if self._left < 0:
            raise TooComplex
        return verdict


def _refuse_reference(uri: str) -> Any:
    """Never fetch and never read a file because a schema says so."""
    raise ValueError(f"it refers to {uri}, and references to other documents are not followed")


def _pair_key(place: int, value: Any) -> Any:
    """A pair's key; a scalar is identified by value, as it may be a new object each time."""
    if isinstance(value, _SCALARS):
        return place, type(value), value
    return place, id(value)


def _own_size(node: Node) -> int:
    """The work of a part alone; enum members that are not scalars are compared one by one."""
    listed, required = node.get("enum"), node.get("required")
    slow = sum(isinstance(e, dict | list) for e in listed) if isinstance(listed, list) else 0
    return 1 + slow + (len(required) if isinstance(required, list) else 0)


def _has_odd_pattern(node: Node) -> bool:
    pattern = node.get("pattern")
    return isinstance(pattern, str) and not is_linear(pattern)


def _rewrite_each(value: Any, key: str, write: Callable[[Any], Any]) -> Any:
    """The value of a keyword, with each schema in it rewritten."""
    if isinstance(value, list):
        return [write(each) for each in value]
    if isinstance(value, Mapping) and (key in INSIDE_NAMED or key in SAME_NAMED):
        return {name: write(each) for name, each in value.items()}
    return write(value)
