"""A function that takes a model's fields beside its own, and answers with them."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from wieldy.core.schema import arguments_validator
from wieldy.core.tool import Tool


def splitting(
    tool: Tool,
    call: Callable[..., Any],
    args_name: str | None = None,
    kwargs_name: str | None = None,
) -> Callable[..., Any]:
    """The call, from arguments in which `*args` and `**kwargs` stand as a list and a dict."""
    hydrate = _hydrating(tool)

    def spread(**arguments: Any) -> Any:
        rest = arguments.pop(args_name, ()) if args_name else ()
        extra = arguments.pop(kwargs_name, {}) if kwargs_name else {}
        return call(*_first(tool, arguments, rest), **hydrate(arguments), **extra)

    return spread


def split_fields(
    model: type[BaseModel], arguments: Mapping[str, Any], takes_all: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The function's own arguments, and the model's as they were validated."""
    fields = {info.alias or name for name, info in model.model_fields.items()}
    given = {name: value for name, value in arguments.items() if name in fields}
    checked = model.model_validate(given).model_dump(mode="json", by_alias=True)
    own = {name: value for name, value in arguments.items() if name not in fields}
    return ({**own, **checked} if takes_all else own), checked


def _first(tool: Tool, arguments: dict[str, Any], rest: Any) -> list[Any]:
    """What must go by place, because more goes by place after it."""
    if not rest:
        return []
    hydrated = _hydrating(tool)(arguments)
    ordered = [hydrated[p.name] for p in tool.signature.parameters if p.name in hydrated]
    arguments.clear()
    return [*ordered, *rest]


def _hydrating(tool: Tool) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    validator = arguments_validator(tool.name, tool.signature)

    def hydrate(arguments: Mapping[str, Any]) -> dict[str, Any]:
        if not arguments:
            return {}
        values: dict[str, Any] = validator.validate_python(dict(arguments))[1]
        return values

    return hydrate
