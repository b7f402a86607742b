"""Remove the arguments that presets fill in from a given schema."""

from collections.abc import Mapping
from typing import Any

from .references import (
    DEFINITIONS,
    last_name,
    locate_part,
    resolve_reference,
    used_definitions,
    write_reference,
)

_CHOICES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else", "not")
# Keywords by property name: the names or the schema that apply if the property is there.
_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")


def without_filled_in(schema: Mapping[str, Any], presets: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object without the names in `presets`, wherever it mentions them.

    The presets count as given: a requirement of one is met, a condition on another value of one
    is false, and what a preset requires is required.
    """
    return _Filling(schema, presets).whole()


class _Filling:
    """Walks through all parts of a schema that describe the arguments as a whole.

    A definition that such a part refers to may also be used elsewhere. So the definition stays,
    and a changed copy is made for the part.
    """

    def __init__(self, root: Mapping[str, Any], presets: Mapping[str, Any]) -> None:
        self._root = root
        self._presets = presets
        # A preset may be meant for other tools.
        described = resolve_reference(root, root).get("properties", {})
        self._count = len(presets.keys() & {*described, *root.get("properties", {})})
        # The replacement of each such reference: another reference, or False.
        self._references: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def whole(self) -> dict[str, Any]:
        """The whole schema. Its own description of a preset is dropped without a comparison."""
        plain = self._fill_keywords(self._open_root())
        if self._made:
            plain["$defs"] = {**plain.get("$defs", {}), **self._made}
        return _without_unused(plain, self._references)

    def _open_root(self) -> Mapping[str, Any]:
        """The schema, with a reference at its root replaced by the target."""
        root = self._root
        if not isinstance(root.get("$ref"), str):
            return root
        own = {key: value for key, value in root.items() if key != "$ref"}
        target = resolve_reference(root, root)
        # The target is inlined, so a reference to it is resolved already.
        self._references[root["$ref"]] = True
        if own.keys() & target.keys():
            return {**own, "allOf": [*own.get("allOf", ()), target]}
        return {**target, **own}

    def _fill_part(self, part: Any) -> Any:
        """A part; False if the presets contradict it."""
        if not isinstance(part, Mapping):
            return part
        described = part.get("properties", {})
        if any(self._contradicts(name, each) for name, each in described.items()):
            return False
        filled = self._fill_keywords(part)
        reference = part.get("$ref")
        if isinstance(reference, str):
            now = self._fill_reference(reference)
            if now is False:
                return False
            filled["$ref"] = now
        return filled

    def _fill_reference(self, reference: str) -> Any:
        """The new reference of a part; False if the presets contradict its target."""
        known = self._references.get(reference)
        if isinstance(known, str) or known is False:
            return known
        name = f"{last_name(reference)}-{len(self._references) + 1}"
        # The target may refer to itself.
        self._references[reference] = write_reference("$defs", name)
        target = resolve_reference({"$ref": reference}, self._root)
        made = self._fill_part(target)
        if made is False:
            self._references[reference] = False
        elif made == target:
            self._references[reference] = reference
        else:
            self._made[name] = made
        return self._references[reference]

    def _fill_keywords(self, part: Mapping[str, Any]) -> dict[str, Any]:
        plain = dict(part)
        self._fill_names(plain)
        for key in _DEPENDENT:
            self._fill_dependents(plain, key)
        for key in _CHOICES:
            if isinstance(plain.get(key), list):
                choices = [self._fill_part(each) for each in plain.pop(key)]
                plain.update(_simplify_choice(key, choices))
        for key in _CONDITIONS:
            if key in plain:
                plain[key] = self._fill_part(plain[key])
        return {key: value for key, value in plain.items() if key != "required" or value}

    def _fill_names(self, plain: dict[str, Any]) -> None:
        named = plain.get("properties")
        if isinstance(named, Mapping):
            plain["properties"] = {k: v for k, v in named.items() if k not in self._presets}
        if isinstance(plain.get("required"), list | tuple):
            plain["required"] = self._other_names(plain["required"])
        if isinstance(plain.get("minProperties"), int):
            plain["minProperties"] = max(0, plain["minProperties"] - self._count)
        for key in ("default", "examples"):
            if key in plain:
                plain[key] = self._fill_example(plain[key])

    def _fill_dependents(self, plain: dict[str, Any], key: str) -> None:
        given = plain.get(key)
        if not isinstance(given, Mapping):
            return
        kept: dict[str, Any] = {}
        for name, then in given.items():
            names = self._other_names(then) if isinstance(then, list) else None
            if name not in self._presets:
                if names != []:
                    kept[name] = self._fill_part(then) if names is None else names
            elif names is None:
                plain["allOf"] = [*plain.get("allOf", ()), then]
            else:
                plain["required"] = [*dict.fromkeys((*plain.get("required", ()), *names))]
        plain[key] = kept
        if not kept:
            del plain[key]

    def _contradicts(self, name: str, described: Any) -> bool:
        """Whether a part applies only to values of an argument that differ from its preset."""
        if name not in self._presets:
            return False
        told = resolve_reference(described, self._root) if isinstance(described, Mapping) else {}
        value = self._presets[name]
        listed = told["enum"] if isinstance(told.get("enum"), list) else None
        return ("const" in told and told["const"] != value) or (
            listed is not None and value not in listed
        )

    def _other_names(self, names: Any) -> list[Any]:
        return [name for name in names if name not in self._presets]

    def _fill_example(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._fill_example(each) for each in value]
        if isinstance(value, Mapping):
            return {key: each for key, each in value.items() if key not in self._presets}
        return value


def _simplify_choice(key: str, choices: list[Any]) -> dict[str, Any]:
    """A choice without impossible members, and without members that require nothing."""
    if key == "allOf":
        left = [each for each in choices if each not in ({}, True)]
        return {key: left} if left else {}
    left = [each for each in choices if each is not False] or choices
    free = key == "anyOf" and any(each in ({}, True) for each in left)
    return {} if free else {key: left}


def _without_unused(schema: dict[str, Any], references: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without definitions that are no longer used."""
    used = used_definitions(schema)
    for reference in references:
        home, name = [*(locate_part(reference, schema) or ()), "", ""][:2]
        held = schema.get(home)
        if isinstance(held, Mapping) and name in held and (home, name) not in used:
            schema = {**schema, home: {k: v for k, v in held.items() if k != name}}
    return {key: each for key, each in schema.items() if key not in DEFINITIONS or each}
