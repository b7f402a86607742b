"""Write an `output` slot with its types as JSON, which another process can read."""

import importlib
from collections.abc import Mapping
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from wieldy.wire.structured.json_validation import model_schema

from .output_text import expand_type, type_name
from .type_words import read_type

_GENERICS: dict[Any, str] = {list: "list", dict: "dict", Union: "union", UnionType: "union"}


class LostType(Exception):
    """The type of an answer can't be found in this process."""


def write_output(output: Any, seen: tuple[Any, ...] = ()) -> Any:
    """The slot as JSON. Types become names, and classes the place where they are defined.

    `seen` are the models that this is a part of.
    """
    if output is None or output is NoneType or isinstance(output, bool | int | float):
        return {"value": None if output is NoneType else output}
    if isinstance(output, str):
        return {"text": output}
    if isinstance(output, tuple):
        return {"pair": [write_output(each, seen) for each in output]}
    if isinstance(output, Mapping):
        return {"object": [[str(key), write_output(each, seen)] for key, each in output.items()]}
    if isinstance(output, list | set):
        return {"list": [write_output(each, seen) for each in output]}
    return _write_type(output, seen)


def read_recorded_output(data: Any, nested: bool = False) -> Any:
    """The slot that was written; `LostType` if a class no longer exists."""
    ((kind, held),) = data.items()
    match kind:
        case "pair":
            return tuple(read_recorded_output(each, nested) for each in held)
        case "object":
            return {key: read_recorded_output(each, True) for key, each in held}
        case "list":
            return [read_recorded_output(each, True) for each in held]
        case "words":
            return read_type(held)
        case "generic":
            return _join_types(held[0], tuple(read_recorded_output(each, True) for each in held[1]))
        case "class":
            return _find_class(held, nested)
    return held


def _write_type(kind: Any, seen: tuple[Any, ...]) -> dict[str, Any]:
    if kind is Any:
        return {"words": "any"}
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    name = _GENERICS.get(get_origin(kind))
    if name is not None:
        return {"generic": [name, [write_output(each, seen) for each in get_args(kind)]]}
    words = type_name(kind)
    read = read_type(words)
    if not isinstance(read, str) and (read is kind or read == kind):
        return {"words": words}
    if kind in seen:
        # The form of a model that has fields of its own type would have no end.
        return {"words": "any"}
    return {"class": _write_class(kind, seen)}


def _join_types(name: str, inner: tuple[Any, ...]) -> Any:
    if name == "union":
        return reduce(or_, inner)
    return {"list": list, "dict": dict}[name][inner]  # type: ignore[index]


def _write_class(kind: Any, seen: tuple[Any, ...]) -> dict[str, Any]:
    """The place where a class is defined, and the form to use if it is not found there."""
    place = {
        "module": getattr(kind, "__module__", ""),
        "name": getattr(kind, "__qualname__", repr(kind)),
    }
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        shape = write_output(expand_type(kind), (*seen, kind))
        return {**place, "schema": model_schema(kind), "shape": shape}
    return place


def _find_class(place: Mapping[str, Any], nested: bool) -> Any:
    try:
        module = importlib.import_module(place["module"])
        found = reduce(getattr, place["name"].split("."), module)
    except (ImportError, AttributeError, ValueError):
        found = None
    if isinstance(found, type):
        return found
    if "schema" in place:
        return read_recorded_output(place["shape"]) if nested else dict(place["schema"])
    raise LostType(f"{place['module']}.{place['name']}")
