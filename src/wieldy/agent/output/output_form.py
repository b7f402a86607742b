"""The form of an answer: describe it to the model, read it from the text, make an object."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticUserError,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
)

from wieldy.agent.nested_data import PathStyle, split_key_path
from wieldy.core.arguments.argument_errors import plain_message
from wieldy.core.bounded_json import parse_json
from wieldy.wire.structured.json_document import StructuredError
from wieldy.wire.structured.json_validation import check_model, check_schema, model_schema
from wieldy.wire.structured.structured_stream import StructuredStream

from .output_text import describe_output, expand_type, schema_instruction, split_pair
from .type_words import read_type

Kind = Literal["text", "json"]
_CONFIG = ConfigDict(extra="allow", protected_namespaces=(), populate_by_name=True)


class OutputForm:
    """The form of an answer, made from an `output` slot.

    A dict, a list, a pydantic model or a JSON Schema means JSON. A type other than `str`
    is asked for as `{"value": …}` and unwrapped. Anything else means text.

    Args:
        output: The slot: nested dicts and lists of `(type, description)`, a pydantic
            model, a JSON Schema, a type, words, or None.
        output_format: "json", "text" or "markdown", where the slot of that name says so.
    """

    def __init__(self, output: Any = None, output_format: Any = None) -> None:
        self.output = output
        self.note = ""
        self._model: type[BaseModel] | None = None
        self._schema: Mapping[str, Any] | None = None
        self._adapter: TypeAdapter[Any] | None = None
        self._shape: Any = None
        self._read_output(output)
        if output_format is not None:
            self._force_kind(str(output_format))

    @property
    def kind(self) -> Kind:
        """Whether the answer is JSON or text."""
        return "text" if self._shape is None else "json"

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema, if a pydantic model or a schema was given."""
        return self._schema if self._model is None else model_schema(self._model)

    @property
    def wants_object(self) -> bool:
        """Whether the answer is an object, whose keys can be awaited."""
        return self.kind == "json"

    def describe(self) -> str:
        """The description for the model, which may be empty."""
        if self.kind == "text":
            return self.note
        schema = self._schema
        text = describe_output(self._shape) if schema is None else schema_instruction(schema)
        return "\n".join(filter(None, (text, self.note)))

    def open_stream(self, path_style: PathStyle = "dot") -> StructuredStream:
        """A reader for the JSON of one answer while it arrives."""
        shape: Any = self._model or self._schema
        if shape is None:
            shape = {"type": "array" if isinstance(self._shape, list) else "object"}
        # Agently's users know indexes in brackets, `/books/[0]/title`.
        return StructuredStream(shape, path_style="dot" if path_style == "dot" else "bracket")

    def read_data(self, text: str) -> Any:
        """The data in an answer's text; `StructuredError` if it does not have this form.

        JSON is found in prose and in code fences, and small mistakes in it are repaired.
        It is validated if the form is a pydantic model, a JSON Schema or a type.
        """
        if self.kind == "text":
            return text
        stream = self.open_stream()
        stream.feed(text)
        stream.close()
        if self._adapter is not None:
            return self._unwrap_value(stream.value if stream.started else _bare_value(text))
        if stream.error is not None:
            raise stream.error
        if not stream.started:
            raise StructuredError("The answer has no JSON in it", (_text_excerpt(text),))
        if self._model is not None:
            return check_model(self._model, stream.value).model_dump()
        return stream.value if self._schema is None else check_schema(self._schema, stream.value)

    def make_object(self, data: Any) -> BaseModel:
        """The answer's data as a pydantic object; `TypeError` if the answer is text."""
        if self.kind == "text":
            raise TypeError("An answer that is text is no object: define output() first.")
        if self._model is not None:
            return check_model(self._model, data)
        value = {"value": data} if self._adapter is not None else data
        return check_model(_make_model(self._shape), value)

    def has_path(self, path: str, style: PathStyle = "dot") -> bool:
        """Whether the form has a value at this path."""
        try:
            steps = split_key_path(path, style)
        except ValueError:
            return False
        shape = self._schema_shape(self._schema) if self._schema else self._shape
        for step in steps:
            shape = _step_into(shape, step)
            if shape is None:
                return False
        return True

    def _read_output(self, output: Any) -> None:
        if isinstance(output, tuple) and output:
            self.note = "; ".join(str(each) for each in output[1:] if each)
            output = output[0]
        output = read_type(output)
        if output is None or output is str or output is Any or output is type(None):
            return
        if isinstance(output, str):
            self.note = "; ".join(filter(None, (output, self.note)))
        elif isinstance(output, Mapping | list | set):
            self._read_structure(output)
        elif isinstance(output, type) and issubclass(output, BaseModel):
            self._model, self._shape = output, expand_type(output)
        else:
            self._read_annotation(output)

    def _read_structure(self, output: Any) -> None:
        if is_json_schema(output):
            self._schema = output
        self._shape = list(output) if isinstance(output, list | set) else dict(output)

    def _read_annotation(self, annotation: Any) -> None:
        if get_origin(annotation) is Annotated and get_args(annotation)[0] is str:
            return
        try:
            self._adapter = TypeAdapter(annotation)
        except PydanticUserError as error:
            raise TypeError(f"output() can't ask for {annotation!r}: {error.message}") from None
        self._shape = {"value": (annotation, self.note) if self.note else (annotation,)}

    def _force_kind(self, kind: str) -> None:
        if kind == "json":
            self._shape = {} if self._shape is None else self._shape
        else:
            self._shape = None

    def _unwrap_value(self, data: Any) -> Any:
        assert self._adapter is not None
        inner = data["value"] if isinstance(data, Mapping) and "value" in data else data
        try:
            return self._adapter.validate_python(inner)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            problems = tuple(plain_message(one["msg"]) for one in found[:5])
            raise StructuredError("The answer is not of the type asked for", problems) from error

    def _schema_shape(self, schema: Any) -> Any:
        """A JSON Schema as nested dicts, as far as paths need it."""
        if not isinstance(schema, Mapping):
            return Any
        if isinstance(schema.get("properties"), Mapping):
            return {key: self._schema_shape(each) for key, each in schema["properties"].items()}
        return [self._schema_shape(schema["items"])] if "items" in schema else Any


def is_json_schema(output: Any) -> bool:
    """Whether a dict is a JSON Schema, and not the structure of an answer."""
    if not isinstance(output, Mapping):
        return False
    if isinstance(output.get("$schema"), str):
        return True
    if output.get("type") == "object":
        return isinstance(output.get("properties"), Mapping)
    return output.get("type") == "array" and isinstance(output.get("items"), Mapping)


def _step_into(shape: Any, step: str | int) -> Any:
    """The form of a container's member; None if it has no such member."""
    if isinstance(shape, tuple):
        shape = shape[0] if shape else Any
    shape = expand_type(read_type(shape))
    if isinstance(shape, Mapping):
        return shape.get(step)
    if isinstance(shape, list):
        return (shape[0] if shape else Any) if step == "*" or isinstance(step, int) else None
    # The contents of a type are not known in detail.
    return Any if shape is Any or shape in (dict, list) or get_origin(shape) is not None else None


def _bare_value(text: str) -> Any:
    """The value of an answer that consists only of that value."""
    bare = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        return parse_json(bare)
    except ValueError:
        return bare


def _text_excerpt(text: str) -> str:
    shown = " ".join(text.split())
    if not shown:
        return "it is empty"
    return f"it starts with {shown[:80]!r}"


def _make_model(shape: Any, name: str = "Output") -> type[BaseModel]:
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
