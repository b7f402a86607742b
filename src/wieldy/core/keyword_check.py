"""Refuse keyword arguments that a function does not have, and name the one that was meant."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .names import find_near_names

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_options(
    function: Callable[..., Any], given: Mapping[str, Any], known: Collection[str]
) -> None:
    """Raise `TypeError` for the first option that is not known.

    Python refuses unknown keyword arguments by itself, except where a function gathers
    its options in one `**options`: each such function calls this first. An option that
    is dropped in silence may be the one that keeps strangers out.

    Args:
        function: Who was called; its own parameters are near names too.
        given: What it gathered.
        known: The options that it takes there.
    """
    for name in given:
        if name not in known:
            raise TypeError(_explain_unknown(function, name, known))


def _explain_unknown(function: Callable[..., Any], name: str, known: Collection[str]) -> str:
    own = inspect.signature(function).parameters.values()
    names = [*(each.name for each in own if each.kind in _NAMED and each.name != "self"), *known]
    meant = find_near_names(name, names, limit=1)
    advice = f"Did you mean {meant[0]!r}?" if meant else f"It takes {', '.join(sorted(names))}."
    return f"{function.__qualname__}() has no keyword argument {name!r}. {advice}"
