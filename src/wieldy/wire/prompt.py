"""Write prompt text that describes tools to a model without function calling."""

from collections.abc import Iterable, Mapping
from typing import Any

from wieldy.core.choices import TextDialect
from wieldy.core.names import provider_name
from wieldy.core.schema.references import resolve_reference
from wieldy.core.tool import Tool

from .schema.example_values import example_arguments
from .text.call_dialects import dialect_named
from .text.call_text import render_call, scalar_text
from .text.result_text import format_result, parse_result
from .text.text_values import kinds_of

__all__ = [
    "example_arguments",
    "format_result",
    "kwargs_form",
    "parse_result",
    "render_call",
    "tool_instructions",
]

Kwargs = dict[str, tuple[Any, str]]

NO_TOOLS = "No tools are available. Answer without calling one."

_HEAD = """## Tools

To use a tool, write a call in exactly the form of its example. The call is run, and its result
comes back to you in the next message. Text outside of a call is shown to the user.
"""
_NOTES = {
    "xml": """- Put every value in CDATA. Nothing in it needs to be escaped.
- Write a list as one <item> per entry, and an object as one element per member.
- Close every tag, and end the call with </tool_call>.""",
    "hermes": """- The text in the tag is one JSON object with the keys "name" and "arguments".
- End the call with </tool_call>.""",
    "qwen": """- Write values as they are. A list or an object is written as JSON.
- Close every tag, and end the call with </function></tool_call>.""",
    "invoke": """- Write values as they are. A list or an object is written as JSON.
- Close every tag, and end with </function_calls>.""",
}
_GENERAL = """- Use only the tools above, with the parameters listed there.
- Give every required parameter. Leave out an optional one to use its default.
- Several calls may follow one another. Don't make up a result: wait for it."""


def tool_instructions(tools: Iterable[Tool], dialect: TextDialect = "xml") -> str:
    """Prompt text that lists the tools and explains how to write a call in the answer.

    Args:
        tools: the tools, such as a `Toolbox`.
        dialect: the form in which the model should write calls.

    Returns:
        The text, for a system message.

    Raises:
        ValueError: the dialect is unknown.

    Example:
        `system = tool_instructions(box, dialect="hermes")`
    """
    form = dialect_named(dialect).name
    described = [_describe_tool(tool, form) for tool in tools]
    if not described:
        return NO_TOOLS
    notes = f"Notes:\n{_NOTES.get(form, _NOTES['xml'])}\n{_GENERAL}"
    return "\n\n".join([_HEAD.rstrip(), *described, notes])


def kwargs_form(schema: Mapping[str, Any] | None) -> Kwargs | None:
    """The arguments of a schema as `{name: (type, "key: value;…")}`; None if it has none.

    Raises:
        KeyError: the schema has no `type`.
        TypeError: the type is not object.
    """
    if not schema:
        return None
    if schema["type"] != "object":
        raise TypeError(f"The schema must be of type 'object', not {schema['type']!r}.")
    form = {
        name: _schema_pair(declared) for name, declared in (schema.get("properties") or {}).items()
    }
    extra = schema.get("additionalProperties", False)
    if extra is not False and extra is not None:
        form["<*>"] = _schema_pair(extra)
    return form or None


def _schema_pair(schema: Any) -> tuple[Any, str]:
    if not isinstance(schema, Mapping):
        return Any, ""
    rest = (f"{key}: {schema[key]}" for key in schema if key not in ("type", "title"))
    return schema.get("type", Any), ";".join(rest)


def _describe_tool(tool: Tool, dialect: TextDialect) -> str:
    schema = tool.input_schema
    name = provider_name(tool.name)
    lines = [f"### {name}", f"Description: {tool.description.strip()}"]
    parameters = [
        line for each in schema.get("properties") or {} for line in _parameter_lines(each, schema)
    ]
    lines += ["Parameters:", *parameters] if parameters else ["Parameters: none"]
    lines += _example_lines(name, schema, dialect)
    return "\n".join(lines)


def _example_lines(name: str, schema: Mapping[str, Any], dialect: TextDialect) -> list[str]:
    try:
        return ["Example:", render_call(name, example_arguments(schema), dialect)]
    except ValueError:  # the dialect can't express these arguments
        return []


def _parameter_lines(name: str, schema: Mapping[str, Any]) -> list[str]:
    declared = resolve_reference(schema["properties"][name], schema)
    needed = "required" if name in schema.get("required", ()) else "optional"
    text = _one_line_description(schema["properties"][name], declared)
    line = f"  - {name}: {_type_names(declared, schema)} ({needed})" + (
        f" - {text}" if text else ""
    )
    default = declared.get("default")
    return [line] if default is None else [line, f"    Default: {scalar_text(default)}"]


def _one_line_description(given: Any, declared: Mapping[str, Any]) -> str:
    """A parameter's description on one line, with its possible values."""
    beside = given.get("description") if isinstance(given, Mapping) else None
    words = " ".join(str(beside or declared.get("description") or "").split())
    if "enum" not in declared:
        return words
    choices = ", ".join(scalar_text(value) for value in declared["enum"])
    return f"{words} (one of: {choices})".lstrip()


def _type_names(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    kinds = kinds_of(schema, root)
    named = sorted(kinds - {"null"}) or sorted(kinds)
    return " or ".join(named) or "any"
