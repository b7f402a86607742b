"""Write values into paths, queries, headers and cookies, in the styles that OpenAPI names.

A value can't leave its place: characters that would end it are encoded, and a value that can't
be encoded is refused.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from wieldy.core.bounded_json import dump_json

from .operation_arguments import OperationParameter

Pairs = list[tuple[str, str]]

# The reserved characters that can neither start another parameter nor end the query.
_RESERVED = ":/?@!$'()*,;"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SEPARATORS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}


def in_path(parameter: OperationParameter, value: Any) -> str:
    """A value as written into the path; `ValueError` if it would change the path."""
    written = _path_text(parameter, value)
    if not written or any(_is_step(each) for each in _value_texts(value)):
        raise ValueError(f"{parameter.argument}: it can't be empty, and have no step . or ..")
    return written


def in_query(parameter: OperationParameter, value: Any) -> Pairs:
    """A value as the pairs of a query, with names and values encoded."""
    safe = _RESERVED if parameter.reserved else ""
    if parameter.media is not None:
        return [(_encode_name(parameter.name), quote(_media_text(parameter, value), safe=safe))]
    if parameter.style == "deepObject" and isinstance(value, Mapping):
        return [
            (name, quote(text, safe=safe)) for name, text in _deep_object(parameter.name, value)
        ]
    separator = _SEPARATORS.get(parameter.style, ",")
    return _form_style(parameter, value, separator, safe)


def in_header(parameter: OperationParameter, value: Any) -> str:
    """A value as written into a header; `ValueError` if it would start another header."""
    if parameter.media is not None:
        text = _media_text(parameter, value)
    elif isinstance(value, Mapping):
        text = ",".join(_joined_pairs(value, "=" if parameter.explode else ","))
    elif isinstance(value, list | tuple):
        text = ",".join(map(parameter_text, value))
    else:
        text = parameter_text(value)
    return header_text(parameter.argument, text)


def in_cookie(parameter: OperationParameter, value: Any) -> Pairs:
    """A value as cookies, with names and values encoded."""
    if parameter.media is not None:
        return [(quote(parameter.name, safe=""), quote(_media_text(parameter, value), safe=""))]
    return _form_style(parameter, value, ",", "")


def header_text(name: str, text: str) -> str:
    """The text, if a header can hold it."""
    if _CONTROL.search(text):
        raise ValueError(f"{name}: a header can't hold line breaks or control characters")
    return text.strip(" ")


def parameter_text(value: Any) -> str:
    """A value as text: `true`, `3`, and JSON for objects and lists."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return dump_json(value, ensure_ascii=False, separators=(",", ":"))


def form_pairs(name: str, value: Any, encoding: Mapping[str, Any]) -> Pairs:
    """A field of a URL-encoded body as pairs, with names and values encoded."""
    style = encoding.get("style")
    if isinstance(value, Mapping) and style == "deepObject":
        return [(key, quote(text, safe="")) for key, text in _deep_object(name, value)]
    if isinstance(value, list | tuple) and encoding.get("explode") is False:
        separator = _SEPARATORS.get(str(style), ",")
        return [
            (
                _encode_name(name),
                separator.join(quote(parameter_text(each), safe="") for each in value),
            )
        ]
    if isinstance(value, list | tuple):
        return [(_encode_name(name), quote(parameter_text(each), safe="")) for each in value]
    return [(_encode_name(name), quote(parameter_text(value), safe=""))]


def _path_text(parameter: OperationParameter, value: Any) -> str:
    name, style = quote(parameter.name, safe=""), parameter.style
    if parameter.media is not None:
        return _encode_text(_media_text(parameter, value))
    if isinstance(value, Mapping):
        joint = "=" if parameter.explode else ","
        items = [
            f"{_encode_text(k)}{joint}{_encode_text(parameter_text(v))}" for k, v in value.items()
        ]
    elif isinstance(value, list | tuple):
        items = [_encode_text(parameter_text(each)) for each in value]
    else:
        items = [_encode_text(parameter_text(value))]
    if not any(items):
        return ""
    if style == "label":
        return "." + ("." if parameter.explode else ",").join(items)
    if style != "matrix":
        return ",".join(items)
    if not parameter.explode:
        return f";{name}={','.join(items)}"
    own = isinstance(value, Mapping)
    return "".join(f";{item}" if own else f";{name}={item}" for item in items)


def _form_style(parameter: OperationParameter, value: Any, separator: str, safe: str) -> Pairs:
    name = _encode_name(parameter.name)
    if isinstance(value, Mapping) and parameter.explode:
        return [
            (_encode_name(str(k)), quote(parameter_text(v), safe=safe)) for k, v in value.items()
        ]
    if isinstance(value, Mapping):
        flat = [text for k, v in value.items() for text in (str(k), parameter_text(v))]
        return [(name, separator.join(quote(text, safe=safe) for text in flat))]
    if not isinstance(value, list | tuple):
        return [(name, quote(parameter_text(value), safe=safe))]
    texts = [quote(parameter_text(each), safe=safe) for each in value]
    if parameter.explode:
        return [(name, text) for text in texts]
    return [(name, separator.join(texts))] if texts else []


def _deep_object(name: str, value: Any) -> Pairs:
    """Pairs like `a[b][c]=1`; lists repeat their name."""
    pairs: Pairs = []
    rest: list[tuple[str, Any]] = [(_encode_name(name), value)]
    while rest:
        key, here = rest.pop(0)
        if isinstance(here, Mapping):
            rest = [(f"{key}[{_encode_name(str(k))}]", v) for k, v in here.items()] + rest
        elif isinstance(here, list | tuple):
            rest = [(key, each) for each in here] + rest
        else:
            pairs.append((key, parameter_text(here)))
    return pairs


def _media_text(parameter: OperationParameter, value: Any) -> str:
    is_text = isinstance(value, str) and "json" not in (parameter.media or "")
    return value if is_text else dump_json(value, ensure_ascii=False, separators=(",", ":"))


def _joined_pairs(value: Mapping[str, Any], joint: str) -> list[str]:
    return [f"{name}{joint}{parameter_text(each)}" for name, each in value.items()]


def _encode_name(name: str) -> str:
    return quote(name, safe="[]$")


def _encode_text(text: str) -> str:
    return quote(text, safe="")


def _value_texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [*map(str, value), *map(parameter_text, value.values())]
    return (
        list(map(parameter_text, value))
        if isinstance(value, list | tuple)
        else [parameter_text(value)]
    )


def _is_step(text: str) -> bool:
    """Whether a server that decodes early would read this as a step to another path."""
    return any(step in (".", "..") for step in re.split(r"[/\\]", text))
