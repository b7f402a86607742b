"""What is worked out once per tool is kept through every change that leaves the tool alone."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest

from wieldy import Status, Toolbox

made: list[str] = []


class Counted:
    """A type that counts how often a validator is made for it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        made.append("validator")
        return handler(int)


async def look(value: Counted) -> Any:
    return value


async def foreign(**arguments: Any) -> Any:
    return arguments["value"]


SCHEMA = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}


def change_rule(box: Toolbox) -> None:
    box.rules.remove(box.rules.deny("other"))
    box.rules.allow("other")


def change_group(box: Toolbox) -> None:
    box.groups.activate("more")
    box.groups.deactivate("more")
    box.groups.remove("more")


def own_rule(box: Toolbox) -> None:
    box.rules.allow("look", where={"value": 1})
    box.rules.ask("look", where={"value": 2})


def own_group(box: Toolbox) -> None:
    box.groups.create("own", active=True)
    for tool in list(box):
        box.add(tool, group="own", on_conflict="override")
    box.groups.deactivate("own")
    box.groups.activate("own")


def replace_permission(box: Toolbox) -> None:
    for tool in list(box):
        box.add(tool.replace(permission="confirm"), on_conflict="override")
        box.add(tool.replace(permission="auto", tags=("t",)), on_conflict="override")


def register_again(box: Toolbox) -> None:
    box.add(look, permission="confirm", on_conflict="override")
    box.add(look, timeout=5, on_conflict="override")


def add_other(box: Toolbox) -> None:
    async def other() -> None: ...

    box.add(other)
    box.remove("other")


def make_exclusive(box: Toolbox) -> None:
    async def alone() -> None: ...

    box.add(alone, exclusive=True)


def restore_state(box: Toolbox) -> None:
    box.restore(box.state())


CHANGES = (
    change_rule,
    change_group,
    own_rule,
    own_group,
    replace_permission,
    register_again,
    add_other,
    make_exclusive,
    restore_state,
)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_costs_no_tool_its_validator(
    change: Callable[[Toolbox], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jsonschema_rs.validator_for

    def counting(*args: Any, **options: Any) -> Any:
        made.append("foreign validator")
        return real(*args, **options)

    monkeypatch.setattr(jsonschema_rs, "validator_for", counting)
    box = Toolbox()
    box.add(look)
    box.add(foreign, input_schema=SCHEMA)
    box.groups.create("more")
    for name in ("look", "foreign"):
        assert (await box.call(name, {"value": 1})).unwrap() == 1
        assert (await box.call(name, {"value": "no"})).status is Status.ERROR
    made.clear()

    change(box)

    for name in ("look", "foreign"):
        assert (await box.call(name, {"value": 1})).unwrap() == 1
        assert (await box.call(name, {"value": "no"})).status is Status.ERROR
    assert made == []


async def test_another_definition_gets_a_validator_of_its_own() -> None:
    box = Toolbox()
    tool = box.add(foreign, input_schema=SCHEMA)
    assert (await box.call("foreign", {"value": 1})).ok

    text = {**SCHEMA, "properties": {"value": {"type": "string"}}}
    box.add(tool.replace(input_schema=text), on_conflict="override")

    assert (await box.call("foreign", {"value": [1]})).status is Status.ERROR
    assert (await box.call("foreign", {"value": "1"})).value == "1"


async def test_presets_that_were_replaced_are_those_that_count() -> None:
    box = Toolbox()

    async def greet(name: str, word: str) -> str:
        return f"{word} {name}"

    box.add(greet, presets={"word": "hello"})
    assert (await box.call("greet", {"name": "ann"})).value == "hello ann"
    box.add(greet, presets={"word": "bye"}, on_conflict="override")

    assert (await box.call("greet", {"name": "ann"})).value == "bye ann"


@pytest.mark.parametrize("gone", ["removed", "replaced", "group removed"])
async def test_what_is_kept_of_a_tool_goes_with_it(gone: str) -> None:
    box = Toolbox()
    box.groups.create("g", active=True)

    class Local(Counted):
        """One that nobody else knows."""

    async def act(value: Local) -> None: ...

    async def other() -> None: ...

    box.add(act, group="g")
    # The task that made a call knows the last one as long as it runs, and a step as long
    # as what it was woken by.
    await asyncio.create_task(box.call("act", {"value": 1}))
    await asyncio.sleep(0)
    kept = weakref.ref(Local)
    del act, Local

    if gone == "removed":
        box.remove("act")
    elif gone == "replaced":
        box.add(other, name="act", on_conflict="override")
    else:
        box.groups.remove("g")
    gc.collect()

    assert kept() is None
