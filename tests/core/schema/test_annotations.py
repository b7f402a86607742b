"""Annotations that name what comes later, what is never there, or an alias."""

import sys
from types import ModuleType
from typing import Annotated, Any, Union

import pytest
from typing_extensions import TypeAliasType

from wieldy import Context, Secret, Toolbox
from wieldy.core.errors import DefinitionError
from wieldy.dialects.agently import AgentlyToolManager
from wieldy.dialects.agentscope import Toolkit

# From 3.14 on, annotations are evaluated late without the import.
HEADS = ["from __future__ import annotations\n"] + [""] * (sys.version_info >= (3, 14))
FAILING = {
    "Nowhere": "names 'Nowhere'",
    "typing.NoSuch": "AttributeError",
    "1 / 0": "ZeroDivisionError: division by zero",
    "Typed": "names 'Typed'",
}


@pytest.fixture(params=HEADS, ids=lambda head: "future" if head else "plain")
def head(request: pytest.FixtureRequest) -> str:
    """The first line of the module of a test."""
    return str(request.param)


def run_module(head: str, body: str, **names: Any) -> ModuleType:
    """The module of a user."""
    module = ModuleType(__name__)
    module.__dict__.update(names)
    typed = "import typing\nif typing.TYPE_CHECKING:\n    from decimal import Decimal as Typed\n"
    exec(compile(head + typed + body, "later.py", "exec", dont_inherit=True), module.__dict__)
    return module


async def test_a_tool_may_name_a_class_that_is_defined_below_it(head: str) -> None:
    box = Toolbox()
    body = """
@box.tool
def count(order: Order, more: list[Order] | None = None) -> int:
    '''Count.'''
    return order.n + len(more or ())

import dataclasses

@dataclasses.dataclass
class Order:
    n: int
"""
    run_module(head, body, box=box)
    outcome = await box.call("count", {"order": {"n": 2}, "more": [{"n": 1}]})
    assert outcome.unwrap() == 3


@pytest.mark.parametrize("place", ["x", "return"])
@pytest.mark.parametrize("annotation", FAILING)
def test_an_annotation_that_can_not_be_evaluated_is_named_with_tool_and_parameter(
    head: str, annotation: str, place: str
) -> None:
    box = Toolbox()
    given = {"x": "int", "return": "int", place: annotation}
    body = f"@box.tool\ndef act(y: int, x: {given['x']}) -> {given['return']}:\n    '''Act.'''\n"
    run_module(head, body, box=box)

    with pytest.raises(DefinitionError) as raised:
        _ = box.find_tool("act").input_schema  # type: ignore[union-attr]

    said = str(raised.value)
    assert FAILING[annotation] in said
    assert "'act'" in said
    assert ("'x'" if place == "x" else "what it returns") in said


async def test_a_call_of_such_a_tool_is_an_error_outcome(head: str) -> None:
    box = Toolbox()
    run_module(head, "@box.tool\ndef act(x: 1 / 0) -> int:\n    '''Act.'''\n", box=box)
    assert "'x'" in (await box.call("act", {"x": 1})).text


@pytest.mark.parametrize("annotation", FAILING)
def test_the_dialects_tell_it_the_same_way(head: str, annotation: str) -> None:
    body = f"def act(x: {annotation}) -> int:\n    '''Act.'''\n    return 1\n"
    act = run_module(head, body).act
    kit = Toolkit()
    with pytest.raises(DefinitionError, match=r"'act'.*'x'"):
        kit.register_tool_function(act)
        kit.get_json_schemas()
    manager = AgentlyToolManager()
    try:
        manager.tool_func(act)
    except DefinitionError as error:
        # Python has no text of what it can't evaluate.
        assert (head, annotation) == ("", "1 / 0") or annotation == "typing.NoSuch"
        assert "'x'" in str(error)
    else:
        # The original describes an annotation by its text.
        [info] = manager.get_tool_info().values()
        assert annotation.replace(" ", "") in str(info["kwargs"]["x"]).replace(" ", "")


def test_an_alias_of_the_context_is_injected() -> None:
    alias = TypeAliasType("alias", Context)
    maybe = TypeAliasType("maybe", alias | None)
    for annotation in (alias, maybe, alias | None):

        def act(x: int, context: Any) -> int:
            return x

        act.__annotations__["context"] = annotation
        assert list(Toolbox().add(act).input_schema["properties"]) == ["x"], annotation


def test_an_alias_keeps_its_text_and_its_secret() -> None:
    described = TypeAliasType("described", Annotated[int, "how many"])
    secret = TypeAliasType("secret", Secret)

    def act(x: Any, key: Any) -> int:
        return 1

    act.__annotations__.update(x=described, key=secret)
    tool = Toolbox().add(act)
    assert tool.input_schema["properties"]["x"]["description"] == "how many"
    assert [each.name for each in tool.signature.parameters if each.secret] == ["key"]


def test_an_alias_of_itself_is_named() -> None:
    def act(x: Any) -> int:
        return 1

    # Written as `type Alias = Alias` from 3.12 on.
    Alias = type("TypeAliasType", (), {"__value__": property(lambda self: self)})
    act.__annotations__["x"] = Alias()
    with pytest.raises(DefinitionError, match=r"'x'.*stands for itself"):
        _ = Toolbox().add(act).input_schema


def test_an_alias_that_is_a_member_of_itself_is_named() -> None:
    # Written as `type Alias = Alias | int` from 3.12 on. Members of a union have to be callable.
    names = {
        "__value__": property(lambda self: Union[self, int]),  # noqa: UP007
        "__call__": lambda self: None,
    }
    alias = type("TypeAliasType", (), names)

    def act(x: Any) -> int:
        return 1

    act.__annotations__["x"] = alias()
    with pytest.raises(DefinitionError, match="'act'"):
        _ = Toolbox().add(act).input_schema


def test_an_annotation_inside_a_function_is_named_too(head: str) -> None:
    body = """
def make():
    class Local: ...

    @box.tool
    def act(y: Local, x: 1 / 0) -> int:
        '''Act.'''

make()
"""
    box = Toolbox()
    run_module(head, body, box=box)
    with pytest.raises(DefinitionError, match=r"'act'.*'x'"):
        _ = box.find_tool("act").input_schema  # type: ignore[union-attr]
