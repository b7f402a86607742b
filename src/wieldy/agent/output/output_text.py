"""Describe the structure of an answer to the model as JSON with types and descriptions."""

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import TypeIs

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json

from .data_formatter import DataFormatter

_HEAD = "Answer with JSON and nothing else, in exactly this structure:"
_SCHEMA_HEAD = "Answer with JSON and nothing else that fits this JSON Schema:"
_MAX_DEPTH = 12


def describe_output(shape: Any) -> str:
    """The instruction to the model for an answer in JSON of this structure."""
    if isinstance(shape, dict | list) and not shape:
        return "Answer with JSON and nothing else."
    return f"{_HEAD}\n{structure_text(shape)}"


def schema_instruction(schema: Mapping[str, Any]) -> str:
    """The instruction to the model for an answer that fits a JSON Schema."""
    return f"{_SCHEMA_HEAD}\n{dump_json(schema, MAX_WRAPPED, ensure_ascii=False, indent=2)}"


def structure_text(shape: Any, layer: int = 0) -> str:
    """A structure as JSON whose values are types and whose comments are descriptions."""
    expanded = expand_type(split_pair(shape)[0])
    if isinstance(expanded, Mapping):
        entries = [
            (f"{dump_json(str(key), ensure_ascii=False)}: ", value)
            for key, value in expanded.items()
        ]
        return _structure_lines("{", entries, "}", layer)
    if isinstance(expanded, list | set):
        entries = [("", value) for value in expanded]
        return _structure_lines("[", entries, "]", layer, more=bool(entries))
    if isinstance(expanded, str):
        return f"<{expanded}>"
    return f"<{type_name(expanded)}>"


def split_pair(shape: Any) -> tuple[Any, str]:
    """The type and the description of a place in a structure."""
    if not isinstance(shape, tuple):
        return shape, ""
    kind, *rest = shape or (Any,)
    return kind, "; ".join(str(each) for each in rest if each not in (None, ""))


def type_name(kind: Any) -> str:
    """A type in the short form that is shown to models."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    form = DataFormatter.sanitize(kind)
    return kind.__name__ if isinstance(form, dict) else str(form)


def expand_type(kind: Any, seen: tuple[Any, ...] = ()) -> Any:
    """The structure of a type that has one: a model's fields, or the items of a list of models."""
    if _is_model(kind):
        if kind in seen or len(seen) >= _MAX_DEPTH:
            return kind.__name__
        return {
            field.alias or name: _field_pair(field, (*seen, kind))
            for name, field in kind.model_fields.items()
        }
    if get_origin(kind) is list and get_args(kind):
        of = get_args(kind)[0]
        item = expand_type(of, seen)
        # What is no longer expanded must not be expanded again where the structure is shown.
        return [item] if isinstance(item, Mapping | list) or _is_model(of) else kind
    return kind


def _is_model(kind: Any) -> TypeIs[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _field_pair(field: Any, seen: tuple[Any, ...]) -> tuple[Any, ...]:
    inner = expand_type(field.annotation, seen)
    return (inner, field.description) if field.description else (inner,)


def _structure_lines(
    opening: str, entries: list[tuple[str, Any]], closing: str, layer: int, more: bool = False
) -> str:
    if not entries:
        return opening + closing
    indent = "  " * (layer + 1)
    lines = [opening]
    for number, (key, value) in enumerate(entries):
        comma = "," if more or number < len(entries) - 1 else ""
        comment = f" // {note}" if (note := _one_line(split_pair(value)[1])) else ""
        lines.append(f"{indent}{key}{structure_text(value, layer + 1)}{comma}{comment}")
    if more:
        lines.append(f"{indent}...")
    return "\n".join([*lines, "  " * layer + closing])


def _one_line(note: str) -> str:
    return " ".join(note.split())
