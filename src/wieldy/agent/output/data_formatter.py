"""Types and schemas in the short forms that Agently shows to a model."""

import datetime
import types
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from wieldy.wire.prompt import Kwargs, kwargs_form


class DataFormatter:
    """Values and schemas as plain data."""

    @staticmethod
    def sanitize(value: Any, remain_type: bool = False) -> Any:
        """The value as JSON-like data; types become their names, or are kept on request."""
        if value is None or isinstance(value, str | int | float | bool):
            return value
        if isinstance(value, datetime.datetime | datetime.date):
            return value.isoformat()
        if get_origin(value) is not None:
            return value if remain_type else _generic_name(value)
        if isinstance(value, type):
            return _class_form(value, remain_type)
        if isinstance(value, Mapping):
            return {str(key): DataFormatter.sanitize(v, remain_type) for key, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            items = [DataFormatter.sanitize(item, remain_type) for item in value]
            return items if isinstance(value, list) else _rebuild_container(value, items)
        if value is Any:
            return value if remain_type else "Any"
        return str(value)

    @staticmethod
    def from_schema_to_kwargs_format(schema: Mapping[str, Any] | None) -> Kwargs | None:
        """The arguments of a schema as `{name: (type, "key: value;…")}`; None if it has none."""
        return kwargs_form(schema)


def _rebuild_container(value: Any, items: list[Any]) -> Any:
    kind = next(each for each in (tuple, set, frozenset) if isinstance(value, each))
    try:
        return kind(items)
    except TypeError:
        # The items of a set may become lists or dicts, which no set can hold.
        return items


def _class_form(value: type, remain_type: bool, seen: tuple[type, ...] = ()) -> Any:
    # A model may have fields of its own type; those are shown by its name.
    if issubclass(value, BaseModel) and value not in seen:
        return {
            name: _field_form(field.annotation, field.description, remain_type, (*seen, value))
            for name, field in value.model_fields.items()
        }
    if remain_type:
        return value
    if issubclass(value, Enum):
        return f"Literal[{', '.join(str(member.value) for member in value)}]"
    return "None" if value is type(None) else value.__name__


def _field_form(
    annotation: Any, description: str | None, remain_type: bool, seen: tuple[type, ...]
) -> tuple[Any, ...]:
    is_class = isinstance(annotation, type) and get_origin(annotation) is None
    if is_class:
        form = _class_form(annotation, remain_type, seen)
    else:
        form = DataFormatter.sanitize(annotation, remain_type)
    return (form, description) if description else (form,)


def _generic_name(value: Any) -> str:
    origin, inner = get_origin(value), get_args(value)
    if origin is Annotated:
        return str(DataFormatter.sanitize(inner[0]))
    if origin in (Union, types.UnionType):
        return " | ".join(map(_type_label, inner))
    if origin is Literal:
        return f"Literal[{', '.join(map(str, inner))}]"
    named = getattr(origin, "__name__", str(origin))
    return f"{named}[{', '.join(map(_type_label, inner))}]" if inner else named


def _type_label(value: Any) -> str:
    if value is Ellipsis:
        return "..."
    if isinstance(value, type) and issubclass(value, BaseModel):
        # Its fields would not fit on a line, and may be of this type again.
        return value.__name__
    return str(DataFormatter.sanitize(value))
