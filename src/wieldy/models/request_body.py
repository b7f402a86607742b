"""The common parts of request bodies for all providers."""

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import TypeIs

from wieldy.core.bounded_json import parse_json
from wieldy.core.call import Call
from wieldy.core.choices import ProviderFormat
from wieldy.core.tool import Tool

from .model import ModelRequest

# An option that says how tools are described, and is no field of any body.
_DEFER = "defer_tools"
# Providers refuse these options in a request without tools.
_ABOUT_TOOLS = {"tool_choice", "parallel_tool_calls"}


class NoTools:
    """Stands in for the tools of a request that has none."""

    def get(self, name: str) -> Tool | None:
        """No tool has this name."""
        return None


def request_tools(request: ModelRequest, provider: ProviderFormat) -> list[dict[str, Any]]:
    """The request's tools in a provider's format."""
    if request.tools is None:
        return []
    return request.tools.schemas(provider, defer=request.options.get(_DEFER))


def sent_options(request: ModelRequest) -> dict[str, Any]:
    """The options that are fields of the body, less those about tools that it does not have."""
    left_out = {_DEFER}
    if request.tools is None and not request.options.get("tools"):
        left_out |= _ABOUT_TOOLS
    return {name: value for name, value in request.options.items() if name not in left_out}


def add_options(
    body: dict[str, Any], options: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The body with the options under the provider's names.

    An option that is None removes the field. The provider's own tools come after the request's.
    """
    whole = dict(body)
    for name, value in options.items():
        field = (names or {}).get(name, name)
        if value is None:
            whole.pop(field, None)
        elif field == "tools":
            whole["tools"] = [*whole.get("tools", ()), *value]
        else:
            whole[field] = value
    return whole


def wrap_in_list(value: Any) -> list[Any]:
    """A list as it is, or any other value as the only item of a list."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def argument_object(call: Call) -> dict[str, Any]:
    """A call's arguments as an object, which is empty if the model wrote invalid JSON."""
    sent: Any = call.arguments
    if isinstance(sent, str):
        try:
            sent = parse_json(sent)
        except ValueError:
            return {}
    return dict(sent) if isinstance(sent, Mapping) else {}


def is_object_schema(schema: Mapping[str, Any] | None) -> TypeIs[Mapping[str, Any]]:
    """Whether a schema of the answer is there, and one that providers can enforce."""
    return schema is not None and schema.get("type") == "object"
