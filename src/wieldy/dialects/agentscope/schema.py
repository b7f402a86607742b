"""Tools as AgentScope describes them to a model."""

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from wieldy.core.schema import untitled
from wieldy.core.tool import Tool


def function_schema(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A function's description; what is empty is left out."""
    shown = {key: value for key, value in parameters.items() if key != "additionalProperties"}
    if not shown.get("required"):
        shown.pop("required", None)
    function: dict[str, Any] = {"name": name}
    if description:
        function["description"] = description
    function["parameters"] = {"type": "object", "properties": {}, **shown}
    return {"type": "function", "function": function}


def described(tool: Tool) -> dict[str, Any]:
    """A tool that came another way."""
    return function_schema(tool.name, tool.description, tool.input_schema)


def checked_schema(json_schema: Any) -> dict[str, Any]:
    """A schema that a user gave, or `TypeError` if it is none."""
    if not isinstance(json_schema, Mapping):
        raise TypeError(f"json_schema must be a dict, not {type(json_schema).__name__}")
    function = json_schema.get("function")
    if json_schema.get("type") != "function" or not isinstance(function, Mapping):
        raise TypeError('json_schema must be {"type": "function", "function": {…}}')
    parameters = function.get("parameters", {"type": "object"})
    fits = isinstance(parameters, Mapping) and parameters.get("type") == "object"
    if not isinstance(function.get("name"), str) or not fits:
        raise TypeError("json_schema needs a name, and parameters of type object")
    return dict(json_schema)


def extended(name: str, json_schema: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The schema with a model's fields joined to it; a field that is there already clashes."""
    function = json_schema["function"]
    own = function.get("parameters", {})
    added: dict[str, Any] = untitled(model.model_json_schema())
    clash = own.get("properties", {}).keys() & added.get("properties", {}).keys()
    if clash:
        raise ValueError(
            f"the fields {sorted(clash)} of {model.__name__} are parameters of {name} already"
        )
    for key in ("$defs", "properties"):
        if key in own or key in added:
            own = {**own, key: {**own.get(key, {}), **added.get(key, {})}}
    needed = [*own.get("required", ()), *added.get("required", ())]
    parameters = {**own, "required": needed} if needed else own
    return {**json_schema, "function": {**function, "parameters": parameters}}


def with_variadic(
    func: Any, parameters: Mapping[str, Any], positional: bool, keyword: bool
) -> tuple[dict[str, Any], str | None, str | None]:
    """The parameters with `*args` and `**kwargs` where asked for, and their names."""
    kinds = {p.kind: name for name, p in inspect.signature(func).parameters.items()}
    args = kinds.get(inspect.Parameter.VAR_POSITIONAL) if positional else None
    kwargs = kinds.get(inspect.Parameter.VAR_KEYWORD) if keyword else None
    properties = dict(parameters.get("properties", {}))
    if args is not None:
        properties[args] = {"type": "array", "items": {}}
    if kwargs is not None:
        properties[kwargs] = {"type": "object", "additionalProperties": True}
    return {**parameters, "properties": properties}, args, kwargs
