"""The parts of a JSON Schema and their references, and how often they check one value.

A validator checks a value once for each way that leads to a part: two members of a union
that both refer to the next union make four ways, then eight. So a few hundred bytes can
need unlimited work. The counting here visits each part once, however many ways lead to it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urljoin

from wieldy.core.bounded_json import NestedTooDeep, check_depth

from .references import DEFINITIONS, split_reference, step_down

MAX_BRANCHES = 10_000
# A validator calls itself for each step, on a stack that the operating system bounds.
_MAX_DEPTH = 50
# A dict that is used in many places is copied for each of them.
_MAX_COPIES = 1_000_000
# For each `unevaluated…` keyword the validator evaluates the other parts again.
_MAX_LEFTOVERS = 100_000
ENDLESS = 10**12

SAME_LISTS = ("allOf", "anyOf", "oneOf")
SAME = ("not", "if", "then", "else")
SAME_NAMED = ("dependentSchemas", "dependencies")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
INSIDE_NAMED = ("properties", "patternProperties")
INSIDE = (
    "items", "prefixItems", "additionalProperties", "contains", "propertyNames",
    "additionalItems", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_BRANCHING = frozenset({*SAME_LISTS, *SAME, *SAME_NAMED, *REFERENCES})
_NAMED = frozenset({*SAME_NAMED, *INSIDE_NAMED, *DEFINITIONS})
_NESTING = frozenset({*_BRANCHING, *INSIDE, *_NAMED})
_NAMES = frozenset({"$id", "id", "$anchor", "$dynamicAnchor"})
# `dict` comes first: most mappings are dicts, and that check is the quicker one.
_MAPPINGS = (dict, Mapping)
_INSIDE = frozenset({*INSIDE, *INSIDE_NAMED})
_LEFTOVERS = frozenset({"unevaluatedItems", "unevaluatedProperties"})
# Validators know these documents themselves.
_WELL_KNOWN = ("http://json-schema.org/", "https://json-schema.org/")

Node = Mapping[str, Any]
Onward = Callable[[Node], list[Node]]


class SchemaRefused(ValueError):
    """Raised for a schema that needs too much work."""


class SchemaGraph:
    """The parts of one schema, and what each of them refers to.

    Parts are identified by `id()`. `parts` has all of them, `unresolved` the references without
    a target in this schema, and `rings` the parts that lead back to themselves on the same
    value, each with the number of its ring.
    """

    def __init__(self, root: Node) -> None:
        self.root = root
        self.parts: list[Node] = []
        self.unresolved: list[str] = []
        self.rings: dict[int, int] = {}
        self._branching: list[Node] = []
        self._again: dict[int, list[Node]] = {}
        self._shares = False
        self._bases: dict[int, str] = {}
        self._named: dict[str, Any] = {"": root}
        self._add_parts(root, "")

    def check(self) -> None:
        """Raise `SchemaRefused` if one value is checked too often, or too many references deep."""
        if self._shares:
            self._check_copies()
        if self._is_plain():
            return
        counts, depths = self._count_ways()
        if max(counts.values(), default=0) > MAX_BRANCHES:
            raise SchemaRefused(
                f"it has more than {MAX_BRANCHES:,} ways to look at the same value, through "
                "references, anyOf, oneOf, allOf, if and not. Simplify its unions"
            )
        if max(depths.values(), default=0) > _MAX_DEPTH:
            raise SchemaRefused(
                f"more than {_MAX_DEPTH} references or unions follow each other on the same value"
            )
        leftovers = sum(counts[id(n)] for n in self._branching if n.keys() & _LEFTOVERS)
        if leftovers > _MAX_LEFTOVERS:
            raise SchemaRefused("unevaluatedProperties or unevaluatedItems ask for too much")

    def look_again(self, node: Node) -> list[Node]:
        """The parts that check the same value, except those that only close a ring."""
        known = self._again.get(id(node))
        if known is None:
            known = same_parts(node)
            onward = (key for key in REFERENCES if key in node and not self.closes_ring(node, key))
            targets = (self.target(node, key) for key in onward)
            known += (each for each in targets if isinstance(each, _MAPPINGS))
            self._again[id(node)] = known
        return known

    def look_inside(self, node: Node) -> list[Node]:
        """The parts that check what is inside the value."""
        return _inner_parts(node, _INSIDE)

    def leading_to(self, wanted: Callable[[Node], bool]) -> set[int]:
        """The parts that are wanted, and those from which one of them can be reached."""
        above: dict[int, list[int]] = {}
        # The list grows during the loop, because references may lead to unknown parts.
        for node in self.parts:
            for each in (*self.look_again(node), *self.look_inside(node)):
                above.setdefault(id(each), []).append(id(node))
        waiting = [id(node) for node in self.parts if wanted(node)]
        leading = set(waiting)
        while waiting:
            new = [each for each in above.get(waiting.pop(), ()) if each not in leading]
            leading.update(new)
            waiting += new
        return leading

    def closes_ring(self, node: Node, key: str) -> bool:
        """Whether a reference leads back to its own part, on the same value."""
        ring = self.rings.get(id(node))
        return ring is not None and self.rings.get(id(self.target(node, key))) == ring

    def target(self, node: Node, key: str = "$ref") -> Any:
        """The target of a part's reference, or None if it is not in this schema."""
        reference = node.get(key)
        if not isinstance(reference, str):
            return None
        place, _, fragment = reference.partition("#")
        base = self._bases.get(id(node), "")
        address = (urljoin(base, place) or place) if place else base
        # A dynamic reference leads to the outermost anchor of its name, which is the root's.
        dynamic = self._named.get(f"#{fragment}") if key == "$dynamicRef" else None
        found = dynamic or self._find_part(address, fragment)
        if isinstance(found, Mapping) and id(found) not in self._bases:
            self._add_parts(found, address)
        if found is None and not reference.startswith(_WELL_KNOWN):
            self.unresolved.append(reference)
        return found

    def _find_part(self, address: str, fragment: str) -> Any:
        named = self._named.get(f"{address}#{fragment}")
        if named is not None or (fragment and fragment[0] != "/"):
            return named
        return step_down(self._named.get(address), split_reference(f"#{fragment}"))

    def _add_parts(self, part: Node, base: str) -> None:
        """Register this part and all below it, with the base address of their references."""
        waiting = [(part, base)]
        while waiting:
            node, base = waiting.pop()
            if id(node) in self._bases:
                self._shares = True
                continue
            keys = node.keys()
            if not keys.isdisjoint(_NAMES):
                base = self._name_part(node, base)
            self._bases[id(node)] = base
            self.parts.append(node)
            if not keys.isdisjoint(_BRANCHING):
                self._branching.append(node)
            if not keys.isdisjoint(_NESTING):
                waiting += [(each, base) for each in _inner_parts(node)]

    def _name_part(self, node: Node, base: str) -> str:
        """Register the names of a part; returns its base address."""
        for key in ("$id", "id"):
            own = node.get(key)
            if isinstance(own, str) and own[:1] == "#":
                self._named[f"{base}{own}"] = node
            elif isinstance(own, str):
                base = urljoin(base, own.partition("#")[0]) or base
                self._named[base] = node
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(key), str):
                self._named.setdefault(f"{base}#{node[key]}", node)
                self._named.setdefault(f"#{node[key]}", node)
        return base

    def _is_plain(self) -> bool:
        """Whether no reference leads to another choice, so that ways can't multiply."""
        for node in self._branching:
            if not node.keys().isdisjoint(_LEFTOVERS):
                return False
            targets = (self.target(node, key) for key in REFERENCES if key in node)
            for target in targets:
                if isinstance(target, _MAPPINGS) and not target.keys().isdisjoint(_BRANCHING):
                    return False
        return len(self.parts) < MAX_BRANCHES // 2

    def _count_ways(self) -> tuple[dict[int, int], dict[int, int]]:
        """For each part, how many ways lead on from it on the same value, and the longest one."""
        counts = add_up(self._branching, self.look_again)
        if ENDLESS in counts.values():
            self.rings = find_rings(self._branching, self.look_again)
            self._again.clear()
            counts = add_up(self._branching, self.look_again)
        return counts, add_up(self._branching, self.look_again, longest=True)

    def _check_copies(self) -> None:
        copies = add_up([self.root], _inner_parts)[id(self.root)]
        if copies == ENDLESS:
            raise SchemaRefused("it contains itself")
        if copies > _MAX_COPIES:
            raise SchemaRefused(f"it has more than {_MAX_COPIES:,} parts")


