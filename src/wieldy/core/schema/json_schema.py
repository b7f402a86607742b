"""JSON Schema and validators from a signature, through pydantic."""

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from enum import Enum
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import (
    CoreSchema,
    PydanticKnownError,
    PydanticOmit,
    SchemaValidator,
    core_schema,
)

from wieldy.core.errors import DefinitionError
from wieldy.core.permission.argument_reach import Aliases
from wieldy.core.short_text import first_line

from .references import resolve_reference, used_definitions
from .signature import Parameter, Signature

_KEYED_BY_NAME = (
    "properties", "$defs", "definitions", "patternProperties", "dependentSchemas",
    "dependentRequired", "dependencies", "mapping",
)  # fmt: skip
# `keys_schema` is left out: in JSON all keys are text.
_HOLD_SCHEMAS = (
    "schema", "fields", "items_schema", "values_schema", "choices", "definitions",
    "steps", "arguments_schema", "extras_schema", "var_kwargs_schema", "json_schema",
    "python_schema", "lax_schema", "strict_schema",
)  # fmt: skip
_STREAMS = (AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterator)
_EXACT = ("int", "float", "bool")
_PLAIN = (str, int, bool, type(None))
# The errors that pydantic raises for a type that it can't use or find.
_UNUSABLE = (PydanticUserError, NameError, TypeError)
# A cache of the generator's method names, which pydantic would look up each time.
_METHODS: dict[Any, str] = {}
_HOLDERS = ("model-fields", "dataclass-args", "typed-dict")


