"""Read from its signature what a callable takes and returns."""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from sys import intern
from typing import Annotated, Any, get_args, get_origin

from wieldy.core.errors import DefinitionError

from .annotations import (
    find_failing,
    signature_of,
    unreadable_annotation,
    unwrap_alias,
    written_annotations,
)


def find_documented(function: Any) -> Any:
    """The object with the docstring: the inner function, or an object's `__call__` or class."""
    function = unwrap_partial(function)[0]
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    call = type(function).__call__
    return call if inspect.getdoc(call) and call.__doc__ else type(function)


def read_docstring(function: Any) -> tuple[str, dict[str, str]]:
    """The description and the parameters' texts, from Google, NumPy or reST style."""
    # docstring_parser is loaded here to keep `import wieldy` light.
    from docstring_parser import ParseError, parse  # noqa: PLC0415

    text = inspect.getdoc(function) or ""
    if not text:
        return "", {}
    try:
        parsed = parse(text)
    except ParseError:
        return text, {}
    parts = [parsed.short_description, parsed.long_description]
    between = "\n\n" if parsed.blank_after_short_description else "\n"
    described = {
        intern(parameter.arg_name.lstrip("*")): " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
    }
    return between.join(part for part in parts if part), described


class Injected:
    """A parameter annotated with a subclass of this is not in the tool's schema."""

    __slots__ = ()


_KINDS = inspect.Parameter


class Parameter:
    """One parameter that the model fills in."""

    __slots__ = ("annotation", "default", "name", "secret", "text", "variadic")

    def __init__(
        self,
        name: str,
        annotation: Any,
        default: Any,
        text: str | None,
        variadic: bool,
        secret: bool,
    ) -> None:
        self.name = name
        self.annotation = annotation
        self.default = default
        self.text = text
        self.variadic = variadic
        self.secret = secret

    @property
    def shown_name(self) -> str:
        """The name in the schema: the alias of a pydantic `Field`, if there is one."""
        alias = self.alias
        return alias if isinstance(alias, str) else self.name

    @property
    def alias(self) -> Any:
        """The alias of a pydantic `Field`, or None."""
        sources = (self.default, *getattr(self.annotation, "__metadata__", ()))
        aliases = (getattr(source, "validation_alias", None) for source in sources)
        return next((alias for alias in aliases if alias is not None), None)


class Signature:
    """The parameters that the model fills in, and how the function gets the others."""

    __slots__ = ("context", "parameters", "positional", "returns", "secret_presets")

    def __init__(
        self,
        parameters: Sequence[Parameter] = (),
        context: str | None = None,
        positional: tuple[str, ...] = (),
        returns: Any = Any,
        secret_presets: frozenset[str] = frozenset(),
    ) -> None:
        self.parameters = parameters
        self.context = context
        self.positional = positional
        self.returns = returns
        self.secret_presets = secret_presets


def read_signature(
    tool: str,
    function: Callable[..., Any],
    presets: Collection[str],
    names: dict[str, Any] | None = None,
) -> Signature:
    """Read a callable; `names` are local names that its annotations may use."""
    hints = type_hints(tool, function, names)
    try:
        listed = signature_of(function, tool).parameters
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            tool, "its signature can't be read. Pass input_schema={…} and a function of **kwargs."
        ) from error
    _check_presets(tool, presets, listed)
    taken = {*presets, *bound_keywords(function)}
    parameters, context = [], None
    for name, parameter in listed.items():
        annotation = hints.get(name, _given_type(parameter))
        if _is_injected(annotation):
            if context is not None:
                raise DefinitionError(tool, f"{context!r} and {name!r} both ask for the context")
            context = name
        elif name not in taken and parameter.kind is not _KINDS.VAR_POSITIONAL:
            parameters.append(_make_parameter(tool, parameter, annotation))
    positional = (n for n, p in listed.items() if p.kind is _KINDS.POSITIONAL_ONLY)
    secret = frozenset(name for name in presets if _is_secret(hints.get(name)))
    returns = _plain_types(hints.get("return", Any))
    return Signature(parameters, context, tuple(positional), returns, secret)


