"""Make a pydantic model from the structure of an answer."""

from collections.abc import Mapping
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    RootModel,
    TypeAdapter,
    create_model,
)

from .output_text import split_pair
from .type_words import read_type

_CONFIG = ConfigDict(extra="allow", protected_namespaces=(), populate_by_name=True)


def make_model(shape: Any, name: str = "Output") -> type[BaseModel]:
    """A model for nested dicts and lists of `(type, description)`.

    Fields that the model left out are None. A list becomes a model with a `root`.
    """
    kind = _field_type(shape, name)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return type(name, (RootModel[kind],), {"__module__": __name__})  # type: ignore[valid-type]


def _field_type(shape: Any, name: str) -> Any:
    kind = read_type(split_pair(shape)[0])
    if isinstance(kind, Mapping):
        return _object_model(kind, name)
    if isinstance(kind, list | set):
        items = [_field_type(each, f"{name}_item") for each in kind]
        item = items[0] if len(items) == 1 else Any
        return list[item]  # type: ignore[valid-type]
    if isinstance(kind, str):
        # The structure describes the value in words, so any type is allowed.
        return Any
    return kind if _is_usable(kind) else Any


def _object_model(shape: Mapping[str, Any], name: str) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for key, value in shape.items():
        kind = _field_type(value, f"{name}_{key}")
        attribute = _attribute_name(str(key))
        alias = None if attribute == key else str(key)
        note = split_pair(value)[1] or None
        fields[attribute] = (
            kind | None if kind is not Any else Any,
            Field(None, alias=alias, description=note),
        )
    model: type[BaseModel] = create_model(name, __config__=_CONFIG, **fields)
    return model


def _attribute_name(key: str) -> str:
    """A valid name for a field: the key itself if possible."""
    name = key if key.isidentifier() else "".join(c if c.isalnum() else "_" for c in key)
    name = name.lstrip("_") or "field"
    name = name if name.isidentifier() else f"field_{name}"
    return f"{name}_" if hasattr(BaseModel, name) else name


def _is_usable(kind: Any) -> bool:
    try:
        TypeAdapter(kind)
    except PydanticUserError:
        return False
    return True
