"""The public modules of the wire say what they offer, and their events say what they are."""

import re
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from wieldy.wire import stream_events
from wieldy.wire.structured import Event, StructuredStream
from wieldy.wire.text import TextCallParser, TextEvent

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"
MODULES = [
    *re.findall(r"^::: (wieldy\.wire\.\w+)$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE),
    "wieldy.wire.cost",
    "wieldy.wire.definitions",
    "wieldy.wire.mcp",
]


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_lists_what_it_offers(name: str) -> None:
    module = import_module(name)
    assert [*module.__all__] == sorted(module.__all__)
    for offered in module.__all__:
        assert not offered.startswith("_")
        assert hasattr(module, offered)
    own = {
        each
        for each, value in vars(module).items()
        if getattr(value, "__module__", None) == name and callable(value) and each[0] != "_"
    }
    assert own <= {*module.__all__}


def test_the_events_of_a_stream_are_a_union_that_narrows() -> None:
    members = get_args(stream_events.Event)
    kinds = [get_args(get_type_hints(member)["type"]) for member in members]
    assert len(members) > 5
    assert sorted(kinds) == sorted({*kinds})


def _kinds(event: type) -> tuple[str, ...]:
    """What the type of an event can be, as its property is declared."""
    found: property = vars(event)["type"]
    return get_args(get_type_hints(found.fget)["return"])


def test_an_event_of_structured_output_says_what_it_is() -> None:
    stream = StructuredStream()
    events = [*stream.feed('{"a": "b'), *stream.feed('c"}'), *stream.close()]
    kinds = _kinds(Event)
    assert {event.type for event in events} == {*kinds} == {"growing", "complete"}
    assert [event.is_complete for event in events] == [e.type == "complete" for e in events]


def test_an_event_of_text_says_what_it_is() -> None:
    call = "<tool_call><name>add</name><params></params></tool_call>"
    parser = TextCallParser("xml")
    events = [*parser.feed(f"Sure. {call}"), *parser.close()]
    kinds = _kinds(TextEvent)
    assert {event.type for event in events} == {*kinds} == {"text", "call"}
    assert all((event.call is not None) == (event.type == "call") for event in events)
