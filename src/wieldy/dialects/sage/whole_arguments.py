"""Pass arguments that are not a dict with string keys through the engine.

SAGE passes any value to a tool. The engine's calls have named arguments, which rules match and
a store keeps. Values without a name are packed under a separate key.
"""

from collections.abc import Mapping
from typing import Any

# The key beside the names: the whole, or the pairs whose keys are no text.
_ASIDE = "$aside"


def are_named(arguments: Any) -> bool:
    """Whether the arguments are a dict with text for keys, which goes as it is."""
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        return False
    for key in arguments:  # noqa: SIM110 - every call comes here, and a generator costs thrice
        if type(key) is not str or key == _ASIDE:
            return False
    return True


def pack_whole(arguments: Any) -> dict[str, Any]:
    """The arguments under names."""
    if not isinstance(arguments, Mapping):
        return {_ASIDE: {"whole": arguments}}
    named = {key: value for key, value in arguments.items() if _has_name(key)}
    return {
        **named,
        _ASIDE: {"pairs": [[key, each] for key, each in arguments.items() if not _has_name(key)]},
    }


def unpack_whole(arguments: dict[str, Any]) -> Any:
    """What the tool gets; what could hide a named argument from the rules stays packed."""
    if _ASIDE not in arguments:
        return arguments
    match arguments[_ASIDE]:
        case {"whole": whole} if len(arguments) == 1 and not isinstance(whole, Mapping):
            return whole
        case {"pairs": [*pairs]} if all(map(_is_aside, pairs)):
            named = {key: value for key, value in arguments.items() if key != _ASIDE}
            return {**named, **dict(pairs)}
    return arguments


def _has_name(key: Any) -> bool:
    return isinstance(key, str) and key != _ASIDE


def _is_aside(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and not _has_name(pair[0])
