"""Count how often a validator without a memory would check the parts of one value.

Validators of models try every member of a union, at every level of a value, and keep an
error for each. If a union leads back to itself through several members, this multiplies.
Whether it does for one value is counted here, over pairs of a part of the schema and a part
of the value, each visited once.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wieldy.core.arguments.argument_errors import item_schemas

from .schema_graph import Node, SchemaGraph, find_rings

_SCALARS = (str, int, float, bool, type(None))
_MAX_PAIRS = 200_000
# With a discriminator, a validator tries only the member that is meant.
_TOLD = "discriminator"

Pair = tuple[Any, Any]


def multiplies(graph: SchemaGraph) -> bool:
    """Whether the number of ways can multiply with the depth of a value."""
    rings = find_rings(
        graph.parts, lambda node: [*graph.look_again(node), *graph.look_inside(node)]
    )
    for node in graph.parts:
        members = [*_as_list(node.get("anyOf")), *_as_list(node.get("oneOf"))]
        ring = rings.get(id(node))
        if ring is not None and _TOLD not in node:
            same = [each for each in members if rings.get(id(each)) == ring]
            if len(same) > 1:
                return True
    return False


def count_ways(graph: SchemaGraph, value: Any, most: int) -> int:
    """The number of checks of a value and its parts, up to `most + 1`."""
    sums: dict[Any, int] = {}
    waiting: list[tuple[Pair, list[Pair] | None]] = [((graph.root, value), None)]
    while waiting:
        pair, following = waiting.pop()
        key = _pair_key(pair)
        if following is None:
            if key in sums:
                continue
            if len(sums) > _MAX_PAIRS:
                return most + 1
            # A pair that leads back to itself on the same value is not counted again.
            sums[key] = 0
            following = [*_next_pairs(graph, *pair)]
            waiting.append((pair, following))
            waiting += [(each, None) for each in following]
        else:
            sums[key] = min(most + 1, 1 + sum(sums[_pair_key(each)] for each in following))
    return sums[_pair_key((graph.root, value))]


def _next_pairs(graph: SchemaGraph, node: Node, value: Any) -> Iterator[Pair]:
    yield from ((each, value) for each in graph.look_again(node))
    found: Iterable[Pair] = ()
    if isinstance(value, Mapping):
        named, others = node.get("properties", {}), node.get("additionalProperties")
        found = ((named.get(name, others), inner) for name, inner in value.items())
    elif isinstance(value, list | tuple):
        found = zip(item_schemas(node, len(value)), value, strict=True)
    yield from ((part, inner) for part, inner in found if isinstance(part, Mapping))


def _pair_key(pair: Pair) -> Any:
    node, value = pair
    return id(node), (type(value), value) if isinstance(value, _SCALARS) else id(value)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
