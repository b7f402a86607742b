"""Find where a value does not fit a schema from outside, a few places at most.

A validator makes its whole list of errors before the first can be read, each with a copy of
the value. Here the parts of the schema are checked one by one, and only those that refuse
the value are followed.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from wieldy.core.arguments.argument_errors import item_schemas
from wieldy.core.bounded_json import MAX_WRAPPED, LevelCount, NestedTooDeep, dump_json

from .bounded_keywords import PATTERN, PLACE, is_linear, matches
from .schema_check import CheckSession, SchemaCheck, TooComplex
from .schema_graph import INSIDE, INSIDE_NAMED, REFERENCES, SAME, SAME_LISTS, SAME_NAMED, Node

_STRUCTURE = frozenset({
    *SAME, *SAME_LISTS, *SAME_NAMED, *REFERENCES, *INSIDE, *INSIDE_NAMED, "required",
    "dependentRequired", "$defs",
    "definitions", "$schema", "$id", "id", "$anchor", "$dynamicAnchor", PLACE, PATTERN,
})  # fmt: skip
_MISSING = "it is required and missing"
_UNKNOWN = "there is no such property"
_NONE_FITS = "it is not valid under any of the schemas listed in the '{}' keyword"
_SEVERAL_FIT = "it is valid under more than one of the schemas listed in the 'oneOf' keyword"

# A level of a value takes two steps where the schema has a reference for it.
_MAX_DEPTH = 120

Path = tuple[Any, ...]


class Misfit(NamedTuple):
    """One thing that is wrong: its path, its kind, and the validator's message.

    The kind is `missing` or `unknown` for a name, which is then the last step of the path, and
    `wrong` for anything else.
    """

    path: Path
    kind: str
    message: str


def find_misfits(check: SchemaCheck, value: Any) -> Iterator[Misfit]:
    """Say what is wrong with a value that does not fit, as far as the allowed work reaches."""
    session = check.start()
    try:
        yield from _Explainer(check, session).explain(check.graph.root, value, ())
    except (NestedTooDeep, TooComplex):
        return


class _Explainer:
    def __init__(self, check: SchemaCheck, session: CheckSession) -> None:
        self._check = check
        self._graph = check.graph
        self._session = session
        self._seen: set[tuple[int, Path]] = set()
        self._level = LevelCount(_MAX_DEPTH)

    def explain(self, node: Any, value: Any, path: Path) -> Iterator[Misfit]:
        """Collect what is wrong with a value that does not fit a part."""
        if not isinstance(node, Mapping):
            yield Misfit(path, "wrong", "it is not allowed")
            return
        # Several ways may lead to the same part, and a cycle leads back to it.
        if (id(node), path) in self._seen:
            return
        self._seen.add((id(node), path))
        only = self._check.is_old and "$ref" in node
        found = self._explain_same(node, value, path)
        if not only:
            ways = (self._explain_keywords, self._explain_choices, self._explain_inside)
            found = chain(found, *(way(node, value, path) for way in ways))
        count = 0
        with self._level:
            for misfit in found:
                count += 1
                yield misfit
        if not count:
            yield from self._explain_rest(node, value, path)

    def _explain_all(self, parts: Sequence[Any], value: Any, path: Path) -> Iterator[Misfit]:
        for part in parts:
            if not self._session.fits(part, value):
                yield from self.explain(part, value, path)

    def _explain_same(self, node: Node, value: Any, path: Path) -> Iterator[Misfit]:
        """The misfits of the parts that all apply to the same value."""
        targets = [self._graph.target(node, key) for key in REFERENCES if key in node]
        yield from self._explain_all([each for each in targets if each is not None], value, path)
        if self._check.is_old and "$ref" in node:
            return
        yield from self._explain_all(_as_list(node.get("allOf")), value, path)
        if "if" in node:
            branch = "then" if self._session.fits(node["if"], value) else "else"
            yield from self._explain_all([node.get(branch, True)], value, path)
        for key in SAME_NAMED if isinstance(value, Mapping) else ():
            named = [each for name, each in _as_mapping(node.get(key)).items() if name in value]
            held = [each for each in named if isinstance(each, Mapping | bool)]
            yield from self._explain_all(held, value, path)

    def _explain_keywords(self, node: Node, value: Any, path: Path) -> Iterator[Misfit]:
        """The misfits of the part's own keywords, those that contain no schemas."""
        if isinstance(value, Mapping):
            missing = (name for name in _required_names(node, value) if name not in value)
            yield from (Misfit((*path, name), "missing", _MISSING) for name in missing)
        own = [key for key in node if key not in _STRUCTURE]
        pattern = node.get("pattern")
        if isinstance(pattern, str) and not is_linear(pattern):
            own.remove("pattern")
            if isinstance(value, str) and not matches(self._session, pattern, value):
                yield Misfit(path, "wrong", f'it does not match "{pattern}"')
        message = _first_refusal(self._check.leaf(node, own), value) if own else None
        if message is not None:
            yield Misfit(path, "wrong", message)

    def _explain_choices(self, node: Node, value: Any, path: Path) -> Iterator[Misfit]:
        fits = self._session.fits
        for key in ("anyOf", "oneOf"):
            members = _as_list(node.get(key))
            fitting = 0
            for member in members:
                fitting += fits(member, value)
                if fitting and (key == "anyOf" or fitting > 1):
                    break
            if members and not fitting:
                yield Misfit(path, "wrong", _NONE_FITS.format(key))
            elif key == "oneOf" and fitting > 1:
                yield Misfit(path, "wrong", _SEVERAL_FIT)
        if "not" in node and fits(node["not"], value):
            refused = dump_json(node["not"], MAX_WRAPPED, separators=(",", ":"), default=str)
            yield Misfit(path, "wrong", f"{refused:.150} is not allowed for it")

    def _explain_inside(self, node: Node, value: Any, path: Path) -> Iterator[Misfit]:
        if isinstance(value, Mapping):
            return self._explain_members(node, value, path)
        return (
            self._explain_items(node, value, path) if isinstance(value, list | tuple) else iter(())
        )

    def _explain_members(self, node: Node, value: Node, path: Path) -> Iterator[Misfit]:
        others = node.get("additionalProperties", True)
        for name, inner in value.items():
            known = [*self._named_schemas(node, name)]
            if not known and others is False:
                yield Misfit((*path, name), "unknown", _UNKNOWN)
            else:
                yield from self._explain_all(known or [others], inner, (*path, name))
            if not self._session.fits(node.get("propertyNames", True), name):
                yield Misfit((*path, name), "wrong", "its name is not allowed")

    def _named_schemas(self, node: Node, name: str) -> Iterator[Any]:
        """The misfits of properties, by their names."""
        named = _as_mapping(node.get("properties"))
        if name in named:
            yield named[name]
        for pattern, each in _as_mapping(node.get("patternProperties")).items():
            if matches(self._session, pattern, name):
                yield each

    def _explain_items(self, node: Node, value: Sequence[Any], path: Path) -> Iterator[Misfit]:
        for place, (item, part) in enumerate(
            zip(value, item_schemas(node, len(value)), strict=True)
        ):
            yield from self._explain_all([True if part is None else part], item, (*path, place))
        wanted = node.get("contains", True) if node.get("minContains", 1) else True
        if wanted is not True and not any(self._session.fits(wanted, item) for item in value):
            yield Misfit(path, "wrong", "none of its items is what it has to contain")

    def _explain_rest(self, node: Node, value: Any, path: Path) -> Iterator[Misfit]:
        """The remaining misfits: an unknown property, or something without a precise place."""
        if node.get("unevaluatedProperties") is False and isinstance(value, Mapping):
            spoken = [*self._same_value(node)]
            for name in value:
                if not any(True for part in spoken for _ in self._named_schemas(part, name)):
                    yield Misfit((*path, name), "unknown", _UNKNOWN)
                    return
        yield Misfit(path, "wrong", "it does not fit")

    def _same_value(self, node: Node) -> Iterator[Node]:
        waiting, seen = [node], {id(node)}
        while waiting:
            here = waiting.pop()
            yield here
            new = [each for each in self._graph.look_again(here) if id(each) not in seen]
            seen |= {id(each) for each in new}
            waiting += new


def _required_names(node: Node, value: Node) -> Iterator[str]:
    """The names that are required, always or because of other names."""
    yield from _as_list(node.get("required"))
    for key in ("dependentRequired", "dependencies"):
        for name, needed in _as_mapping(node.get(key)).items():
            yield from _as_list(needed) if name in value else ()


def _first_refusal(validator: Any, value: Any) -> str | None:
    """The validator's first error for a value, or None."""
    try:
        validator.validate(value)
    except ValueError as error:
        # Only what the schema says has a message; otherwise the validator itself gave up.
        return str(getattr(error, "message", "it is nested too deeply to be checked"))
    return None


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
