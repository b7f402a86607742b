"""The names of a tool's parameters, read without building its schema."""

import inspect
from collections.abc import Iterable, Mapping
from types import CodeType
from typing import Any, Protocol, runtime_checkable

from wieldy.core.schema.annotations import written_annotations
from wieldy.core.schema.signature import Injected, unwrap_partial
from wieldy.core.tool import Tool


@runtime_checkable
class NamedParameters(Protocol):
    """A schema that is computed on first need, and knows the names of its parameters before."""

    def parameter_names(self) -> Iterable[str]:
        """The names, in order."""


def visible_parameters(tool: Tool) -> list[str]:
    """The names that a model sees, as far as they are known without the schema."""
    given = tool.given_schema
    if given is None:
        names = _function_names(tool.function)
    elif isinstance(given, Mapping):
        names = list(given.get("properties") or ())
    else:
        names = list(given.parameter_names()) if isinstance(given, NamedParameters) else []
    hidden = {*tool.presets, *unwrap_partial(tool.function)[2]}
    shown = [name for name in names if isinstance(name, str) and name not in hidden]
    if tool.shape is None:
        return shown
    return list(tool.shape.schema({"properties": {name: {} for name in shown}})["properties"])


def _function_names(function: Any) -> list[str]:
    inner, first, _ = unwrap_partial(function)
    inner = inspect.unwrap(inner)
    called = inner if inspect.isroutine(inner) else type(inner).__call__
    code = getattr(called, "__code__", None)
    if not isinstance(code, CodeType):
        return []
    bound = inspect.ismethod(called) or called is not inner
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    annotations = written_annotations(called)
    listed = names[len(first) + bound :]
    return [name for name in listed if not _is_injected(annotations.get(name))]


def _is_injected(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] == "Context"
    return isinstance(annotation, type) and issubclass(annotation, Injected)
