"""Pack a tool's function for workers, and explain what can't be packed."""

import inspect
import itertools
import sys
from typing import Any

from wieldy.core.errors import DefinitionError
from wieldy.core.schema.signature import unwrap_partial
from wieldy.core.tool import Tool
from wieldy.core.work import Work

from .remote_box import Shareable
from .shipping import pack

_keys = itertools.count(1)


class Shipment:
    """A function as bytes, in its state when the tool is first called."""

    def __init__(self, work: Work) -> None:
        self.key = next(_keys)
        self.packed = pack((work.function, work.context, work.positional, _module_boxes()))


def _module_boxes() -> dict[str, dict[str, Shareable]]:
    """The boxes that are global variables of modules, by module and name.

    A worker that imports such a module creates a new box there, without the rules and the
    ledger of this one. The stand-in replaces that box.
    """
    found: dict[str, dict[str, Shareable]] = {}
    for place, module in list(sys.modules.items()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            # `isinstance` would ask the value for its class, and a proxy may answer anything.
            if issubclass(type(value), Shareable) and place != "__main__":
                found.setdefault(place, {})[name] = value
    return found


def check_shippable(tool: Tool) -> None:
    """Raise `DefinitionError` for a function that can't run in a process."""
    function = unwrap_partial(tool.function)[0]
    owner = getattr(function, "__self__", None) if inspect.ismethod(function) else None
    if owner is None and not inspect.isroutine(function) and not inspect.isclass(function):
        owner = function
    if owner is not None and not inspect.isclass(owner) and _own_attributes(owner):
        raise DefinitionError(
            tool.name,
            f"a {type(owner).__name__} has attributes ({', '.join(_own_attributes(owner)[:3])}), "
            "and what a process changes in them would not come back. Use a function, a static or "
            'class method, or isolation="thread"',
        )
    try:
        pack((tool.function, tool.presets))
    except Exception as error:
        raise DefinitionError(
            tool.name,
            f"it can't be sent to a process: {_find_culprit(tool, function)}{error}. Make that "
            'inside the function, or use isolation="thread"',
        ) from error


def explain_values(values: dict[str, Any], error: Exception) -> Exception:
    """The error with the name of the argument that can't be sent."""
    for name, value in values.items():
        reason = _packing_error(value)
        if reason is not None:
            return TypeError(f"the argument {name!r} can't be sent to a process: {reason}")
    return error


def _own_attributes(owner: object) -> list[str]:
    """The names of the attributes of an instance itself."""
    slots = [
        name
        for kind in type(owner).__mro__
        for name in _slot_names(getattr(kind, "__slots__", ()))
        if name not in ("__dict__", "__weakref__") and hasattr(owner, name)
    ]
    return [*getattr(owner, "__dict__", {}), *slots]


def _slot_names(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _find_culprit(tool: Tool, function: Any) -> str:
    """The name of the preset or variable that can't be sent."""
    for name, value in tool.presets.items():
        if _packing_error(value) is not None:
            return f"the preset {name!r}: "
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return ""
    for name, value in {**found.globals, **found.nonlocals}.items():
        if _packing_error(value) is not None:
            return f"{name!r}: "
    return ""


def _packing_error(value: Any) -> str | None:
    try:
        pack(value)
    except Exception as error:
        return str(error)
    return None
