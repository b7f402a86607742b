"""Say in one short line what is wrong with an argument: where, what was expected, what came."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import ValidationError

from .names import near

_SHOWN = 5
_EXTRA = ("extra_forbidden", "unexpected_keyword_argument", "additionalProperties")
_OPINIONS = ("value_error", "assertion_error")


def from_pydantic(
    error: ValidationError, arguments: Any, schema: Mapping[str, Any], outer: Mapping[str, str]
) -> list[str]:
    """Problems from pydantic's errors; `outer` maps the function's names to the model's."""
    problems: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False):
        place = [*item["loc"]]
        if place:
            place[0] = outer.get(str(place[0]), place[0])
        path, found = _follow(arguments, place)
        kind = item["type"]
        if kind.startswith("missing"):
            path = place if path == place[:-1] else path
            text = f"missing, expected {describe(at(schema, path), schema)}"
        elif kind in _EXTRA:
            text = _unknown(path, schema)
        else:
            wanted = at(schema, path)
            own_words = kind in _OPINIONS or kind.endswith("_error")
            expected = item["msg"] if own_words else f"expected {describe(wanted, schema)}"
            text = f"{expected}, got {_got(found, wanted)}"
        problems.setdefault(pointer(path), text)
    return limited(f"{path or 'arguments'}: {text}" for path, text in problems.items())


def from_jsonschema(errors: Iterable[Any], schema: Mapping[str, Any]) -> list[str]:
    """Problems from jsonschema-rs's errors."""
    problems: dict[str, str] = {}
    for error in errors:
        path = list(error.instance_path)
        keyword = str(error.schema_path[-1]) if error.schema_path else ""
        wanted = at(schema, path)
        if keyword == "required":
            name = error.kind.property
            path = [*path, name]
            text = f"missing, expected {describe(at(schema, path), schema)}"
        elif keyword == "additionalProperties" and path == []:
            name = error.kind.unexpected[0]
            path = [name]
            text = _unknown(path, schema)
        elif keyword == "additionalProperties":
            text = error.message
        else:
            text = f"expected {describe(wanted, schema)}, got {_got(error.instance, wanted)}"
        problems.setdefault(pointer(path), text)
    return limited(f"{path or 'arguments'}: {text}" for path, text in problems.items())


def limited(problems: Iterable[str]) -> list[str]:
    """The first few problems and how many more there are."""
    listed = list(problems)
    rest = len(listed) - _SHOWN
    return listed if rest <= 0 else [*listed[:_SHOWN], f"and {rest} more"]


def pointer(path: Sequence[Any]) -> str:
    """A path as people write it: `order.lines[0].price`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return _cut(text.removeprefix("."), 120)


def describe(part: Any, schema: Mapping[str, Any], depth: int = 0) -> str:
    """A part of a schema in a few words."""
    part = resolve(part, schema)
    if depth > 3:
        return "something else"
    for key in ("anyOf", "oneOf"):
        if key in part:
            members = dict.fromkeys(describe(member, schema, depth + 1) for member in part[key])
            return " or ".join(members)
    if "const" in part:
        return _json(part["const"])
    if "enum" in part:
        return "one of " + ", ".join(_json(choice) for choice in part["enum"][:12])
    kind = part.get("type", "any value")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if text == "array" and part.get("items"):
        text = f"array of {describe(part['items'], schema, depth + 1)}"
    return text + _bounds(part)


def at(schema: Mapping[str, Any], path: Sequence[Any]) -> Mapping[str, Any]:
    """The schema that speaks about a place in the arguments."""
    here: Any = schema
    for step in path:
        here = _step(resolve(here, schema), step, schema)
    return resolve(here, schema)


def resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow local references, and only those."""
    for _ in range(20):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        target: Any = root
        for part in reference.removeprefix("#").split("/")[1:] if reference[:1] == "#" else [""]:
            key = part.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, Mapping) else None
        schema = target
    return {}


def _step(schema: Mapping[str, Any], step: Any, root: Mapping[str, Any]) -> Any:
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, ()):
            found = _step(resolve(part, root), step, root)
            if found:
                return found
    if isinstance(step, int):
        prefix = schema.get("prefixItems", ())
        return prefix[step] if step < len(prefix) else schema.get("items", {})
    properties = schema.get("properties", {})
    return properties.get(step, schema.get("additionalProperties", {}))


def _follow(arguments: Any, place: Sequence[Any]) -> tuple[list[Any], Any]:
    """The part of pydantic's location that exists in the data, and what stands there.

    pydantic also puts names of union members into a location; they are left out.
    """
    path: list[Any] = []
    here = arguments
    for step in place:
        listed = isinstance(here, list | tuple) and isinstance(step, int) and step < len(here)
        if listed or (isinstance(here, Mapping) and step in here):
            here = here[step]
            path.append(step)
    return path, here


def _unknown(path: Sequence[Any], schema: Mapping[str, Any]) -> str:
    known = list(at(schema, path[:-1]).get("properties", {}))
    close = near(str(path[-1]), known) if path else []
    if close:
        return f"there is no such argument, did you mean {close[0]}?"
    return f"there is no such argument, expected {_cut(', '.join(known), 200) or 'none'}"


def _got(value: Any, schema: Mapping[str, Any]) -> str:
    kind = _kind(value)
    hidden = bool(schema.get("writeOnly")) or schema.get("format") == "password"
    if hidden or kind in ("null", "array", "object") or hasattr(value, "get_secret_value"):
        return kind
    return f"{kind} {_json(value)}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds: list[tuple[Any, str]] = [
        (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"),
        (Mapping, "object"), ((list, tuple), "array"),
    ]  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), type(value).__name__)


def _bounds(schema: Mapping[str, Any]) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    parts = [f"{sign} {schema[key]}" for key, sign in signs.items() if key in schema]
    words = {
        "minLength": "at least {} characters", "maxLength": "at most {} characters",
        "minItems": "at least {} items", "maxItems": "at most {} items",
        "pattern": "matching {}", "format": "as {}", "multipleOf": "a multiple of {}",
    }  # fmt: skip
    parts += [text.format(schema[key]) for key, text in words.items() if key in schema]
    return f" ({', '.join(parts)})" if parts else ""


def _json(value: Any) -> str:
    try:
        short = value[:80] if isinstance(value, str) else value
        return _cut(json.dumps(short, ensure_ascii=False), 60)
    except (TypeError, ValueError, RecursionError):
        return type(value).__name__


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