def add_up(
    starts: Iterable[Node],
    onward: Onward,
    own: Callable[[Node], int] = lambda node: 1,
    longest: bool = False,
) -> dict[int, int]:
    """The sum over each part and all that follow it, or the longest way through them.

    Each part is visited once, however many ways lead to it. The sum of a part that leads to a
    ring is `ENDLESS`.
    """
    sums: dict[int, int] = {}
    for start in starts:
        waiting: list[tuple[Node, list[Node] | None]] = [(start, None)]
        while waiting:
            node, following = waiting.pop()
            if following is None:
                if id(node) in sums:
                    continue
                # A part that is reached again before it is finished closes a ring.
                sums[id(node)] = ENDLESS
                following = onward(node)
                waiting.append((node, following))
                waiting += [(each, None) for each in following if id(each) not in sums]
            else:
                found = [sums[id(each)] for each in following]
                total = max(found, default=0) if longest else sum(found)
                ends = ENDLESS not in found
                sums[id(node)] = min(ENDLESS - 1, own(node) + total) if ends else ENDLESS
    return sums


def find_rings(starts: Iterable[Node], onward: Onward) -> dict[int, int]:
    """The parts that lead back to themselves, with the number of their ring, by Tarjan."""
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_parts: list[int] = []
    is_open: set[int] = set()
    rings: dict[int, int] = {}
    for start in starts:
        if id(start) in order:
            continue
        waiting = [(start, iter(onward(start)), id(start))]
        while waiting:
            node, rest, key = waiting[-1]
            if key not in order:
                order[key] = lowest[key] = len(order)
                open_parts.append(key)
                is_open.add(key)
            each = next(rest, None)
            if each is None:
                waiting.pop()
                if waiting:
                    above = waiting[-1][2]
                    lowest[above] = min(lowest[above], lowest[key])
                if lowest[key] == order[key]:
                    _close_ring(node, key, onward, open_parts, is_open, rings)
            elif id(each) not in order:
                waiting.append((each, iter(onward(each)), id(each)))
            elif id(each) in is_open:
                lowest[key] = min(lowest[key], order[id(each)])
    return rings


