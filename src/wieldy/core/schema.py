"""JSON Schema and validators from a signature, through pydantic."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, PydanticOmit, SchemaValidator

from .errors import DefinitionError
from .signature import Parameter, Signature

_MAPS_OF_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_HOLD_SCHEMAS = (
    "schema", "fields", "items_schema", "keys_schema", "values_schema", "choices", "definitions",
    "steps", "arguments_schema", "extras_schema", "var_kwargs_schema", "json_schema",
    "python_schema", "lax_schema", "strict_schema",
)  # fmt: skip
_EXACT = ("int", "float", "bool")


class _Generator(GenerateJsonSchema):
    """pydantic's generator, silent about what can't be shown."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own declaration

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def input_schema(tool: str, signature: Signature, texts: dict[str, str]) -> dict[str, Any]:
    """What a model may send, as JSON Schema without titles."""
    arguments: Any = _arguments_schema(tool, signature)
    try:
        schema: dict[str, Any] = untitled(_Generator().generate(arguments))
    except PydanticUserError as error:
        raise _blame(tool, signature, error) from error
    own_texts = {parameter.name: parameter.text for parameter in signature.parameters}
    listed = arguments["schema"] if arguments["type"] == "definitions" else arguments
    for argument in listed["arguments_schema"]:
        name = argument["name"]
        shown = schema["properties"].get(argument.get("alias", name))
        text = own_texts.get(name) or texts.get(name)
        if text and shown is not None:
            shown.setdefault("description", text)
    return schema


def output_schema(annotation: Any) -> dict[str, Any] | None:
    """What the function gives, or None where it does not say or JSON can't."""
    if annotation is Any or annotation is None or annotation is type(None):
        return None
    try:
        adapter = TypeAdapter(annotation)
        schema = adapter.json_schema(mode="serialization", schema_generator=_Generator)
    except (PydanticUserError, PydanticOmit, TypeError):
        return None
    return untitled(schema) or None


def arguments_validator(tool: str, signature: Signature) -> SchemaValidator:
    """A validator from plain arguments to (nothing, what the function gets by keyword).

    Numbers and booleans are taken as they are: text for a number is an error
    here, so that changing it is a repair with a receipt and never silent.
    pydantic's errors pass through.
    """
    exact = _exact(_arguments_schema(tool, signature))
    try:
        # Otherwise a nested model would be checked by its own validator, which is not exact.
        return SchemaValidator(exact, _use_prebuilt=False)
    except TypeError:
        return SchemaValidator(exact)


def untitled(schema: Any) -> Any:
    """A JSON Schema without `title`s; a property of that name stays."""
    if isinstance(schema, list):
        return [untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _MAPS_OF_SCHEMAS and isinstance(value, dict):
            plain[key] = {name: untitled(item) for name, item in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            plain[key] = value
        elif key != "title":
            plain[key] = untitled(value)
    return plain


def _arguments_schema(tool: str, signature: Signature) -> CoreSchema:
    # Loaded when a schema is first built, to keep `import wieldy` light.
    from pydantic.experimental.arguments_schema import generate_arguments_schema  # noqa: PLC0415

    try:
        return generate_arguments_schema(_stand_in(signature.parameters), "arguments")
    except PydanticUserError as error:
        raise _blame(tool, signature, error) from error


def _stand_in(parameters: Sequence[Parameter]) -> Callable[..., None]:
    """A function with just these parameters, by keyword, for pydantic to read."""

    def stand_in() -> None: ...

    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    listed = [
        inspect.Parameter(
            parameter.name,
            kinds[parameter.variadic],
            default=parameter.default,
            annotation=parameter.annotation,
        )
        for parameter in parameters
    ]
    stand_in.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    stand_in.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return stand_in


def _exact(schema: Any) -> Any:
    """A copy of a core schema in which numbers and booleans are not converted."""
    if isinstance(schema, list | tuple):
        return type(schema)(_exact(item) for item in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    copy: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "fields" and isinstance(value, dict):
            copy[key] = {name: _exact(field) for name, field in value.items()}
        elif key == "choices" and isinstance(value, dict):
            copy[key] = {tag: _exact(choice) for tag, choice in value.items()}
        else:
            copy[key] = _exact(value) if key in _HOLD_SCHEMAS else value
    if kind in _EXACT:
        copy.setdefault("strict", True)
    return copy


def _blame(tool: str, signature: Signature, error: Exception) -> DefinitionError:
    """Find the parameter that pydantic can't describe."""
    for parameter in signature.parameters:
        try:
            TypeAdapter(parameter.annotation).json_schema(schema_generator=_Generator)
        except PydanticUserError as reason:
            text = str(reason).partition("\n")[0]
            return DefinitionError(
                tool,
                f"the parameter {parameter.name!r} can't be described to a model ({text}). "
                "Give it as a preset, annotate it with another type, or pass input_schema={…}.",
            )
        except Exception:
            continue
    return DefinitionError(tool, f"it can't be described: {str(error).partition(chr(10))[0]}")
