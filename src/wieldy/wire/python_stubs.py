"""Tools as Python functions: the signatures that a model reads before it writes a program."""

import re
from collections.abc import Mapping
from typing import Any

from wieldy.core.schema.references import resolve_reference
from wieldy.core.tool import Tool

from .python_names import KEYWORDS, python_names

__all__ = ["parameter_names", "tool_outline", "tool_stub"]

_SCALARS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
_MAX_CHOICES = 20
_MAX_MEMBERS = 8
_MAX_DEPTH = 4
_MAX_DEFAULT = 60
_MAX_LINE = 200
# Results are described less deeply than arguments, which a program has to get right.
_RESULT_DEPTH = 1
_INDENT = "    "
# A class of such a name would hide what the stubs are written with.
_TAKEN_TITLES = KEYWORDS | {"Any", "Literal", "NotRequired", "TypedDict"}


def tool_stub(tool: Tool, name: str) -> str:
    """The tool as an async function with types and a docstring, and the types that it needs.

    Args:
        tool: The tool.
        name: The name of the function; see `python_names`.

    Returns:
        Python source without a body.

    Example:
        `print(tool_stub(box.get("forecast"), "forecast"))`
    """
    text: str = tool.once(("python stub", name), lambda tool: _Stub(tool, name).text())
    return text


def tool_outline(tool: Tool, name: str) -> str:
    """The tool as one line: the function, its parameters, and the first line of its description.

    Args:
        tool: The tool.
        name: The name of the function; see `python_names`.

    Returns:
        The line.

    Example:
        `tool_outline(tool, "forecast")` gives `forecast(city, days=…): Forecast the weather.`
    """
    needed = tool.input_schema.get("required", ())
    shown = [
        given if own in needed else f"{given}=…" for own, given in parameter_names(tool).items()
    ]
    first = tool.stated_description.strip()[:_MAX_LINE].splitlines()[:1]
    return _drop_forbidden(f"{name}({', '.join(shown)}): {''.join(first)}")


def parameter_names(tool: Tool) -> dict[str, str]:
    """The name of each argument as a program writes it, by the tool's own name for it."""
    names: dict[str, str] = tool.once("python parameters", _read_parameters)
    return names


def _read_parameters(tool: Tool) -> dict[str, str]:
    return python_names(tool.input_schema["properties"], KEYWORDS)


class _Stub:
    """Writes the stub of one tool; objects with known members become classes before it."""

    def __init__(self, tool: Tool, name: str) -> None:
        self._tool = tool
        self._name = name
        self._title = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
        self._classes: dict[str, str] = {}
        # The names of the classes that are being written, by what they were made from.
        self._open: dict[int, str] = {}

    def text(self) -> str:
        schema, returned = self._tool.input_schema, self._tool.output_schema
        needed = schema.get("required", ())
        names = parameter_names(self._tool)
        parameters = [
            self._write_parameter(names[own], own, part, own in needed)
            for own, part in schema["properties"].items()
        ]
        result = (
            "Any"
            if returned is None
            else _Types(self, returned).write(returned, "Result", _RESULT_DEPTH)
        )
        signature = f"async def {self._name}({', '.join(['*', *parameters] if parameters else [])})"
        return "\n".join(
            [*self._classes.values(), f"{signature} -> {result}:", *self._write_docstring()]
        )

    def _write_parameter(self, name: str, own: str, schema: Any, needed: bool) -> str:
        kind = _Types(self, self._tool.input_schema).write(schema, own, 0)
        return f"{name}: {kind}" + ("" if needed else f" = {_write_default(schema)}")

    def _write_docstring(self) -> list[str]:
        names = parameter_names(self._tool)
        described = [
            f"{names[own]}: {' '.join(part['description'].split())}"
            for own, part in self._tool.input_schema["properties"].items()
            if isinstance(part, Mapping) and isinstance(part.get("description"), str)
        ]
        said = [*self._tool.description.strip().splitlines(), *described]
        quoted = (
            _drop_forbidden("\n".join(said))
            .replace("\\", "\\\\")
            .replace('"""', "'''")
            .splitlines()
        )
        if len(quoted) <= 1:
            return (
                [f'{_INDENT}"""{_close_line("".join(quoted))}"""'] if quoted else [f"{_INDENT}..."]
            )
        lines = [f'"""{quoted[0]}', *quoted[1:], '"""']
        return [f"{_INDENT}{line}".rstrip() for line in lines]

    def add_class(self, schema: Mapping[str, Any], types: "_Types", name: str, depth: int) -> str:
        """Write an object with known members as a class; returns its name."""
        if id(schema) in self._open:
            return self._open[id(schema)]
        title = self._free_title(name)
        self._open[id(schema)] = title
        # The place is taken first, so that classes inside it get other names.
        self._classes[title] = ""
        needed = schema.get("required", ())
        members = {
            key: _mark_optional(types.write(part, key, depth + 1), key in needed)
            for key, part in schema["properties"].items()
        }
        # A class stands behind those that it needs.
        del self._classes[title]
        self._classes[title] = _write_class(title, members)
        del self._open[id(schema)]
        return title

    def _free_title(self, name: str) -> str:
        words = re.sub(r"\W+", "_", name, flags=re.ASCII).split("_")
        title = self._title + "".join(word[:1].upper() + word[1:] for word in words)
        title = title if title.isidentifier() else f"_{title}"
        number = 2
        free = title
        while free in self._classes or free in _TAKEN_TITLES:
            free, number = f"{title}{number}", number + 1
        return free


