"""Read and write prompts as YAML, and as JSON with comments and trailing commas.

This module needs the extra `agent`, and is loaded only when a document is read or written.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wieldy.core.bounded_json import NestedTooDeep, bound_reader, dump_json, parse_json

from .output.data_formatter import DataFormatter
from .output.output_text import expand_type, split_pair, type_name
from .output.type_words import read_type

try:
    import json5
    import yaml

    from wieldy.core.arguments.yaml_reader import read_yaml_text
except ImportError as error:
    raise ImportError(
        f'Prompts as documents need more packages ({error}): pip install "wieldy[agent]"'
    ) from error

_TYPE_KEYS = (".type", "$type")
_DESC_KEYS = (".desc", "$desc")
_PAIR_KEYS = frozenset((*_TYPE_KEYS, *_DESC_KEYS))
# A text longer than this can't be a path on any system.
_MAX_PATH = 4096


def read_yaml(path_or_content: str | Path, encoding: str | None = "utf-8") -> Any:
    """The data of a YAML document, in a file or as text; `ValueError` if it is malformed."""
    return parse_yaml(_read_text(path_or_content, encoding))


def parse_yaml(text: str) -> Any:
    """The data of a YAML text; `ValueError` if it is malformed."""
    try:
        return read_yaml_text(text)
    except NestedTooDeep as error:
        raise ValueError(f"The YAML can't be read: it is {error}") from None
    except ValueError as error:
        raise ValueError(f"The YAML can't be read: {error}") from None


def read_json(path_or_content: str | Path, encoding: str | None = "utf-8") -> Any:
    """The data of a JSON5 document, in a file or as text; `ValueError` if it is malformed."""
    text = _read_text(path_or_content, encoding)
    try:
        return parse_json(text)
    except NestedTooDeep as error:
        raise ValueError(f"The JSON can't be read: it is {error}") from None
    except ValueError:
        # Comments and trailing commas need the slower JSON5 reader.
        pass
    try:
        return bound_reader(json5.loads, text)
    except ValueError as error:
        raise ValueError(f"The JSON can't be read: {error}") from None


def write_yaml(values: Mapping[str, Any]) -> str:
    """Slots as YAML."""
    text: str = yaml.safe_dump(
        _document_data(values), indent=2, allow_unicode=True, sort_keys=False
    )
    return text


def write_json_text(values: Mapping[str, Any]) -> str:
    """Slots as JSON."""
    return dump_json(_document_data(values), indent=2, ensure_ascii=False)


def read_output(value: Any) -> Any:
    """An `output` slot of a document: `$type` and `$desc` become `(type, description)`."""
    if isinstance(value, Mapping):
        if value and _PAIR_KEYS.issuperset(value):
            return _read_pair(value)
        return {key: read_output(each) for key, each in value.items()}
    if isinstance(value, list):
        return [read_output(each) for each in value]
    return read_type(value)


def _read_pair(value: Mapping[str, Any]) -> tuple[Any, ...]:
    kinds = [value[key] for key in _TYPE_KEYS if key in value]
    notes = [value[key] for key in _DESC_KEYS if key in value]
    kind = Any if not kinds or kinds[0] is None else read_output(kinds[0])
    return (kind, notes[0]) if notes else (kind,)


def _document_data(values: Mapping[str, Any]) -> dict[str, Any]:
    """Slots as data for a document; nested prompts are written in the same way."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key == "output":
            found[key] = _write_output(value)
        elif key in (".agent", ".request") and isinstance(value, Mapping):
            found[key] = _document_data(value)
        else:
            found[key] = _plain_lists(DataFormatter.sanitize(value))
    return found


def _write_output(value: Any) -> Any:
    if isinstance(value, tuple):
        return _write_pair(value)
    expanded = expand_type(value)
    if isinstance(expanded, Mapping):
        return {str(key): _write_output(each) for key, each in expanded.items()}
    if isinstance(expanded, list | set):
        return [_write_output(each) for each in expanded]
    if expanded is None or isinstance(expanded, str | int | float | bool):
        return expanded
    return type_name(expanded)


def _write_pair(pair: tuple[Any, ...]) -> dict[str, Any]:
    kind, note = split_pair(pair)
    found: dict[str, Any] = {}
    if kind is not Any or len(pair) < 2:
        found["$type"] = _write_output(kind)
    if len(pair) > 1:
        found["$desc"] = note or pair[1]
    return found


def _plain_lists(value: Any) -> Any:
    """The value with tuples and sets as lists, because documents have only lists."""
    if isinstance(value, Mapping):
        return {key: _plain_lists(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain_lists(each) for each in value]
    return value


def _read_text(path_or_content: str | Path, encoding: str | None) -> str:
    if isinstance(path_or_content, Path) or _is_file(path_or_content):
        return Path(path_or_content).read_text(encoding=encoding)
    if not isinstance(path_or_content, str):
        raise TypeError(f"A path or a text is needed, not {path_or_content!r:.200}")
    return path_or_content


def _is_file(text: Any) -> bool:
    if not isinstance(text, str) or len(text) > _MAX_PATH or "\n" in text:
        return False
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
