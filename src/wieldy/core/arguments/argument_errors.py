"""Describe what is wrong with an argument in one line: where, what was expected, what came."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, get_args

from pydantic_core import ValidationError
from pydantic_core.core_schema import ErrorType

from wieldy.core.bounded_json import dump_json
from wieldy.core.names import find_near_names
from wieldy.core.schema.references import resolve_reference, walk_parts
from wieldy.core.secrets.secret import is_secret
from wieldy.core.short_text import cut_text

_SHOWN = 5
_LOOKED_AT = 100
_MAX_LENGTH = 500
_MAX_DEPTH = 60
_MAX_MEMBERS = 8
_MAX_DESCRIBED = 30
_UNEXPLAINED = "arguments: they don't fit the schema, in a way that is too deep to tell"
_PREFIXES = ("Value error, ", "Assertion failed, ")
_TAG = re.compile(
    "Input tag (?P<tag>.*) found using (?P<key>.*) does not match any of the expected tags: "
    "(?P<tags>.*)",
    re.DOTALL,
)
_EXTRA = ("extra_forbidden", "unexpected_keyword_argument")
# These messages say more than the schema, such as which member of a union did not fit.
_OPINIONS = ("value_error", "assertion_error", "literal_error")


def from_pydantic(
    error: ValidationError, arguments: Any, schema: Mapping[str, Any], outer: Mapping[str, str]
) -> list[str]:
    """Problems from pydantic's errors; `outer` maps the function's names to the model's."""
    problems: dict[str, str] = {}
    items = error.errors(include_url=False, include_context=False, include_input=False)
    for item in items[:_LOOKED_AT]:
        place = [*item["loc"]]
        if place:
            place[0] = outer.get(str(place[0]), place[0])
        path, found = _follow_place(arguments, place)
        kind = item["type"]
        if kind.startswith("missing"):
            path = [*_follow_place(arguments, place[:-1])[0], *place[-1:]]
            text = f"missing, expected {describe_schema(at(schema, path), schema)}"
        elif kind in _EXTRA:
            text = _describe_unknown(path, schema)
        else:
            opinion = kind in _OPINIONS or kind not in _pydantic_kinds()
            text = _describe_mismatch(
                found, at(schema, path), schema, plain_message(item["msg"]), opinion=opinion
            )
        problems.setdefault(show_path(path), text)
    return _limit_problems(problems, len(items) - _LOOKED_AT)


def from_misfits(
    misfits: Iterable[tuple[Sequence[Any], str, str]],
    arguments: Any,
    schema: Mapping[str, Any],
    outer: Mapping[str, str],
) -> list[str]:
    """Describe each misfit with a schema from outside, given as path, kind and message."""
    problems: dict[str, str] = {}
    for place, kind, message in misfits:
        path: list[Any] = [*(outer.get(str(step), step) for step in place[:1]), *place[1:]]
        if kind == "missing":
            text = f"missing, expected {describe_schema(at(schema, path), schema)}"
        elif kind == "unknown":
            text = _describe_unknown(path, schema)
        else:
            found = _follow_place(arguments, path)[1]
            text = _describe_mismatch(found, at(schema, path), schema, message, masked=True)
        problems.setdefault(show_path(path), text)
        if len(problems) > _SHOWN:
            return [*_limit_problems(dict(islice(problems.items(), _SHOWN)), 0), "and more"]
    return _limit_problems(problems, 0) or [_UNEXPLAINED]


def plain_message(message: str) -> str:
    """A message of pydantic in the wording of this library's messages."""
    for prefix in _PREFIXES:
        if message.startswith(prefix):
            return message.removeprefix(prefix)
    if message == "Field required":
        return "missing"
    if message == "Extra inputs are not permitted":
        return "there is no such field"
    if found := _TAG.fullmatch(message):
        return f"expected {found['key']} to be one of {found['tags']}, not {found['tag']}"
    if message.startswith("Input should be "):
        return "expected " + message.removeprefix("Input should be ")
    return message


