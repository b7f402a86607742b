"""Follow the references inside a schema, which are JSON Pointers written as parts of a URL."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote


def split_reference(reference: str) -> list[str]:
    """The names on the way that a reference such as `#/$defs/a%20b` leads."""
    steps = reference.partition("#")[2].split("/")[1:]
    return [unquote(step).replace("~1", "/").replace("~0", "~") for step in steps]


def write_reference(*names: str) -> str:
    """The reference that leads to a part by these names."""
    steps = (name.replace("~", "~0").replace("/", "~1") for name in names)
    return "#" + "".join(f"/{quote(step, safe='$~')}" for step in steps)


def find_part(reference: Any, root: Any) -> Any:
    """The part of a schema that a reference leads to; None if it is not in there."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    return step_down(root, split_reference(reference))


def step_down(here: Any, names: list[str]) -> Any:
    """The part below another, by the names on the way; None if there is none."""
    for name in names:
        if isinstance(here, Mapping):
            here = here.get(name)
        elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return here
