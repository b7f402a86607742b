"""Find, merge, copy and fill in values in nested dicts and lists."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from wieldy.core.bounded_json import check_depth
from wieldy.core.schema.references import read_step

PathStyle = Literal["dot", "slash"]

_PLACEHOLDER = re.compile(r"\$\{\s*([^${}]+?)\s*\}")
_DOT_STEP = re.compile(r'\.?(?:\["((?:[^"\\]|\\.)*)"\]|\[(\d+|\*)\]|([^.\[\]]+))')
_MISSING = object()


def merge_values(lower: Any, upper: Any) -> Any:
    """Merge two values: dicts are merged, lists are extended, anything else is overridden."""
    if isinstance(lower, Mapping) and isinstance(upper, Mapping):
        merged = dict(lower)
        for key, value in upper.items():
            merged[key] = merge_values(merged[key], value) if key in merged else value
        return merged
    if isinstance(lower, list) and isinstance(upper, list):
        return [*lower, *upper]
    return upper


def copy_containers(value: Any) -> Any:
    """A copy of the containers; the values in them are shared."""
    if type(value) is dict:
        return {key: copy_containers(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(copy_containers, value))
    return value


def fill_placeholders(value: Any, mappings: Mapping[str, Any] | None) -> Any:
    """Replace each `${name}` in keys and values.

    A text that consists of one placeholder becomes the object itself. A placeholder whose name
    is not in the mappings is left as it is.

    Raises:
        ValueError: The value, or one that is put into a text, is nested too deep or contains
            itself.
    """
    check_depth(value)
    return _fill_value(value, mappings) if mappings else value


def fill_name(name: str, mappings: Mapping[str, Any] | None) -> str:
    """A name as text, with its placeholders filled; `ValueError` as for `fill_placeholders`."""
    filled = fill_placeholders(name, mappings)
    check_depth(filled)
    return str(filled)


def _fill_value(value: Any, mappings: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return _fill_text(value, mappings)
    if isinstance(value, Mapping):
        return {
            _fill_value(key, mappings): _fill_value(each, mappings) for key, each in value.items()
        }
    if type(value) in (list, tuple, set):
        return type(value)(_fill_value(each, mappings) for each in value)
    return value


def _fill_text(text: str, mappings: Mapping[str, Any]) -> Any:
    whole = _PLACEHOLDER.fullmatch(text)
    if whole is not None and whole[1] in mappings:
        return mappings[whole[1]]
    return _PLACEHOLDER.sub(lambda found: _placeholder_text(found, mappings), text)


def _placeholder_text(found: re.Match[str], mappings: Mapping[str, Any]) -> str:
    if found[1] not in mappings:
        return found[0]
    check_depth(mappings[found[1]])
    return str(mappings[found[1]])


def split_key_path(path: str, style: PathStyle = "dot") -> list[str | int]:
    """The steps of a path: keys, indexes, and `*` for every index.

    Dot paths are `l[0].k`, `l[*].k` and `a["b.c"]`; slash paths are `l/0/k` with or without
    a leading slash, and so are `l/[0]/k`. `ValueError` is raised if the path can't be read.
    """
    if style == "slash":
        return [_slash_step(step) for step in path.removeprefix("/").split("/")] if path else []
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _DOT_STEP.match(path, at)
        if found is None:
            raise ValueError(f"{path!r} is no path: write it as in a.b[0].c")
        quoted, index, key = found.groups()
        steps.append(_dot_step(quoted, index, key))
        at = found.end()
    return steps


def write_slash_path(path: str) -> str:
    """A slash path as events have it, with its indexes in brackets: `/l/[0]/k`."""
    if not path:
        return path
    pieces = []
    for step, given in zip(
        split_key_path(path, "slash"), path.removeprefix("/").split("/"), strict=True
    ):
        is_index = isinstance(step, int) or step == "*"
        pieces.append(f"/[{step}]" if is_index else f"/{given}")
    return "".join(pieces)


def _slash_step(step: str) -> str | int:
    in_brackets = step[1:-1] if step[:1] == "[" and step[-1:] == "]" else step
    if in_brackets.isdecimal():
        return int(in_brackets)
    if in_brackets == "*":
        return "*"
    return read_step(step)


def _dot_step(quoted: str | None, index: str | None, key: str | None) -> str | int:
    if index is not None:
        return index if index == "*" else int(index)
    if quoted is not None:
        return re.sub(r"\\(.)", r"\1", quoted)
    return key or ""


def find_values(data: Any, path: str, style: PathStyle = "dot") -> list[Any] | None:
    """The values at a path, several if it has a star; None if a value is missing."""
    found = [data]
    for step in split_key_path(path, style):
        found = [inner for each in found for inner in _step_into(each, step)]
        if not found or any(each is _MISSING for each in found):
            return None
    return found


def _step_into(data: Any, step: str | int) -> Iterator[Any]:
    if step == "*" and isinstance(data, list | tuple):
        yield from data
    elif isinstance(data, Mapping):
        yield data.get(step, data.get(str(step), _MISSING))
    elif isinstance(data, list | tuple) and isinstance(step, int):
        yield data[step] if step < len(data) else _MISSING
    else:
        yield _MISSING


def get_dotted(data: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """The value of a key, or of nested keys joined by dots."""
    if key in data:
        return data[key]
    found: Any = data
    for step in key.split("."):
        if not isinstance(found, Mapping) or step not in found:
            return default
        found = found[step]
    return found


def nest_dotted(key: str, value: Any) -> dict[str, Any]:
    """A nested dict that has a value under keys joined by dots."""
    *outer, last = key.split(".")
    nested = {last: value}
    for step in reversed(outer):
        nested = {step: nested}
    return nested
