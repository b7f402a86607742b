"""What stands beside us: the same work without wieldy."""

import inspect
import typing
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, create_model

from .clock import AsyncWork
from .sample import ARGUMENTS, find

RAW = "awaiting the function"


def pydantic_model(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """The arguments of a function as a pydantic model."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        parameter.name: (
            hints[parameter.name],
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in inspect.signature(function).parameters.values()
    }
    return create_model(name, **fields)


def pydantic_schema(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """The schema that pydantic gives for a function's arguments."""
    return pydantic_model(function, name).model_json_schema()


def raw(count: int) -> AsyncWork:
    """Work that awaits the function itself, so many times."""

    async def work() -> None:
        for _ in range(count):
            await find(**ARGUMENTS)

    return work
