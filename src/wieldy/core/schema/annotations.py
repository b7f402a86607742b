"""Read parameters and annotations of a callable, also where they name what does not exist yet."""

import dis
import inspect
import sys
import typing
from typing import Any

from wieldy.core.errors import DefinitionError

_MAX_ALIASES = 100

if sys.version_info >= (3, 14):
    # An annotation is evaluated when it is asked for, and a class may be defined after the tool.
    from annotationlib import Format, get_annotations

    def _signature_of(function: Any) -> inspect.Signature:
        return inspect.signature(function, annotation_format=Format.FORWARDREF)

    def _annotations_of(function: Any) -> dict[str, Any]:
        return get_annotations(function, format=Format.FORWARDREF)

else:
    _signature_of = inspect.signature

    def _annotations_of(function: Any) -> dict[str, Any]:
        return getattr(function, "__annotations__", None) or {}


def signature_of(function: Any, tool: str = "") -> inspect.Signature:
    """The signature of a callable, in which annotations may be text or a `ForwardRef`.

    Raises:
        TypeError: It is not callable.
        ValueError: It has no signature.
        DefinitionError: Evaluating an annotation raised something else than a `NameError`.
    """
    try:
        return _signature_of(function)
    except (TypeError, ValueError):
        raise
    except Exception as error:
        # Evaluating annotations runs other people's code.
        parameter = _find_evaluated(error) or "?"
        raise unreadable_annotation(tool, parameter, error) from error


def unreadable_annotation(tool: str, parameter: str, error: Exception) -> DefinitionError:
    """The error for an annotation that raised when it was evaluated."""
    its = "the annotation of what it returns"
    if parameter != "return":
        its = f"the annotation of the parameter {parameter!r}"
    if not isinstance(error, NameError):
        said = f"{its} can't be read: {type(error).__name__}: {error}"
        return DefinitionError(tool, said)
    return DefinitionError(
        tool,
        f"{its} names {error.name!r}, which is not known where it is defined. "
        "Import it there when the program runs, not only under TYPE_CHECKING, "
        "or pass input_schema={…}.",
    )


def written_annotations(function: Any) -> dict[str, Any]:
    """The annotations by parameter, as text where a name is not known yet; {} if none can be read.

    Evaluating them runs other people's code, which may raise anything.
    """
    try:
        found = _annotations_of(function)
    except Exception:
        return {}
    return {name: as_written(annotation) for name, annotation in found.items()}


def as_written(annotation: Any) -> Any:
    """The annotation itself, or its text if it names something that is not known yet."""
    return annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation


def find_failing(function: Any, names: dict[str, Any] | None, error: BaseException) -> str | None:
    """The parameter (or "return") whose annotation raised, or None if it was not an annotation."""
    for name, annotation in written_annotations(function).items():
        try:
            _resolve_annotation(annotation, function, names)
        except Exception:
            return name
    return _find_evaluated(error)


def _resolve_annotation(annotation: Any, function: Any, names: dict[str, Any] | None) -> Any:

    def stand_in() -> None: ...

    stand_in.__annotations__ = {"it": annotation}
    found = getattr(function, "__globals__", {})
    return typing.get_type_hints(stand_in, found, names, include_extras=True)["it"]


def _find_evaluated(error: BaseException) -> str | None:
    """The parameter at which Python stopped evaluating the annotations of a function.

    Its code for them puts the name of each parameter before the value.
    """
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "__annotate__":
            texts = [
                step.argval
                for step in dis.get_instructions(code)
                if step.offset <= trace.tb_lasti and isinstance(step.argval, str)
                if step.opname == "LOAD_CONST" and step.argval.isidentifier()
            ]
            return texts[-1] if texts else None
        trace = trace.tb_next
    return None


def unwrap_alias(annotation: Any) -> Any:
    """What `type Name = …` stands for; any other annotation is returned unchanged.

    Raises:
        Exception: The alias can't be evaluated.
    """
    for _ in range(_MAX_ALIASES):
        origin = typing.get_origin(annotation) or annotation
        if type(origin).__name__ != "TypeAliasType":
            return annotation
        value = origin.__value__
        annotation = value if origin is annotation else value[typing.get_args(annotation)]
    raise TypeError("its type alias stands for itself")
