"""The keyword options of a tool that is added."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypedDict, TypeVar, overload

from typing_extensions import Unpack

from .choices import ConflictPolicy, Isolation, PermissionName, ValidationMode
from .limits.limits import LimitKey, Limits
from .names import check_options
from .schema.signature import unwrap_partial
from .tool import Permission

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__wieldy_tool__"


class LimitOptions(TypedDict, total=False):
    """The fields of `Limits`, each as a keyword."""

    timeout: float | None
    retries: int
    retry_unsafe: bool
    concurrency: int | None
    key: LimitKey | None
    exclusive: bool
    rate: str | tuple[int, float] | None
    cache: float | None
    isolation: Isolation | None
    memory: int | str | None
    max_result: int | None


class ToolOptions(LimitOptions, total=False):
    """The options of a tool that is added."""

    group: str
    tags: Iterable[str]
    permission: Permission | PermissionName | None
    presets: Mapping[str, Any] | None
    limits: Limits | None
    postprocess: Callable[[Any], Any] | None
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    read_only: bool | None
    idempotent: bool | None
    destructive: bool | None
    open_world: bool | None
    untrusted: bool | None
    simulate: Callable[..., Any] | None
    check_output: bool | None
    validation: ValidationMode | None
    source: str
    on_conflict: ConflictPolicy


TOOL_OPTIONS = frozenset(ToolOptions.__annotations__)
_LIMIT_NAMES = frozenset(field.name for field in fields(Limits))


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    function: None = None,
    /,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> F | Callable[[F], F]:
    """Mark a function with the options by which it is registered later.

    The options take effect when the function is added to a toolbox, also as a method through
    `add_object`. The function itself is unchanged.

    Args:
        function: The function, where the decorator is used without parentheses.
        name: The tool's name; by default the function's.
        description: The text for the model; by default from the docstring.
        **options: The options of `Toolbox.add`.

    Returns:
        The function itself, or the decorator.

    Example:
        `@tool(read_only=True)` above `def weather(city: str) -> str:`
    """
    check_options(tool, options, TOOL_OPTIONS)
    noted = with_names(options, name, description)

    def mark(marked: F) -> F:
        # The mark of a static or class method is put on the function inside it.
        setattr(getattr(marked, "__func__", marked), _MARK, noted)
        return marked

    return mark if function is None else mark(function)


def marked_options(function: Any) -> dict[str, Any]:
    """The options that `@tool` put on a function, on a method, or on what a partial wraps."""
    return dict(getattr(unwrap_partial(function)[0], _MARK, {}))


def with_names(options: ToolOptions, name: str | None, description: str | None) -> dict[str, Any]:
    """The options with the name and the description, if they are given."""
    given: dict[str, Any] = {**options}
    if name is not None:
        given["name"] = name
    if description is not None:
        given["description"] = description
    return given


def with_limits(options: dict[str, Any], before: Limits | None) -> dict[str, Any]:
    """The options with single limits gathered into one `Limits`."""
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