def _close_ring(
    node: Node,
    key: int,
    onward: Onward,
    open_parts: list[int],
    is_open: set[int],
    rings: dict[int, int],
) -> None:
    """Remove the parts of a finished component from the stack; more than one make a ring."""
    members: list[int] = []
    while not members or members[-1] != key:
        members.append(open_parts.pop())
        is_open.discard(members[-1])
    if len(members) > 1 or any(each is node for each in onward(node)):
        rings.update(dict.fromkeys(members, key))


def same_parts(node: Node) -> list[Node]:
    """The parts directly in this one that check the same value, without references."""
    return _inner_parts(node, _BRANCHING)


def _inner_parts(node: Node, keywords: frozenset[str] = _NESTING) -> list[Node]:
    """Every part directly in this one, under these keywords."""
    found: list[Any] = []
    for key, value in node.items():
        if key not in keywords:
            continue
        if isinstance(value, list):
            found += value
        elif key not in _NAMED:
            found.append(value)
        elif isinstance(value, _MAPPINGS):
            found += value.values()
    return [each for each in found if isinstance(each, _MAPPINGS)]


def find_input_fault(schema: Any) -> str | None:
    """Why something can't be the schema of a tool's arguments, or None if it can."""
    if not (
        isinstance(schema, Mapping)
        and schema.get("type", "object") == "object"
        and isinstance(schema.get("properties", {}), Mapping)
    ):
        return 'input_schema must be a dict with "type": "object", and its "properties" a dict'
    try:
        SchemaGraph(schema).check()
        check_depth(schema)
    except (NestedTooDeep, SchemaRefused) as error:
        return f"its input schema can't be used: {error}"
    return None