class _Generator(GenerateJsonSchema):
    """pydantic's generator, without warnings about what can't be described."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own declaration

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def build_schema_type_to_method(self) -> dict[Any, Callable[..., Any]]:
        if not _METHODS:
            found = super().build_schema_type_to_method()
            _METHODS.update((kind, method.__name__) for kind, method in found.items())
        return {kind: getattr(self, name) for kind, name in _METHODS.items()}

    def _build_definitions_remapping(self) -> Any:
        # pydantic compares all possible names of each definition. If the shortest names differ,
        # they are the result. A version without this method or these names works as well.
        choices = getattr(self, "_prioritized_defsref_choices", {})
        shortest = [choices[ref][0] for ref in self.definitions if ref in choices]
        if len(set(shortest)) == len(self.definitions):
            kept = ((ref, (choices[ref][0], ref)) for ref in self.definitions)
            self._prioritized_defsref_choices = {ref: [*dict.fromkeys(two)] for ref, two in kept}
        return super()._build_definitions_remapping()

    def encode_default(self, dft: Any) -> Any:
        plain = dft.value if isinstance(dft, Enum) else dft
        if type(plain) in _PLAIN:
            # pydantic would build an adapter only to find that the value is JSON already.
            return plain
        # A set's order differs between processes, and the schema must not.
        encoded = super().encode_default(dft)
        return sorted(encoded, key=repr) if isinstance(dft, set | frozenset) else encoded


def input_schema(tool: str, signature: Signature, texts: dict[str, str]) -> dict[str, Any]:
    """What a model may send, as JSON Schema without titles."""
    arguments: Any = _arguments_schema(tool, signature)
    try:
        schema: dict[str, Any] = without_titles(_Generator().generate(arguments))
    except _UNUSABLE as error:
        raise _find_culprit(tool, signature, error) from error
    listed = arguments["schema"] if arguments["type"] == "definitions" else arguments
    if listed.get("var_kwargs_mode") == "unpacked-typed-dict":
        schema = _with_spread_dict(schema)
    for parameter in signature.parameters:
        shown = schema["properties"].get(parameter.shown_name)
        text = parameter.text or texts.get(parameter.name)
        if shown is not None and text:
            shown.setdefault("description", text)
        if shown is not None and parameter.secret:
            shown["writeOnly"] = True
    return schema


def output_schema(annotation: Any) -> dict[str, Any] | None:
    """The schema of the return value; None if it is not annotated or not JSON."""
    annotation = _final_type(annotation)
    if annotation is Any or annotation is None or annotation is type(None):
        return None
    try:
        adapter = TypeAdapter(annotation)
        schema = adapter.json_schema(mode="serialization", schema_generator=_Generator)
    except (*_UNUSABLE, PydanticOmit):
        return None
    return without_titles(schema) or None


def arguments_validator(tool: str, signature: Signature) -> SchemaValidator:
    """A validator that maps plain arguments to (nothing, the function's keyword arguments).

    Numbers and booleans are not converted: text for a number is an error here, so that
    changing it is a repair with a receipt and never silent. pydantic's errors pass through.
    """
    exact = _copy_exactly(_arguments_schema(tool, signature))
    try:
        # Otherwise a nested model would use its own prebuilt validator, which converts numbers.
        return SchemaValidator(exact, _use_prebuilt=False)
    except TypeError:
        return SchemaValidator(exact)


def field_aliases(tool: str, signature: Signature) -> Aliases:
    """The names by which fields inside arguments are sent, for each class and for dicts."""
    return read_aliases(_arguments_schema(tool, signature))


def without_titles(schema: Any) -> Any:
    """A JSON Schema without `title`s; a property of that name stays."""
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _KEYED_BY_NAME and isinstance(value, dict):
            plain[key] = {name: without_titles(item) for name, item in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            plain[key] = value
        elif key != "title":
            plain[key] = without_titles(value)
    return plain


def _arguments_schema(tool: str, signature: Signature) -> CoreSchema:
    # Loaded when a schema is first built, to keep `import wieldy` light.
    from pydantic.experimental.arguments_schema import generate_arguments_schema  # noqa: PLC0415

    try:
        return generate_arguments_schema(_stand_in(signature.parameters), "arguments")
    except _UNUSABLE as error:
        raise _find_culprit(tool, signature, error) from error


def _final_type(annotation: Any) -> Any:
    """The type of a call's value: a stream of items becomes a list."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Awaitable, Coroutine):
        return _final_type(parts[-1])
    if origin is Generator and parts[-1] not in (None, type(None)):
        return parts[-1]
    return list[parts[0]] if origin in _STREAMS else annotation  # type: ignore[valid-type]


def _with_spread_dict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the keys of `**options: Unpack[SomeTypedDict]` as arguments."""
    spread = schema["additionalProperties"]
    described = resolve_reference(spread, schema)
    required = [*schema.get("required", ()), *described.get("required", ())]
    whole = {
        **schema,
        "properties": {**schema["properties"], **described["properties"]},
        "additionalProperties": False,
        "required": required,
    }
    if not required:
        del whole["required"]
    used = {name for _, name in used_definitions(whole)}
    kept = {name: each for name, each in whole.pop("$defs", {}).items() if name in used}
    return {**whole, "$defs": kept} if kept else whole


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


def _copy_exactly(schema: Any) -> Any:
    """A copy of a core schema in which numbers and booleans are not converted."""
    if isinstance(schema, list | tuple):
        return type(schema)(_copy_exactly(item) for item in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    copy: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "fields" and isinstance(value, dict):
            copy[key] = {name: _copy_exactly(field) for name, field in value.items()}
        elif key == "choices" and isinstance(value, dict):
            copy[key] = {tag: _copy_exactly(choice) for tag, choice in value.items()}
        else:
            copy[key] = _copy_exactly(value) if key in _HOLD_SCHEMAS else value
    if copy.get("var_kwargs_schema", {}).get("type") == "typed-dict":
        copy["var_kwargs_schema"]["extra_behavior"] = "forbid"
    if kind in _EXACT:
        copy.setdefault("strict", True)
    return _exact_choice(copy) if kind in ("enum", "literal") else copy


def _exact_choice(schema: Any) -> Any:
    """A choice in which `True` is not `1`, as in JSON, and text is not a number."""
    members = schema["expected"] if schema["type"] == "literal" else schema["members"]
    choices = [getattr(member, "value", member) for member in members]
    booleans = [choice for choice in choices if isinstance(choice, bool)]
    numbers = [c for c in choices if isinstance(c, int | float) and not isinstance(c, bool)]
    only_numbers = schema.get("sub_type") in ("int", "float")
    if not booleans and not numbers:
        return schema

    def check(value: Any) -> Any:
        same, other = (booleans, numbers) if isinstance(value, bool) else (numbers, booleans)
        confused = isinstance(value, int | float) and value not in same and value in other
        if confused or (only_numbers and isinstance(value, str)):
            raise PydanticKnownError("enum", {"expected": "a choice"})
        return value

    # The reference must lead to the choice with its check.
    inner = {key: value for key, value in schema.items() if key != "ref"}
    return core_schema.no_info_before_validator_function(check, inner, ref=schema.get("ref"))


def _find_culprit(tool: str, signature: Signature, error: Exception) -> DefinitionError:
    """Find the parameter that pydantic can't describe."""
    for parameter in signature.parameters:
        try:
            TypeAdapter(parameter.annotation).json_schema(schema_generator=_Generator)
        except _UNUSABLE as reason:
            text = first_line(reason)
            return DefinitionError(
                tool,
                f"the parameter {parameter.name!r} can't be described to a model ({text}). "
                "Give it as a preset, annotate it with another type, or pass input_schema={…}.",
            )
        except Exception:
            continue
    return DefinitionError(tool, f"it can't be described: {str(error).partition(chr(10))[0]}")


def read_aliases(schema: CoreSchema) -> Aliases:
    """For each class, and for all dicts, the fields by the names under which they are sent."""
    found: dict[type | None, dict[str, list[str]]] = {}
    rest: list[tuple[Any, type | None]] = [(schema, None)]
    while rest:
        node, owner = rest.pop()
        if isinstance(node, list):
            rest += [(item, owner) for item in node]
        elif isinstance(node, dict):
            owner = node.get("cls", owner)
            # A dict at run time does not show which TypedDict it is.
            names = found.setdefault(None if node.get("type") == "typed-dict" else owner, {})
            for alias, field in _field_names(node):
                names.setdefault(alias, []).append(field)
            rest += [(item, owner) for item in node.values()]
    return found


def _field_names(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each alias of each field that a node of a schema declares."""
    fields = node.get("fields", ()) if node.get("type") in _HOLDERS else ()
    named = fields.items() if isinstance(fields, dict) else ((f["name"], f) for f in fields)
    for field, facts in named:
        for alias in _alias_names(facts.get("validation_alias")):
            yield alias, field


def _alias_names(alias: Any) -> set[str]:
    """The dotted names of an alias: a name, a path, or a choice of paths.

    A rule looks into lists by itself, so it may leave out their indexes. A rule that names the
    beginning of a path covers everything below it.
    """
    if not isinstance(alias, list):
        return set() if alias is None else {alias}
    names: set[str] = set()
    for path in alias if isinstance(alias[0], list) else [alias]:
        plain = [step for step in path if isinstance(step, str)]
        names |= {".".join(plain[:end]) for end in range(1, len(plain) + 1)}
        names.add(".".join(map(str, path)))
    return names
