"""What the official SDKs gave for a mock server's answers, read back (see record.py)."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wieldy import Call, Toolbox

FOLDER = Path(__file__).parent / "recordings"
PARIS = ("get_weather", {"city": "Paris", "days": 3})
COLOGNE = ("get_weather", {"city": 'Köln "am Rhein"'})
EXPECTED: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "text": ("Hello there, how are you today?", []),
    "one-call": ("", [PARIS]),
    "parallel-calls": ("Let me look that up.", [PARIS, COLOGNE, ("now", {})]),
}
PROVIDERS = ("openai", "openai_responses", "anthropic", "gemini")


@pytest.fixture
def box() -> Toolbox:
    box = Toolbox()

    @box.tool
    def get_weather(city: str, days: int = 1) -> str:
        return f"{city}: {days}"

    @box.tool
    def now() -> str:
        return "noon"

    return box


def lines(provider: str, case: str, way: str) -> list[Any]:
    text = (FOLDER / f"{provider}-{case}-{way}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def as_object(value: Any) -> Any:
    """A dict as an object with attributes, as SDKs have them; arguments stay dicts."""
    if isinstance(value, list):
        return [as_object(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {"args", "input"}
    return SimpleNamespace(
        **{name: item if name in kept else as_object(item) for name, item in value.items()}
    )


def forms(chunks: list[Any]) -> Iterator[list[Any]]:
    yield chunks
    yield [as_object(chunk) for chunk in chunks]


def shown(calls: list[Call]) -> list[tuple[str, Any]]:
    return [(call.tool, call.arguments) for call in calls]


@pytest.mark.parametrize("case", EXPECTED)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_whole_answer_gives_its_calls(provider: str, case: str, box: Toolbox) -> None:
    wire = import_module(f"wieldy.wire.{provider}")
    for [answer] in forms(lines(provider, case, "whole")):
        calls = wire.parse_calls(answer, box)
        assert shown(calls) == EXPECTED[case][1]
        assert len({call.id for call in calls}) == len(calls)


@pytest.mark.parametrize("case", EXPECTED)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_streamed_answer_gives_its_text_and_its_calls(
    provider: str, case: str, box: Toolbox
) -> None:
    wire = import_module(f"wieldy.wire.{provider}")
    text, calls = EXPECTED[case]
    for chunks in forms(lines(provider, case, "stream")):
        reader = wire.StreamReader(box)
        events = [event for chunk in chunks for event in reader.feed(chunk)]

        assert "".join(event.text for event in events if event.type == "text") == text
        assert shown(reader.calls) == calls
        assert [e.name for e in events if e.type == "call_started"] == [n for n, _ in calls]
        done = [event.call for event in events if event.type == "call_completed"]
        assert [call.id for call in done] == [call.id for call in reader.calls]
        assert events[-1].type == "finished"
        assert reader.close() == []


@pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic"])
def test_arguments_are_seen_while_they_stream(provider: str, box: Toolbox) -> None:
    reader = import_module(f"wieldy.wire.{provider}").StreamReader(box)
    pieces = [
        event
        for chunk in lines(provider, "one-call", "stream")
        for event in reader.feed(chunk)
        if event.type == "arguments"
    ]

    assert len(pieces) > 2
    assert json.loads(pieces[-1].text) == PARIS[1]
    assert pieces[1].text == pieces[0].delta + pieces[1].delta


@pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic"])
def test_the_providers_ids_are_carried_along(provider: str, box: Toolbox) -> None:
    wire = import_module(f"wieldy.wire.{provider}")
    reader = wire.StreamReader(box)
    for chunk in lines(provider, "parallel-calls", "stream"):
        reader.feed(chunk)

    ids = [call.provider_id for call in reader.calls]
    assert all(ids)
    assert len(set(ids)) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_recorded_calls_run_and_are_answered_in_order(provider: str, box: Toolbox) -> None:
    wire = import_module(f"wieldy.wire.{provider}")
    [answer] = lines(provider, "parallel-calls", "whole")

    outcomes = await box.call_many(wire.parse_calls(answer, box))
    messages = json.dumps(wire.render(outcomes), ensure_ascii=False)

    places = [messages.index(word) for word in ("Paris: 3", "Rhein", "noon")]
    assert places == sorted(places)