def kind_of(value: Any) -> str:
    """The name that JSON has for this kind of value."""
    if value is None:
        return "null"
    kinds: list[tuple[Any, str]] = [
        (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"),
        (Mapping, "object"), ((list, tuple), "array"),
    ]  # fmt: skip
    return next((name for kind, name in kinds if isinstance(value, kind)), type(value).__name__)


def show_path(path: Sequence[Any]) -> str:
    """A path as people write it: `order.lines[0].price`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return cut_text(text.removeprefix("."), 120)


def describe_schema(
    part: Any, schema: Mapping[str, Any], depth: int = 0, left: list[int] | None = None
) -> str:
    """A part of a schema in a few words."""
    part = resolve_reference(part, schema)
    left = [_MAX_DESCRIBED] if left is None else left
    left[0] -= 1
    if depth > 3 or left[0] < 0:
        return "something else"
    for key in ("anyOf", "oneOf"):
        if key in part:
            listed = part[key][:_MAX_MEMBERS]
            members = dict.fromkeys(
                describe_schema(each, schema, depth + 1, left) for each in listed
            )
            return " or ".join([*members, *["…"] * (len(part[key]) > len(listed))])
    if "const" in part:
        return _short_json(part["const"])
    if "enum" in part:
        more = ", …" if len(part["enum"]) > 12 else ""
        return "one of " + ", ".join(map(_short_json, part["enum"][:12])) + more
    kind = part.get("type", "any value")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if text == "array" and part.get("items"):
        text = f"array of {describe_schema(part['items'], schema, depth + 1, left)}"
    return text + _describe_bounds(part)


def at(schema: Mapping[str, Any], path: Sequence[Any]) -> Mapping[str, Any]:
    """The schema of a place in the arguments."""
    here: Any = schema
    for step in path:
        here = _step_into(resolve_reference(here, schema), step, schema)
    return resolve_reference(here, schema)


def item_schemas(schema: Mapping[str, Any], count: int) -> list[Any]:
    """The schema of each of `count` items; `None` for an item without one."""
    first, rest = item_parts(schema)
    return [*first[:count], *[rest] * (count - len(first))]


def item_parts(schema: Mapping[str, Any]) -> tuple[Sequence[Any], Any]:
    """The schemas of the first items, and the schema of all later items."""
    items = schema.get("items")
    if isinstance(items, list):
        # Before draft 2020-12 `items` held the schemas of the first items.
        return items, schema.get("additionalItems")
    return schema.get("prefixItems", ()), items


def speaks_of_secret(part: Mapping[str, Any]) -> bool:
    """Whether a part of a schema marks its own value as a secret."""
    return part.get("writeOnly") is True or part.get("format") == "password"


def mentions_secret(part: Any, root: Mapping[str, Any]) -> bool:
    """Whether a part of a schema marks its value, or anything inside it, as a secret."""
    return any(map(speaks_of_secret, walk_parts(part, root)))


def _step_into(
    schema: Mapping[str, Any],
    step: Any,
    root: Mapping[str, Any],
    above: tuple[set[int], int] | None = None,
) -> Any:
    seen, depth = above or (set(), 0)
    seen.add(id(schema))
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, ()) if depth < _MAX_DEPTH else ():
            member = resolve_reference(part, root)
            # Several choices may lead to the same part, and a part may lead back to itself.
            found = id(member) not in seen and _step_into(member, step, root, (seen, depth + 1))
            if found:
                return found
    if isinstance(step, int):
        return item_schemas(schema, step + 1)[step] or {}
    properties = schema.get("properties", {})
    return properties.get(step, schema.get("additionalProperties", {}))


def _follow_place(arguments: Any, place: Sequence[Any]) -> tuple[list[Any], Any]:
    """The part of a validator's location that exists in the data, and the value at that place.

    pydantic also puts the names of union members into a location; those are left out.
    """
    path: list[Any] = []
    here = arguments
    for step in place:
        listed = isinstance(here, list | tuple) and isinstance(step, int) and step < len(here)
        if listed or (isinstance(here, Mapping) and step in here):
            here = here[step]
            path.append(step)
    return path, here


def _describe_mismatch(
    value: Any,
    wanted: Mapping[str, Any],
    root: Mapping[str, Any],
    message: str,
    *,
    opinion: bool = False,
    masked: bool = False,
) -> str:
    """Say what was expected and what came, or give the validator's message if it says more."""
    expected, kind = describe_schema(wanted, root), kind_of(value)
    secret = mentions_secret(wanted, root) or is_secret(value)
    got = kind if secret else _describe_value(value)
    same = any(each.split()[0] == kind for each in expected.split(" or ")) and "(" not in expected
    if (opinion or same or expected == "any value") and (masked or not secret):
        return f"{cut_text(message, 200)}, got {got}"
    refused = "its own check refused it" if opinion else f"expected {expected}"
    return f"{refused}, got {got}"


def _describe_unknown(path: Sequence[Any], schema: Mapping[str, Any]) -> str:
    known = list(at(schema, path[:-1]).get("properties", {}))
    close = find_near_names(str(path[-1]), known) if path else []
    if close:
        return f"there is no such argument, did you mean {close[0]}?"
    return f"there is no such argument, expected {cut_text(', '.join(known), 200) or 'none'}"


def _describe_value(value: Any) -> str:
    kind = kind_of(value)
    scalar = kind in ("boolean", "integer", "number", "string")
    return f"{kind} {_short_json(value)}" if scalar else kind


@cache
def _pydantic_kinds() -> frozenset[str]:
    return frozenset(get_args(ErrorType))


def _limit_problems(problems: Mapping[str, str], unseen: int) -> list[str]:
    """The first few problems and how many more there are."""
    lines = (f"{path or 'arguments'}: {text}" for path, text in problems.items())
    listed = [cut_text(line, _MAX_LENGTH) for line in islice(lines, _SHOWN)]
    rest = len(problems) - _SHOWN + max(0, unseen)
    return listed if rest <= 0 else [*listed, f"and {rest} more"]


def _describe_bounds(schema: Mapping[str, Any]) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    parts = [f"{sign} {schema[key]}" for key, sign in signs.items() if key in schema]
    words = {
        "minLength": "at least {} characters", "maxLength": "at most {} characters",
        "minItems": "at least {} items", "maxItems": "at most {} items",
        "pattern": "matching {}", "format": "as {}", "multipleOf": "a multiple of {}",
    }  # fmt: skip
    parts += [text.format(schema[key]) for key, text in words.items() if key in schema]
    return f" ({', '.join(parts)})" if parts else ""


def _short_json(value: Any) -> str:
    try:
        short = value[:80] if isinstance(value, str) else value
        return cut_text(dump_json(short, ensure_ascii=False), 60)
    except (TypeError, ValueError):
        return type(value).__name__
