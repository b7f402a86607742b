"""The arguments of a derived tool: other names, descriptions and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UNSET: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """How one argument of a derived tool differs from the original's.

    `hidden` hides it from the model. The function then gets `default`, or without one uses
    its own default.
    """

    name: str | None = None
    description: str | None = None
    default: Any = UNSET
    hidden: bool = False

    def shown(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """The argument's schema with this description and this default."""
        shown = dict(described)
        if self.description is not None:
            shown["description"] = self.description
        if self.default is not UNSET:
            shown["default"] = self.default
        return shown


class Reshape:
    """A mapping between the arguments a model sees and those the function takes."""

    __slots__ = ("_arguments", "_below", "_inner")

    def __init__(self, arguments: Mapping[str, Argument], below: "Reshape | None" = None) -> None:
        self._arguments = dict(arguments)
        self._below = below
        self._inner = {
            argument.name or name: name
            for name, argument in self._arguments.items()
            if not argument.hidden
        }

    def schema(self, original: Mapping[str, Any]) -> dict[str, Any]:
        """The original's schema with the changed arguments."""
        schema = dict(self._below.schema(original) if self._below else original)
        properties: dict[str, Any] = {}
        required: list[str] = []
        for name, described in schema.get("properties", {}).items():
            argument = self._arguments.get(name, Argument())
            if argument.hidden:
                continue
            outer = argument.name or name
            properties[outer] = argument.shown(described)
            if name in schema.get("required", ()) and argument.default is UNSET:
                required.append(outer)
        schema.pop("required", None)
        return {**schema, "properties": properties, **({"required": required} if required else {})}

    def translate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under the function's own names; `KeyError` for a hidden name."""
        translated: dict[str, Any] = {}
        for name, value in arguments.items():
            if name not in self._inner and name in self._arguments:
                raise KeyError(name)
            translated[self._inner.get(name, name)] = value
        for name, argument in self._arguments.items():
            if argument.default is not UNSET and not argument.hidden:
                translated.setdefault(name, argument.default)
        return self._below.translate(translated) if self._below else translated

    def inner_name(self, name: str) -> str:
        """The function's own name of an argument."""
        inner = self._inner.get(name, name)
        return self._below.inner_name(inner) if self._below else inner
