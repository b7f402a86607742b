"""Read a docstring: what the callable does, and what each parameter means."""

import inspect
from sys import intern
from typing import Any


def read_docstring(function: Any) -> tuple[str, dict[str, str]]:
    """The description and the parameters' texts, from Google, NumPy or reST style."""
    # docstring_parser is loaded here to keep `import wieldy` light.
    from docstring_parser import ParseError, parse  # noqa: PLC0415

    text = inspect.getdoc(function) or ""
    if not text:
        return "", {}
    try:
        parsed = parse(text)
    except ParseError:
        return text, {}
    parts = [parsed.short_description, parsed.long_description]
    between = "\n\n" if parsed.blank_after_short_description else "\n"
    described = {
        intern(parameter.arg_name.lstrip("*")): " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
    }
    return between.join(part for part in parts if part), described
