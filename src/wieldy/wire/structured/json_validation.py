"""Check JSON data against a schema or a pydantic model, whole or while it grows."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, PydanticUserError, RootModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from wieldy.core.arguments.argument_errors import plain_message
from wieldy.core.schema.misfit import find_misfits
from wieldy.core.schema.schema_check import SchemaCheck

from .json_document import StructuredError

_PART: Literal["trailing-strings"] = "trailing-strings"
_SHOWN = 5
_MAX_LENGTH = 200


class _Generator(GenerateJsonSchema):
    """pydantic's generator without warnings about parts that can't be described."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own declaration


def model_schema(model: type[BaseModel]) -> Mapping[str, Any]:
    """The JSON Schema of a model; if it has none, a schema for any object."""
    try:
        return model.model_json_schema(schema_generator=_Generator)
    except PydanticUserError:
        return {} if issubclass(model, RootModel) else {"type": "object"}


def check_model(model: type[BaseModel], data: Any) -> BaseModel:
    """The validated model; raises `StructuredError`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise _misfit_error((one["loc"], plain_message(one["msg"])) for one in found) from error


def check_schema(schema: Mapping[str, Any], data: Any) -> Any:
    """The data, if it fits; raises `StructuredError`. References to other documents are refused."""
    try:
        held = SchemaCheck(schema)
    except ValueError as error:
        raise StructuredError("The schema can't be used", (str(error)[:_MAX_LENGTH],)) from error
    try:
        if held.fits(data):
            return data
        found = [*islice(find_misfits(held, data), _SHOWN)]
    except ValueError as error:
        # The data has a lone surrogate or a number that JSON lacks, or needs too much work.
        raise StructuredError("The structured output can't be checked", (str(error),)) from error
    raise _misfit_error((path, message) for path, _, message in found)


class PartialModel:
    """Makes instances of a model with the fields that are valid so far.

    The fields that have arrived are checked one by one. A field that is itself a model is
    treated in the same way. In other fields, pydantic's partial validation drops a last item
    that is not valid yet. The model's own validators run only when the data is complete.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model
        self._adapters: dict[int, TypeAdapter[Any]] = {}
        self._seen: dict[int, _Seen] = {}

    def read(self, data: Any) -> BaseModel | None:
        """The instance; None if the data can't be one."""
        return self._read_model(self._model, data)

    def _read_model(self, model: type[BaseModel], data: Any) -> BaseModel | None:
        if issubclass(model, RootModel):
            found = self._valid_value(model.model_fields["root"], data)
            return model.model_construct(*found) if found else None
        if not isinstance(data, Mapping):
            return None
        values: dict[str, Any] = {}
        for name, field in model.model_fields.items():
            for key in _data_keys(name, field, model):
                if key in data and (found := self._valid_value(field, data[key])):
                    # `model_construct` takes a field under its alias, where it has one.
                    values[field.alias or name] = found[0]
        return model.model_construct(**values)

    def _valid_value(self, field: FieldInfo, value: Any) -> tuple[Any] | None:
        """The value converted for the field, in a tuple; None if it is not valid so far."""
        inner = _model_in(field.annotation)
        if inner is not None and isinstance(value, Mapping):
            found = self._read_model(inner, value)
            return None if found is None else (found,)
        try:
            if isinstance(value, list) and not field.metadata:
                item = _item_of(field.annotation)
                if item is not None:
                    return (self._items(field, item, value),)
            return (self._adapter(field).validate_python(value, experimental_allow_partial=_PART),)
        except (ValidationError, PydanticUserError):
            return None

    def _items(self, field: FieldInfo, item: Any, values: list[Any]) -> list[Any]:
        """The items of a list. Those before the last one are finished and are checked once."""
        seen = self._seen.get(id(field))
        if seen is None:
            seen = self._seen[id(field)] = _Seen(TypeAdapter(item))
        return seen.read(values)

    def _adapter(self, field: FieldInfo) -> TypeAdapter[Any]:
        found = self._adapters.get(id(field))
        if found is None:
            form: Any = field.annotation
            if field.metadata:
                form = Annotated[(form, *field.metadata)]
            found = self._adapters[id(field)] = TypeAdapter(form)
        return found


class _Seen:
    """The items of one list field that were valid before, by the data they came from."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter
        self._from: list[Any] = []
        self._items: list[Any] = []

    def read(self, values: list[Any]) -> list[Any]:
        """The items; the last one is left out while it is not valid. Raises where another is."""
        if not values:
            return []
        whole = len(values) - 1
        count = len(self._from)
        # Finished data is shared, so a list that goes on holds the very items that were read.
        if count > whole or self._from != values[:count]:
            self._from, self._items = [], []
        for value in values[len(self._from) : whole]:
            self._items.append(self._adapter.validate_python(value))
            self._from.append(value)
        try:
            last = self._adapter.validate_python(values[-1], experimental_allow_partial=_PART)
        except ValidationError:
            return self._items.copy()
        return [*self._items, last]


def _item_of(annotation: Any) -> Any:
    """The form of the items of `list[Item]` or `list[Item] | None`; else None."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    rest = [part for part in parts if part is not type(None)]
    listed = len(rest) == 1 and get_origin(rest[0]) is list
    return get_args(rest[0])[0] if listed else None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The one model of an annotation such as `Model` or `Model | None`."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    models = [one for one in parts if isinstance(one, type) and issubclass(one, BaseModel)]
    return models[0] if len(models) == 1 else None


def _data_keys(name: str, field: FieldInfo, model: type[BaseModel]) -> list[str]:
    """The keys under which the data may have a field."""
    alias = field.validation_alias
    if not isinstance(alias, str):
        return [name]
    by_name = model.model_config.get("populate_by_name") or model.model_config.get(
        "validate_by_name"
    )
    return [alias, name] if by_name else [alias]


def _misfit_error(found: Iterable[tuple[Sequence[Any], str]]) -> StructuredError:
    lines = [
        f"{'.'.join(map(str, place)) or 'root'}: {text[:_MAX_LENGTH]}" for place, text in found
    ]
    rest = len(lines) - _SHOWN
    shown = lines if rest <= 0 else [*lines[:_SHOWN], f"and {rest} more"]
    return StructuredError("The structured output does not fit", tuple(shown))
