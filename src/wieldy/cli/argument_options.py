"""Read arguments from the command line according to the tool's schema: `--arg` and JSON text."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wieldy.core.bounded_json import parse_json
from wieldy.core.errors import WieldyError
from wieldy.core.names import find_near_names
from wieldy.core.schema.references import walk_choices


class ArgumentError(WieldyError):
    """Arguments that can't be read; the message says what to write."""


def read_arguments(
    schema: Mapping[str, Any], pairs: Iterable[str], text: str | None = None
) -> dict[str, Any]:
    """The arguments from JSON text and `name=value` pairs; a pair overrides the JSON text.

    A string parameter keeps the text unchanged. For other parameters the text is parsed as
    JSON if possible, and the tool checks the result. `@file` reads a file, `@@` stands for a
    literal @. A list may be given element by element.
    """
    arguments = _read_object(text)
    fresh: set[str] = set()
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ArgumentError(f"--arg takes name=value, not {pair!r}.")
        kinds = _allowed_kinds(_find_property(schema, name), schema)
        read = _read_value(_read_text(value), kinds)
        if name not in fresh:
            arguments[name] = read
        elif "array" in kinds:
            arguments[name] = [*_as_list(arguments[name]), *_as_list(read)]
        else:
            raise ArgumentError(f"The argument {name!r} is given twice.")
        fresh.add(name)
    return arguments


def _read_object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        arguments = parse_json(_read_text(text))
    except ValueError as error:
        raise ArgumentError(
            f"--arguments takes a JSON object, and this is not JSON: {error}"
        ) from error
    if not isinstance(arguments, dict):
        raise ArgumentError(f"--arguments takes a JSON object, not {type(arguments).__name__}.")
    return arguments


def _read_text(value: str) -> str:
    """The text itself, or the content of the file that it names."""
    if value.startswith("@@"):
        return value[1:]
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ArgumentError(f"The file {value[1:]!r} can't be read: {error}") from error


def _find_property(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    known = schema.get("properties", {})
    if name in known:
        found: Mapping[str, Any] = known[name] if isinstance(known[name], Mapping) else {}
        return found
    others = schema.get("additionalProperties")
    # The tool may repair a misspelt name, but without a schema the value's type is unknown here.
    if others:
        return others if isinstance(others, Mapping) else {}
    hint = find_near_names(name, known)
    there = f"Did you mean {hint[0]!r}?" if hint else _list_arguments(known)
    raise ArgumentError(f"There is no argument {name!r}. {there}")


def _list_arguments(known: Mapping[str, Any]) -> str:
    return f"The arguments are: {', '.join(known)}." if known else "The tool takes no arguments."


def _allowed_kinds(schema: Any, root: Mapping[str, Any]) -> set[str]:
    """The types that a schema allows, as far as it says so."""
    found: set[str] = set()
    for part in walk_choices(schema, root):
        kinds = part.get("type", ())
        found |= {kinds} if isinstance(kinds, str) else {kind for kind in kinds if kind}
        for value in part.get("enum", [part["const"]] if "const" in part else []):
            found |= {"string"} if isinstance(value, str) else {"other"}
    return found


def _read_value(text: str, kinds: set[str]) -> Any:
    if "string" in kinds:
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
