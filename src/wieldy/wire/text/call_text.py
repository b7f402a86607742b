"""Write calls as text, in each dialect that the text parser reads."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from wieldy.core.bounded_json import dump_json
from wieldy.core.choices import TextDialect

from .call_dialects import dialect_named
from .parameter_calls import read_back

_ELEMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")
_TAG_LIKE = re.compile(
    r"</?(?:[\w-]+:)?(?:parameter|function|invoke|tool_call)|\A\s*+<!\[CDATA\[", re.IGNORECASE
)


def render_call(name: str, arguments: Mapping[str, Any], dialect: TextDialect = "xml") -> str:
    """Write a call as a model should write it.

    Values are escaped so that they can't open or close a tag.

    Args:
        name: the name of the tool.
        arguments: its arguments.
        dialect: the form of the call; `auto` is written as `xml`.

    Returns:
        The text of the call.

    Raises:
        ValueError: the dialect is unknown, or `qwen` or `invoke` can't express a name.

    Example:
        `render_call("weather", {"city": "Rome"}, "hermes")`
    """
    return _RENDERERS.get(dialect_named(dialect).name, _write_xml)(name, arguments)


def cdata(text: str) -> str:
    """Text as CDATA. Text that contains the end mark is split into two sections."""
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"


def scalar_text(value: Any) -> str:
    """A value as text: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else dump_json(value, ensure_ascii=False)


def _without_tags(json_text: str) -> str:
    """JSON text with the characters escaped that could open or close a tag."""
    return json_text.replace("<", "\\u003c")


def _write_xml(name: str, arguments: Mapping[str, Any]) -> str:
    if all(_is_tag(key) for key in arguments):
        lines = [
            f"    <{key}>{_element_content(value)}</{key}>" for key, value in arguments.items()
        ]
    else:
        lines = [f"    {cdata(scalar_text(dict(arguments)))}"]
    params = "\n".join(["  <params>", *lines, "  </params>"])
    return f"<tool_call>\n  <name>{escape(name)}</name>\n{params}\n</tool_call>"


def _element_content(value: Any, depth: int = 0) -> str:
    """The content of an element: items, members, or the value as CDATA."""
    if depth < 16 and isinstance(value, list | tuple) and value:
        return "".join(f"<item>{_element_content(item, depth + 1)}</item>" for item in value)
    if depth < 16 and isinstance(value, Mapping) and value and all(map(_is_tag, value)):
        members = value.items()
        return "".join(
            f"<{key}>{_element_content(item, depth + 1)}</{key}>" for key, item in members
        )
    return cdata(scalar_text(value))


def _write_hermes(name: str, arguments: Mapping[str, Any]) -> str:
    call = _without_tags(scalar_text({"name": name, "arguments": dict(arguments)}))
    return f"<tool_call>\n{call}\n</tool_call>"


def _write_qwen(name: str, arguments: Mapping[str, Any]) -> str:
    texts = [(key, _json_text(value)) for key, value in arguments.items()]
    parts = "".join(
        f"<parameter={key}>\n{_parameter_text(text)}\n</parameter>\n" for key, text in texts
    )
    call = f"<function={name}>\n{parts}</function>"
    _check_readable("function", call, name, texts)
    return f"<tool_call>\n{call}\n</tool_call>"


def _write_invoke(name: str, arguments: Mapping[str, Any]) -> str:
    texts = [(key, _json_text(value)) for key, value in arguments.items()]
    parts = "".join(
        f"<parameter name={quoteattr(key)}>{_own_lines(_parameter_text(text))}</parameter>\n"
        for key, text in texts
    )
    call = f"<invoke name={quoteattr(name)}>\n{parts}</invoke>"
    _check_readable("invoke", call, name, texts)
    return f"<function_calls>\n{call}\n</function_calls>"


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else _without_tags(scalar_text(value))


def _parameter_text(text: str) -> str:
    """Text unchanged if that is safe, else as CDATA."""
    # A reader would take a final carriage return for part of the line break after it.
    return cdata(text) if _TAG_LIKE.search(text) or text.endswith("\r") else text


def _check_readable(form: str, call: str, name: str, texts: list[tuple[str, str]]) -> None:
    """Raise `ValueError` if reading the call back would give something else."""
    if read_back(form, call) != (name, texts):
        raise ValueError(f"The call of {name!r} can't be written with {form!r} tags.")


def _own_lines(text: str) -> str:
    """Text between two line breaks, which a reader removes again."""
    return f"\n{text}\n" if text[:1] in ("\n", "\r") or text.endswith("\n") else text


def _is_tag(key: object) -> bool:
    return isinstance(key, str) and bool(_ELEMENT.match(key)) and key.lower() != "tool_call"


_RENDERERS: dict[str, Callable[[str, Mapping[str, Any]], str]] = {
    "xml": _write_xml,
    "hermes": _write_hermes,
    "qwen": _write_qwen,
    "invoke": _write_invoke,
}
