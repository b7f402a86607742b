"""The first five minutes: a function, a box, a call."""

import asyncio
import gc
import weakref
from functools import partial
from typing import Any

import pytest

import wieldy
from tests.mcp.waiting import until
from wieldy import DefinitionError, Outcome, Permission, Status, Text, Toolbox
from wieldy.core.choices import ProviderFormat
from wieldy.mcp.lock import Lock


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: the first one
    """
    return a + b


async def test_the_first_example() -> None:
    box = Toolbox()
    assert box.tool(add) is add
    outcome = await box.call("add", {"a": 1, "b": "2"})
    assert (outcome.status, outcome.value, outcome.text) == (Status.OK, 3, "3")
    assert outcome.content == (Text("3"),)
    assert outcome.error is None
    assert outcome.unwrap() == 3
    assert outcome.metadata["repairs"] == [
        {"path": "b", "kind": "integer_from_text", "before": "2", "after": 2}
    ]
    assert outcome.metadata["duration_ms"] >= 0


def test_the_decorator_takes_the_options_of_add_and_of_limits() -> None:
    box = Toolbox()

    @box.tool(tags={"math"}, permission="confirm", timeout=5, name="plus")
    def plus(a: int) -> int:
        return a

    tool = box.get("plus")
    assert tool is not None
    assert (tool.tags, tool.permission.value, tool.limits.timeout) == (("math",), "confirm", 5)
    assert tool.function is plus


def test_what_is_empty_is_still_the_one_that_was_given() -> None:
    box = Toolbox()

    given = (box, box.view(tags="none"), box.rules, box.mcp, Lock.of(box))

    assert [len(each) for each in given] == [0, 0, 0, 0, 0]
    assert [each or "another" for each in given] == list(given)


def test_a_mark_made_before_there_is_a_box_counts_when_it_is_added() -> None:
    @wieldy.tool(read_only=True, retries=2, tags="t")
    def look(x: int) -> int:
        return x

    assert look(3) == 3
    box = Toolbox()
    tool = box.add(look, tags=["other"])
    assert (tool.read_only, tool.limits.retries, tool.tags) == (True, 2, ("other",))


class Shop:
    """A shop."""

    def __init__(self) -> None:
        self.opened = 0

    @property
    def doors(self) -> int:
        self.opened += 1
        return self.opened

    def price(self, item: str) -> int:
        """What an item costs."""
        return len(item)

    @wieldy.tool(name="order", permission="confirm")
    async def buy(self, item: str) -> str:
        """Buy an item."""
        return item

    @staticmethod
    def greet() -> str:
        """Say hello."""
        return "hello"

    @classmethod
    def kind(cls) -> str:
        """What this is."""
        return cls.__name__

    def _private(self) -> None: ...


async def test_public_methods_of_an_object_become_tools() -> None:
    box = Toolbox()
    shop = Shop()
    added = box.add_object(shop, prefix="shop", tags={"shop"})
    assert [tool.name for tool in added] == ["shop_price", "shop_order", "shop_greet", "shop_kind"]
    assert shop.opened == 0
    outcomes = await box.call_many(
        [("shop_price", {"item": "tea"}), ("shop_greet", None), ("shop_kind", None)]
    )
    assert [outcome.value for outcome in outcomes] == [3, "hello", "Shop"]
    assert (await box.call("shop_order", {"item": "tea"})).status is Status.PENDING
    assert box.view(tags="shop").names == [tool.name for tool in added]


def test_a_misspelt_option_names_the_right_one() -> None:
    with pytest.raises(TypeError, match="Did you mean 'permission'"):
        Toolbox().add(add, permision="confirm")  # type: ignore[call-arg]


def test_a_place_to_run_that_is_not_there_is_refused_at_once() -> None:
    with pytest.raises(DefinitionError, match="isolation='ray' is not available"):
        Toolbox().add(add, isolation="ray")


@pytest.mark.parametrize("instance", [3, "text", [1], {}])
def test_objects_that_are_no_toolkits_are_refused(instance: object) -> None:
    with pytest.raises(DefinitionError, match="class of yours"):
        Toolbox().add_object(instance)


@pytest.mark.parametrize(
    "options", [{"threads": 0}, {"approval_ttl": 0}, {"approval_ttl": -1.0}, {"validation": "no"}]
)
def test_a_box_refuses_settings_that_can_not_work(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Toolbox(**options)


async def test_many_calls_are_pairs_or_records() -> None:
    with pytest.raises(TypeError, match="not bare names"):
        await Toolbox().call_many(["add"])  # type: ignore[list-item]


def test_a_tool_is_not_changed_after_it_is_made() -> None:
    tool = Toolbox().add(add)
    with pytest.raises(AttributeError, match="replace"):
        tool.permission = Permission.DENY  # type: ignore[misc]


async def test_tools_that_come_and_go_leave_nothing_behind() -> None:
    box = Toolbox()
    gone = []
    for number in range(20):
        function = partial(add, b=number)
        gone.append(weakref.ref(function))
        box.add(function, name=f"add{number}", timeout=5)
        await box.call(f"add{number}", {"a": 1})
        box.remove(f"add{number}")
    del function

    def at_most_one_is_left() -> bool:
        # It collects nothing while another thread collects.
        gc.collect()
        return sum(reference() is not None for reference in gone) <= 1

    await until(at_most_one_is_left)


async def test_many_calls_come_back_in_order_each_with_its_own_call() -> None:
    box = Toolbox()
    box.add(add)
    outcomes = await box.call_many([("add", {"a": n}) for n in range(100)])
    assert [outcome.value for outcome in outcomes] == [n + 2 for n in range(100)]
    assert len({outcome.call.id for outcome in outcomes}) == 100


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic", "gemini", "mcp"])
def test_every_provider_is_given_the_same_schema_in_its_own_place(provider: ProviderFormat) -> None:
    box = Toolbox()
    box.add(add)
    (definition,) = box.schemas(provider)
    body = definition.get("function", definition)
    keys = ("parameters", "input_schema", "parametersJsonSchema", "inputSchema")
    (schema,) = [body[key] for key in keys if key in body]
    assert body["name"] == "add"
    assert body["description"] == "Add two numbers."
    assert set(schema["properties"]) == {"a", "b"}


def test_an_unknown_provider_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="openai"):
        Toolbox().schemas("opnai")  # type: ignore[arg-type]


async def test_closing_a_box_twice_is_fine_and_it_can_still_be_read() -> None:
    async with Toolbox() as box:
        box.add(add)
        assert (await box.call("add", {"a": 1})).value == 3
    await box.close()
    assert box.names == ["add"]


async def test_a_box_serves_loops_and_threads_at_the_same_time() -> None:
    box = Toolbox()
    box.add(add)

    def from_a_thread(number: int) -> Any:
        return [box.call_sync("add", {"a": number + n}).value for n in range(20)]

    async def from_the_loop(number: int) -> Any:
        return [(await box.call("add", {"a": number + n})).value for n in range(20)]

    results = await asyncio.gather(
        *(asyncio.to_thread(from_a_thread, n) for n in range(5)),
        *(from_the_loop(n) for n in range(5)),
    )
    expected = [[number + n + 2 for n in range(20)] for number in range(5)]
    assert results == expected * 2


async def test_tools_can_be_added_while_others_are_called() -> None:
    box = Toolbox()
    box.add(add)

    def register() -> None:
        for number in range(200):
            box.add(add, name=f"add{number}")

    adding = asyncio.create_task(asyncio.to_thread(register))
    outcomes: list[Outcome] = []
    while not adding.done():
        outcomes += await box.call_many([("add", {"a": 1}), ("add0", {"a": 1})])
        box.schemas("openai")
    await adding
    assert {outcome.status for outcome in outcomes} <= {Status.OK, Status.ERROR}
    assert len(box) == 201


def test_a_box_says_what_it_holds() -> None:
    box = Toolbox()
    box.add(add)
    assert repr(box) == "Toolbox(1 tools)"
    assert repr(box.get("add")) == "Tool('add')"
