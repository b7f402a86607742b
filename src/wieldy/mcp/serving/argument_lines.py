"""Write the arguments of a call as lines of a question, which must show all of them."""

from collections.abc import Mapping
from typing import Any

from wieldy.core.short_text import cut_middle
from wieldy.core.visible_text import visible_name, visible_value

_ROOM = 4000
_LONGEST_NAME = 120
# A value that is cut to fewer characters than this says too little for a decision.
_LEAST = 100


def argument_lines(arguments: Mapping[str, Any]) -> list[str] | None:
    """A line for each argument, long values cut in their middle; None if there are too many.

    Names and values are escaped so that nothing in them is invisible or starts a new line.
    """
    try:
        names = [cut_middle(visible_name(str(name)), _LONGEST_NAME) for name in arguments]
        values = [visible_value(value) for value in arguments.values()]
    except ValueError:
        return None
    room = _ROOM - sum(len(name) + len("   = ") for name in names)
    limit = _fair_share([len(value) for value in values], room)
    if limit is None:
        return None
    shown = (
        whole if len(whole) <= limit else _cut_value(value, whole, limit)
        for value, whole in zip(arguments.values(), values, strict=True)
    )
    return [f"  {name} = {value}" for name, value in zip(names, shown, strict=True)]


def _fair_share(lengths: list[int], room: int) -> int | None:
    """The longest length for a value, with the room that short ones leave; None if too short."""
    left = room
    for place, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - place)
        if length > share:
            return share if share >= _LEAST else None
        left -= length
    return max(lengths, default=0) if room >= 0 else None


def _cut_value(value: Any, whole: str, limit: int) -> str:
    """A long value cut short: a text keeps its two ends, and in a structure texts are cut first."""
    if isinstance(value, str):
        return cut_middle(whole, limit, '"')
    return cut_middle(visible_value(_with_short_texts(value)), limit)


def _with_short_texts(value: Any) -> Any:
    if isinstance(value, str):
        return cut_middle(value, _LEAST)
    if isinstance(value, Mapping):
        return {cut_middle(str(k), _LEAST): _with_short_texts(v) for k, v in value.items()}
    return [_with_short_texts(item) for item in value] if isinstance(value, list) else value
