"""What editors show: each public method says what its parameters are, and nothing else."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wieldy import Call, Context, Outcome, Toolbox, View
from wieldy.agent import (
    Agent,
    AutoFuncExtension,
    BaseAgent,
    ChatSessionExtension,
    ConfigurePromptExtension,
    KeyWaiterExtension,
    ToolExtension,
)
from wieldy.agent.response import Response
from wieldy.core.permission.rules import Rules
from wieldy.store.artifacts.artifacts import Artifacts
from wieldy.store.ledger import Ledger
from wieldy.store.sessions import Sessions
from wieldy.store.store import Store
from wieldy.store.stored_rules import Standing

CLASSES = (
    Toolbox,
    View,
    Outcome,
    Call,
    Context,
    Agent,
    AutoFuncExtension,
    BaseAgent,
    ChatSessionExtension,
    ConfigurePromptExtension,
    KeyWaiterExtension,
    ToolExtension,
    Response,
    Rules,
    Ledger,
    Artifacts,
    Sessions,
    Standing,
    Store,
)
# Methods that the library calls itself: they are public between its modules, and users have
# no use for them.
INTERNAL = {
    "Store.entry",
    "Store.held_by",
    "Store.insist",
    "Store.is_at",
    "Store.load_state",
    "Store.outcome",
    "Store.owe",
    "Store.read",
    "Store.recover",
    "Store.rerun",
    "Store.save_state",
    "Store.until",
    "Store.write",
}
_SECTION = re.compile(r"^(Args|Returns|Raises|Example):$", re.MULTILINE)
_NAMED = re.compile(r"^    (\*{0,2}\w+):", re.MULTILINE)


def public_methods(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The methods of a class that are of this package, with the name of the class."""
    for name, value in inspect.getmembers(owner, inspect.isroutine):
        if not name.startswith("_") and value.__module__.startswith("wieldy."):
            yield f"{owner.__name__}.{name}", value


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """The parameters as a docstring names them, with stars where they take the rest."""
    stars: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    return [
        stars.get(each.kind, "") + each.name
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls")
    ]


def documented_names(text: str) -> list[str]:
    """The names under `Args:`."""
    parts = _SECTION.split(inspect.cleandoc(text))
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return _NAMED.findall(sections.get("Args", ""))


def faults_of(function: Callable[..., Any]) -> list[str]:
    """What differs between a function's parameters and those that its docstring has."""
    text = function.__doc__
    if not text:
        return ["has no docstring"]
    taken, said = parameter_names(function), documented_names(text)
    missing = [f"says nothing about {name}" for name in taken if name not in said]
    return missing + [f"has no parameter {name}" for name in said if name not in taken]


METHODS = {
    method.__qualname__: method
    for owner in CLASSES
    for name, method in public_methods(owner)
    if name not in INTERNAL
}


@pytest.mark.parametrize("name", METHODS)
def test_a_public_method_says_what_each_of_its_parameters_is(name: str) -> None:
    assert faults_of(METHODS[name]) == []


@pytest.mark.parametrize("owner", [Toolbox, BaseAgent, Outcome, Call])
def test_a_class_says_what_each_of_its_arguments_is(owner: type) -> None:
    assert sorted(documented_names(owner.__doc__ or "")) == sorted(parameter_names(owner))


def test_a_parameter_that_is_missing_or_invented_is_found() -> None:
    def move(source: str, *rest: str, **options: str) -> None:
        """Move something.

        Args:
            source: Where from.
            target: Where to.
            *rest: What else.

        Raises:
            OSError: It can't be moved.
        """

    assert faults_of(move) == ["says nothing about **options", "has no parameter target"]


def test_the_allow_list_names_methods_that_exist() -> None:
    known = {name for owner in CLASSES for name, _ in public_methods(owner)}

    assert known >= INTERNAL
