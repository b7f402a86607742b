"""Run the steps of a program and write down what came of each, as JSON lines."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Steps = Iterator[tuple[str, Callable[[], Any]]]


class Side:
    """What a program needs of one side."""

    def __init__(self, *names: Any) -> None:
        self.names = names


def main(steps: Callable[[Side], Steps], load: Callable[[str], Side], arguments: list[str]) -> None:
    """Print one line for each step: its name, and the value or the exception."""
    for name, step in steps(load(arguments[1])):
        print(json.dumps([name, _tried(step)]), flush=True)


def _tried(step: Callable[[], Any]) -> str:
    try:
        return _plain(repr(_ordered(step())))
    except Exception as error:
        return f"raises {_builtin_name(error)}"


def _builtin_name(error: Exception) -> str:
    """The class of Python's own that the exception is one of, which is what programs catch."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _ordered(value: Any) -> Any:
    """The value with the keys of its dicts in order, which says nothing about a library."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value, key=str)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value


def _plain(text: str) -> str:
    """The text without what differs from one run to the next."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+_[0-9a-zA-Z]+", "<id>", text)
    text = re.sub(r"call_[0-9a-f]+_\d+", "<call>", text)
    return text.replace("__main__.", "")