class _Types:
    """Writes parts of one schema as types."""

    def __init__(self, stub: _Stub, root: Mapping[str, Any]) -> None:
        self._stub = stub
        self._root = root

    def write(self, schema: Any, name: str, depth: int) -> str:
        """The type of a part; `name` is for a class, if it needs one."""
        schema = resolve_reference(schema, self._root)
        if depth > _MAX_DEPTH or not schema:
            return "Any"
        choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(choices, list) and 0 < len(choices) <= _MAX_CHOICES and _are_plain(choices):
            return f"Literal[{', '.join(map(repr, choices))}]"
        members = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(members, list) and members:
            return self._join_kinds([self.write(each, name, depth + 1) for each in members])
        whole = schema.get("allOf")
        if isinstance(whole, list) and len(whole) == 1 and "properties" not in schema:
            return self.write(whole[0], name, depth + 1)
        kind = schema.get("type", "object" if "properties" in schema else None)
        kinds = kind if isinstance(kind, list) else [kind]
        return self._join_kinds([self._write_kind(schema, each, name, depth) for each in kinds])

    def _write_kind(self, schema: Mapping[str, Any], kind: Any, name: str, depth: int) -> str:
        if kind == "array":
            return f"list[{self.write(schema.get('items'), name, depth + 1)}]"
        if kind != "object":
            return _SCALARS.get(kind, "Any") if isinstance(kind, str) else "Any"
        members = schema.get("properties")
        if isinstance(members, Mapping) and members and depth < _MAX_DEPTH:
            return self._stub.add_class(schema, self, name, depth)
        return f"dict[str, {self.write(schema.get('additionalProperties'), name, depth + 1)}]"

    def _join_kinds(self, kinds: list[str]) -> str:
        distinct = list(dict.fromkeys(kinds))
        return "Any" if "Any" in distinct or len(distinct) > _MAX_MEMBERS else " | ".join(distinct)


def _write_class(title: str, members: Mapping[str, str]) -> str:
    if all(key == written for key, written in python_names(members, KEYWORDS).items()):
        lines = [f"{_INDENT}{key}: {kind}" for key, kind in members.items()]
        return "\n".join([f"class {title}(TypedDict):", *lines])
    listed = ", ".join(f"{key!r}: {kind}" for key, kind in members.items())
    return f"{title} = TypedDict({title!r}, {{{listed}}})"


def _mark_optional(kind: str, needed: bool) -> str:
    return kind if needed else f"NotRequired[{kind}]"


def _write_default(schema: Any) -> str:
    """The default as source, or `...` where there is none or it is long."""
    if not isinstance(schema, Mapping) or "default" not in schema:
        return "..."
    written = repr(schema["default"])
    return written if len(written) <= _MAX_DEFAULT else "..."


def _are_plain(choices: list[Any]) -> bool:
    return all(each is None or isinstance(each, str | int) for each in choices)


def _drop_forbidden(text: str) -> str:
    """A text without the characters that source can't have."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def _close_line(line: str) -> str:
    """A line that the quotes after it can't be mistaken in."""
    return f"{line} " if line.endswith('"') else line
