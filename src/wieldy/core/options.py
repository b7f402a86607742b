"""What can be said about a tool when it is added, as keywords."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypedDict

from .limits import Limits
from .names import near
from .tool import Permission


class LimitOptions(TypedDict, total=False):
    """The fields of `Limits`, each as a keyword."""

    timeout: float | None
    retries: int
    retry_unsafe: bool
    concurrency: int | None
    key: Callable[[Mapping[str, Any]], Any] | None
    exclusive: bool
    rate: str | tuple[int, float] | None
    cache: float | None
    isolation: str | None
    max_result: int | None


class ToolOptions(LimitOptions, total=False):
    """What can be said about a tool when it is added."""

    group: str
    tags: Iterable[str]
    permission: Permission | str
    presets: Mapping[str, Any] | None
    limits: Limits | None
    postprocess: Callable[[Any], Any] | None
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    read_only: bool
    idempotent: bool
    destructive: bool
    validation: str | None
    source: str
    on_conflict: str


_LIMIT_NAMES = frozenset(field.name for field in fields(Limits))
_OPTION_NAMES = frozenset((*ToolOptions.__annotations__, *_LIMIT_NAMES, "name", "description"))


def with_limits(options: dict[str, Any], before: Limits | None) -> dict[str, Any]:
    """The options with single limits gathered into one `Limits`."""
    for unknown in options.keys() - _OPTION_NAMES:
        hint = near(unknown, _OPTION_NAMES, limit=1)
        guess = f" Did you mean {hint[0]!r}?" if hint else ""
        raise TypeError(f"There is no option {unknown!r} for a tool.{guess}")
    single = {name: options[name] for name in options if name in _LIMIT_NAMES}
    rest = {name: value for name, value in options.items() if name not in _LIMIT_NAMES}
    if single:
        start = rest.get("limits") or before or Limits()
        every = {name: getattr(start, name) for name in _LIMIT_NAMES}
        rest["limits"] = Limits(**{**every, **single})
    return rest


def public_methods(instance: object) -> list[str]:
    """The names of methods that the class defines, without running any property."""
    found: dict[str, None] = {}
    for owner in reversed(type(instance).__mro__[:-1]):
        for name, value in vars(owner).items():
            if name.startswith("_") or inspect.isclass(value):
                continue
            if callable(value) or isinstance(value, staticmethod | classmethod):
                found[name] = None
            else:
                found.pop(name, None)
    return list(found)