def read_outside(function: Callable[..., Any], presets: Collection[str]) -> Signature:
    """Read a callable whose arguments are described by a schema from outside."""
    try:
        read = read_signature("", function, presets)
    except DefinitionError:
        return Signature()
    return Signature((), read.context, read.positional, read.returns, read.secret_presets)


def is_async(function: Any) -> bool:
    """Whether calling it returns an awaitable or an async iterator."""
    inner = unwrap_partial(function)[0]
    called = inner if inspect.isroutine(inner) else type(inner).__call__
    return inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)


def unwrap_partial(function: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The function inside nested partials, and what they pass by position and by name.

    The outermost partial's value of a name counts. Any other function is returned unchanged.
    """
    first: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        first = (*function.args, *first)
        named = {**function.keywords, **named}
        function = function.func
    return function, first, named


def is_same_function(one: Any, other: Any) -> bool:
    """Whether two callables are the same function; each lookup of a method makes a new object."""
    if inspect.ismethod(one) and inspect.ismethod(other):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other


def bound_keywords(function: Any) -> dict[str, Any]:
    """The values that nested partials pass by keyword; the outermost partial's value counts."""
    return unwrap_partial(function)[2]


def bound_values(function: Any) -> dict[str, Any]:
    """What a partial passes, by parameter name; "" if the name is unknown."""
    first, named, arguments = _bind_partials(function)
    return {"": first, **named} if arguments is None else {**arguments.arguments}


def known_values(function: Any) -> dict[str, Any]:
    """What the function gets for parameters that are not passed: bound values or defaults."""
    _, named, arguments = _bind_partials(function)
    if arguments is None:
        return named
    arguments.apply_defaults()
    spread = {
        name
        for name, parameter in arguments.signature.parameters.items()
        if parameter.kind in (_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD)
    }
    return {name: value for name, value in arguments.arguments.items() if name not in spread}


def _bind_partials(
    function: Any,
) -> tuple[tuple[Any, ...], dict[str, Any], inspect.BoundArguments | None]:
    """The values that partials pass by position and name, bound to the parameters if they fit."""
    inner, first, named = unwrap_partial(function)
    try:
        return first, named, signature_of(inner).bind_partial(*first, **named)
    except (TypeError, ValueError):
        return first, named, None


def local_names(function: Any) -> dict[str, Any] | None:
    """The local names around a nested function whose annotations are text.

    Annotations such as `"Order"` are looked up in the module, where a class made
    inside a function is missing. The frame that is making the tool still has it.
    """
    inner = _innermost_function(function)
    home = getattr(inner, "__qualname__", "").rpartition(".<locals>.")[0]
    if not home or not any(isinstance(text, str) for text in written_annotations(inner).values()):
        return None
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_qualname == home:
            return dict(frame.f_locals)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def type_hints(
    tool: str, function: Callable[..., Any], names: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The annotations of a callable, evaluated.

    Raises:
        DefinitionError: One of them can't be evaluated.
    """
    inner = _innermost_function(function)
    try:
        hints = typing.get_type_hints(inner, localns=names, include_extras=True)
    except Exception as error:
        # Evaluating annotations runs other people's code.
        failing = find_failing(inner, names, error)
        if failing is None:
            return {}
        raise unreadable_annotation(tool, failing, error) from error
    for name, hint in hints.items():
        try:
            unwrap_alias(hint)
        except Exception as error:
            # The right side of `type Name = …` is evaluated here for the first time.
            raise unreadable_annotation(tool, name, error) from error
    return hints


def _given_type(parameter: inspect.Parameter) -> Any:
    """The type in the signature itself, which a class may define for its constructor."""
    given = parameter.annotation
    return Any if given is _KINDS.empty or isinstance(given, str) else given


def _innermost_function(function: Any) -> Any:
    """The plain function whose annotations count."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        partial = isinstance(function, functools.partial)
        function = unwrap_partial(function)[0] if partial else inspect.unwrap(function)
    if inspect.isclass(function):
        return function.__init__
    if not inspect.isroutine(function):
        function = inspect.unwrap(type(function).__call__)
    return getattr(function, "__func__", function)


def _check_presets(tool: str, presets: Collection[str], listed: Mapping[str, Any]) -> None:
    if any(parameter.kind is _KINDS.VAR_KEYWORD for parameter in listed.values()):
        return
    for preset in presets:
        if preset not in listed:
            raise DefinitionError(tool, f"it has no parameter {preset!r} for the preset")


def _make_parameter(tool: str, listed: inspect.Parameter, annotation: Any) -> Parameter:
    parameter = Parameter(
        listed.name,
        _plain_types(annotation),
        listed.default,
        _annotated_text(annotation),
        listed.kind is _KINDS.VAR_KEYWORD,
        _is_secret(annotation),
    )
    if not isinstance(parameter.alias, str | None):
        raise DefinitionError(tool, f"the alias of the parameter {listed.name!r} is not one name")
    return parameter


def _is_injected(annotation: Any) -> bool:
    return any(
        inspect.isclass(part) and issubclass(part, Injected) for part in _member_types(annotation)
    )


def _is_secret(annotation: Any) -> bool:
    return any(hasattr(part, "get_secret_value") for part in _member_types(annotation))


def _member_types(annotation: Any) -> list[Any]:
    """The member types of a plain, annotated or union type, or of an alias of one."""
    members: list[Any] = []
    # An alias may name itself as a member, so each is looked at once.
    seen, left = [], [annotation]
    while left:
        part = left.pop()
        if part in seen:
            continue
        seen.append(part)
        part = unwrap_alias(part)
        origin = get_origin(part)
        if origin is Annotated:
            left.append(get_args(part)[0])
        elif origin is typing.Union or origin is types.UnionType:
            left.extend(get_args(part))
        else:
            members.append(part)
    return members


def _annotated_text(annotation: Any) -> str | None:
    annotation = unwrap_alias(annotation)
    if get_origin(annotation) is not Annotated:
        return None
    texts = [extra for extra in annotation.__metadata__ if isinstance(extra, str)]
    return "; ".join(texts) or None


def _plain_types(annotation: Any) -> Any:
    """The annotation with each `typing.TypedDict` in a form that pydantic accepts before 3.12."""
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation) and type(annotation).__module__ == "typing":
        # A recursive one, or one with unknown names, stays: pydantic's error says what to do.
        known = _can_be_renewed(annotation, ())
        return _renewed_typed_dict(annotation) if known else annotation
    parts = get_args(annotation)
    if not parts or get_origin(annotation) is typing.Literal:
        return annotation
    renewed = tuple(_plain_types(part) for part in parts)
    if all(new is old for new, old in zip(renewed, parts, strict=True)):
        return annotation
    if get_origin(annotation) is types.UnionType:
        return typing.Union[renewed]  # noqa: UP007 - built from parts known only now
    return (
        annotation.copy_with(renewed)
        if hasattr(annotation, "copy_with")
        else get_origin(annotation)[renewed]
    )


def _can_be_renewed(annotation: Any, above: tuple[Any, ...]) -> bool:
    if annotation in above:
        return False
    if not typing.is_typeddict(annotation):
        return all(_can_be_renewed(part, above) for part in get_args(annotation))
    try:
        hints = typing.get_type_hints(annotation, include_extras=True)
    except NameError:
        return False
    return all(_can_be_renewed(hint, (*above, annotation)) for hint in hints.values())


@functools.lru_cache(maxsize=256)
def _renewed_typed_dict(original: Any) -> Any:
    # Before 3.12, pydantic accepts only the TypedDict of typing_extensions.
    from typing_extensions import TypedDict  # noqa: PLC0415

    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(original, include_extras=True).items():
        marker: Any = typing.Required if name in original.__required_keys__ else typing.NotRequired
        plain = (
            get_args(hint)[0] if get_origin(hint) in (typing.Required, typing.NotRequired) else hint
        )
        fields[name] = marker[_plain_types(plain)]
    renewed: Any = TypedDict(original.__name__, fields)  # type: ignore[misc]
    renewed.__doc__ = original.__doc__
    renewed.__module__ = original.__module__
    return renewed
