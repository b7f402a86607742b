"""How AgentScope describes a function to a model."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from wieldy.core.schema.json_schema import without_titles
from wieldy.core.schema.preset_removal import without_filled_in
from wieldy.core.tool import Tool

Schema = dict[str, Any]


def function_schema(tool: Tool) -> Schema:
    """A tool as AgentScope describes it; what is empty is left out."""
    remote = tool.source.startswith("mcp")
    parameters = {"properties": {}, **tool.input_schema, "type": "object"}
    if not remote:
        parameters.pop("additionalProperties", None)
    if not parameters.get("required") and not remote:
        parameters.pop("required", None)
    described = {"description": tool.description} if tool.description else {}
    function = {"name": tool.name, **described, "parameters": parameters}
    return {"type": "function", "function": function}


def given_schema(tool: Tool, given: Schema) -> Schema:
    """A schema as its user gave it, less what is preset, under the tool's name and description."""
    function = given["function"]
    parameters = {"type": "object", "properties": {}, **function.get("parameters", {})}
    if tool.presets:
        parameters = without_filled_in(parameters, tool.presets)
    if not parameters.get("required"):
        parameters.pop("required", None)
    described = {"description": tool.description} if tool.description else {}
    return {
        **given,
        "function": {**function, "name": tool.name, **described, "parameters": parameters},
    }


def check_given_schema(json_schema: Any) -> Schema:
    """A schema that a user gave, or `TypeError` if it is not a dict."""
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


def extend_schema(name: str, json_schema: Schema, model: type[BaseModel]) -> Schema:
    """The schema with a model's fields joined to it; what is there already clashes."""
    function = json_schema["function"]
    own = function["parameters"]
    added: Schema = without_titles(model.model_json_schema())
    joined = dict(own)
    for key, what in (("properties", "field"), ("$defs", "definition")):
        mine, theirs = own.get(key, {}), added.get(key, {})
        for each in mine.keys() & theirs.keys():
            if key == "properties" or without_titles(mine[each]) != theirs[each]:
                raise ValueError(
                    f"The {what} `{each}` of {model.__name__} already exists in the original "
                    f"function schema of `{name}`: rename it."
                )
        if mine or theirs:
            joined[key] = {**mine, **theirs}
    needed = [*own.get("required", ()), *added.get("required", ())]
    if needed:
        joined["required"] = needed
    return {**json_schema, "function": {**function, "parameters": joined}}
