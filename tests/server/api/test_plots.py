"""The figures behind the console's plots."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.server.api.api_client import api_of, make_box
from wieldy import Toolbox
from wieldy.server.api.plot_resource import CallLengths, estimate_percentile
from wieldy.store.rollups import MINUTE, RollupKey, RollupSum

NOW = int(time.time() // MINUTE * MINUTE)


async def fill(box: Toolbox, days: int = 0) -> None:
    """Calls of two callers, some minutes or days ago."""
    sums: dict[RollupKey, RollupSum] = {}
    for caller, tool, status, count in (
        ("cal", "add", "ok", 8),
        ("cal", "add", "error", 2),
        ("cal", "wipe", "pending", 5),
        ("bob", "wipe", "timeout", 1),
        (None, "add", "denied", 1),
    ):
        each = sums[RollupKey(NOW - 600 - days * 86_400, tool, caller, status)] = RollupSum()
        for _ in range(count):
            each.add(0.05, 0.5)
    await box.store.rollups.add(sums)


async def test_calls_are_counted_by_time_tool_and_caller(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    await fill(box)
    async with api_of(box, metrics=None) as client:
        told = await client.get("/api/plots", "ann")
    assert told["bucket_seconds"] % 60 == 0 and len(told["buckets"]) == 1
    bucket = told["buckets"][0]
    assert (bucket["calls"], bucket["failures"], bucket["cost"]) == (12, 3, 6.0)
    assert [bucket[name] for name in ("p50", "p90", "p99")] == pytest.approx([0.05] * 3)
    assert [(each["name"], each["calls"]) for each in told["by_tool"]] == [("add", 11), ("wipe", 1)]
    assert {each["name"]: each["failures"] for each in told["by_caller"]} == {
        "cal": 2,
        "bob": 1,
        None: 0,
    }


async def test_filters_choose_and_callers_see_their_own(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    await fill(box)
    async with api_of(box, metrics=None) as client:
        of_tool = await client.get("/api/plots", "ann", tool="wipe")
        of_bob = await client.get("/api/plots", "ann", caller="bob")
        own = await client.get("/api/plots", "cal")
        others = await client.refused("GET", "/api/plots", "cal", params={"caller": "bob"})
    assert [each["calls"] for each in of_tool["buckets"]] == [1]
    assert [each["name"] for each in of_bob["by_tool"]] == ["wipe"]
    assert [(each["name"], each["calls"]) for each in own["by_caller"]] == [("cal", 10)]
    assert [each["calls"] for each in own["buckets"]] == [10]
    assert others == (422, "wrong_value")


async def test_a_long_time_has_few_steps(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    for days in range(0, 80, 2):
        await fill(box, days)
    until = datetime.now(UTC)
    async with api_of(box, tokens=False, metrics=None) as client:
        span = {"since": (until - timedelta(days=80)).isoformat(), "until": until.isoformat()}
        told = await client.get("/api/plots", **span)
    assert len(told["buckets"]) == 40
    assert 80 * 86_400 / told["bucket_seconds"] <= 200
    assert sum(each["calls"] for each in told["buckets"]) == 12 * 40
    assert told["by_tool"][0]["calls"] == 11 * 40


@pytest.mark.parametrize(
    "span",
    [
        {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"since": "0001-01-01T00:00:00Z"},
        {"until": "9999-12-31T23:59:59.999999Z"},
        {"since": "2020-01-01T00:00:00Z"},
    ],
)
async def test_a_span_of_time_that_can_not_be_shown_is_refused(
    span: dict[str, str], tmp_path: Path
) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        assert await client.refused("GET", "/api/plots", params=span) == (422, "wrong_value")


async def test_calls_of_this_minute_are_counted_too(tmp_path: Path) -> None:
    async with api_of(make_box(tmp_path), tokens=False) as client:
        await client.post("/api/calls", {"tool": "add", "arguments": {"a": 1, "b": 1}})
        told = await client.get("/api/plots")
    assert [(each["name"], each["calls"]) for each in told["by_tool"]] == [("add", 1)]


@pytest.mark.parametrize(
    ("took", "share", "length"),
    [
        ([0] * 12, 0.5, None),
        ([10] + [0] * 11, 0.5, 0.0025),
        ([0, 0, 4] + [0] * 9, 1.0, 0.1),
        ([1] * 11 + [89], 0.5, 120.0),
    ],
)
def test_percentiles_are_estimated_within_ranges(
    took: list[int], share: float, length: Any
) -> None:
    lengths = CallLengths(took, [None] * 12, 1000.0)
    expected = None if length is None else pytest.approx(length)
    assert estimate_percentile(lengths, share) == expected


@pytest.mark.parametrize(
    "minutes",
    [
        [[51.4]],
        [[0.0056]],
        [[500.0]],
        [[51.4], [40.0]],
        [[51.4, 40.0]],
        [[0.0056], [51.4]],
        [[0.006] * 30],
        [[0.003, 0.008]],
    ],
)
async def test_percentiles_do_not_contradict_the_calls(
    minutes: list[list[float]], tmp_path: Path
) -> None:
    box = make_box(tmp_path)
    sums: dict[RollupKey, RollupSum] = {}
    for number, times in enumerate(minutes, 5):
        each = sums[RollupKey(NOW - number * MINUTE, "add", "cal", "ok")] = RollupSum()
        for seconds in times:
            each.add(seconds, 0.0)
    await box.store.rollups.add(sums)
    async with api_of(box, metrics=None) as client:
        told = await client.get("/api/plots", "ann")
    lengths = [seconds for times in minutes for seconds in times]
    # What a minute tells of several lengths is their sum.
    most = max(map(sum, minutes)) if minutes == [[0.003, 0.008]] else max(lengths) * 1.2
    least = 0.0 if minutes == [[0.003, 0.008]] else min(lengths) / 1.2
    for figures in (*told["by_tool"], *told["by_caller"]):
        found = [figures[name] for name in ("p50", "p90", "p99")]
        assert found == sorted(found) and least <= found[0] and found[-1] <= most
        if len(lengths) == 1:
            assert found == pytest.approx(lengths * 3)
