"""`/metrics`: what is counted, under bounded names, and who may read it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry import metrics as otel
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as read_plain

from tests.mcp.clients import connected
from tests.mcp.conftest import raw
from tests.mcp.served import served
from tests.server.test_app import ALICE, TOKENS, http, make_box
from wieldy import Call, Context, Scope, Status, Toolbox
from wieldy.mcp.serving.callers import Identity
from wieldy.server import app, run
from wieldy.server.metrics.instruments import MAX_CALLERS, MAX_TOOLS
from wieldy.server.metrics.metrics_endpoint import MetricsAccess

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def figures_of(answer: httpx2.Response) -> Figures:
    """The samples of a page by name and labels."""
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


def one(figures: Figures, name: str, **labels: str) -> float | None:
    """The value of one sample."""
    return figures.get((name, frozenset(labels.items())))


@asynccontextmanager
async def scraping(box: Toolbox, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a box that is served and closed at the end."""
    async with box, http(app(box, **options)) as client:
        yield client


async def test_calls_are_counted_by_tool_status_and_caller() -> None:
    box = make_box()
    box.add(lambda: 1 / 0, name="fail")
    box.add(lambda: "done", name="ask", permission="confirm")

    @box.tool
    def pay(context: Context) -> None:
        context.report(cost=0.25)

    async with scraping(box) as client:
        await box.call(Call("greet", {}, Scope(caller="ann")))
        await box.call(Call("greet", {}, Scope(caller="ann")))
        await box.call("fail")
        await box.call("pay")
        waits = await box.call("ask")
        await box.approve(waits.call.id)
        found = figures_of(await client.get("/metrics"))

    def calls(tool: str, status: str, caller: str = "") -> float | None:
        return one(found, "wieldy_calls_total", tool=tool, status=status, caller=caller)

    assert calls("greet", "ok", "ann") == 2
    assert calls("fail", "error") == 1
    assert (calls("ask", "pending"), calls("ask", "ok")) == (1, 1)
    assert one(found, "wieldy_call_duration_seconds_count", tool="greet") == 2
    assert one(found, "wieldy_call_duration_seconds_bucket", tool="greet", le="120.0") == 2
    assert one(found, "wieldy_call_cost_total", tool="pay") == 0.25
    assert one(found, "process_start_time_seconds")


async def test_calls_of_clients_are_measured_too() -> None:
    box = make_box()
    with served(box, run) as url:
        async with connected(url) as client:
            await client.call_tool("greet", {})
        async with httpx2.AsyncClient() as http_client:
            found = figures_of(await http_client.get(url.replace("/mcp", "/metrics")))

    assert one(found, "wieldy_calls_total", tool="greet", status="ok", caller="") == 1
    assert one(found, "wieldy_call_duration_seconds_count", tool="greet") == 1


async def test_names_are_bounded_and_hostile_names_are_only_text() -> None:
    box = make_box()
    hostile = '"} 1\nwieldy_calls_total{tool="forged" \\'
    box.add(lambda: None, name=hostile)
    async with scraping(box) as client:
        for number in range(MAX_TOOLS + 50):
            await box.call(f"made_up_{number}")
        for number in range(MAX_CALLERS + 50):
            await box.call(Call("greet", {}, Scope(caller=f"caller {number}")))
        await box.call(Call(hostile, {}, Scope(caller="caller 1")))
        await box.call(Call("greet", {}, Scope(caller="\ud800")))
        answer = await client.get("/metrics")
        found = figures_of(answer)

    named = [dict(labels) for name, labels in found if name == "wieldy_calls_total"]
    assert {each["tool"] for each in named} == {"greet", "other", hostile}
    assert len({each["caller"] for each in named}) == MAX_CALLERS + 2, "with nobody, and others"
    unknown = one(found, "wieldy_calls_total", tool="other", status="error", caller="")
    assert unknown == MAX_TOOLS + 50
    assert one(found, "wieldy_calls_total", tool="greet", status="ok", caller="other") == 51


async def test_running_and_queued_calls_are_told_apart() -> None:
    box, begun, go_on = Toolbox(), asyncio.Event(), asyncio.Event()

    @box.tool(concurrency=1)
    async def work() -> None:
        begun.set()
        await go_on.wait()

    async with scraping(box) as client:
        calls = [asyncio.create_task(box.call("work")) for _ in range(3)]
        await begun.wait()
        during = figures_of(await client.get("/metrics"))
        go_on.set()
        await asyncio.gather(*calls)
        assert box.count_calls() == (0, 0)

    assert one(during, "wieldy_calls_running") == 3
    assert one(during, "wieldy_calls_queued") == 2


@pytest.mark.parametrize("kept", [True, False])
async def test_waiting_calls_and_their_age_are_shown(tmp_path: Path, kept: bool) -> None:
    box = make_box(**({"store": f"sqlite:///{tmp_path}/store.db"} if kept else {}))
    box.add(lambda: "done", name="ask", permission="confirm")
    async with scraping(box) as client:
        await box.call("ask")
        await box.call("ask")
        found = figures_of(await client.get("/metrics"))

    assert one(found, "wieldy_pending_calls") == 2
    age = one(found, "wieldy_pending_oldest_seconds")
    assert age is not None and 0 < age < 120
    assert one(found, "wieldy_store_up") == (1 if kept else None)
    commits = one(found, "wieldy_store_commits_total")
    assert (commits is not None and commits >= 2) is kept
    assert (one(found, "wieldy_store_commit_seconds_total") is not None) is kept


async def test_a_store_that_is_gone_hides_only_its_own_figures(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"this is no database" * 1000)
    box = make_box(store=f"sqlite:///{tmp_path}/store.db")
    async with scraping(box) as client:
        found = figures_of(await client.get("/metrics"))

    assert one(found, "wieldy_store_up") == 0
    assert one(found, "wieldy_pending_calls") is None
    assert one(found, "wieldy_calls_running") == 0


async def test_the_servers_behind_are_shown() -> None:
    box = make_box()
    await box.add_mcp(raw("earlier"), name="shop")
    async with scraping(box) as client:
        assert one(figures_of(await client.get("/metrics")), "wieldy_upstream_up", server="shop")


async def test_the_page_is_made_at_most_once_a_second_and_in_the_format_that_is_asked_for() -> None:
    box = make_box()
    async with scraping(box) as client:
        pages = await asyncio.gather(*(client.get("/metrics") for _ in range(5)))
        plain = await client.get("/metrics", headers={"Accept": "text/plain;version=0.0.4"})

    assert len({page.text for page in pages}) == 1
    assert pages[0].headers["content-type"].startswith("application/openmetrics-text")
    assert pages[0].text.endswith("# EOF\n")
    assert plain.headers["content-type"].startswith("text/plain")
    assert {family.name for family in read_plain(plain.text)} >= {"wieldy_calls_running"}


class Known:
    """Knows one token of each role."""

    async def identify(self, token: str) -> Identity | None:
        roles: dict[str, Any] = {"caller": ["call"], "admin": ["administer"]}
        return Identity(token, frozenset(roles[token])) if token in roles else None


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("options", "headers", "peer", "status"),
    [
        ({}, {}, "127.0.0.1", 200),
        ({}, {}, "192.0.2.7", 403),
        ({"anonymous": True}, {}, "192.0.2.7", 403),
        ({"anonymous": True}, {}, "127.0.0.1", 200),
        ({}, {"Host": "evil.example"}, "127.0.0.1", 421),
        ({}, {"Origin": "https://evil.example"}, "127.0.0.1", 403),
        ({"tokens": TOKENS}, {}, "127.0.0.1", 401),
        ({"tokens": TOKENS}, ALICE, "127.0.0.1", 403),
        ({"identifiers": [Known()]}, bearer("caller"), "127.0.0.1", 403),
        ({"identifiers": [Known()]}, bearer("admin"), "192.0.2.7", 200),
        ({"identifiers": [Known()]}, bearer("wrong"), "127.0.0.1", 401),
        ({"metrics": MetricsAccess(public=True)}, {}, "192.0.2.7", 200),
        ({"metrics": MetricsAccess(public=True), "tokens": TOKENS}, {}, "192.0.2.7", 200),
        ({"metrics": MetricsAccess(token="scrape")}, bearer("scrape"), "192.0.2.7", 200),
        ({"metrics": MetricsAccess(token="scrape")}, bearer("scrapes"), "192.0.2.7", 403),
        (
            {"metrics": MetricsAccess(token="scrape"), "tokens": TOKENS},
            bearer("scrape"),
            "192.0.2.7",
            200,
        ),
        ({"metrics": MetricsAccess(token="scrape"), "tokens": TOKENS}, {}, "127.0.0.1", 401),
        ({"metrics": None}, {}, "127.0.0.1", 404),
    ],
)
async def test_who_may_read_the_figures(
    options: dict[str, Any], headers: dict[str, str], peer: str, status: int
) -> None:
    async with http(app(make_box(), **options), peer) as client:
        answer = await client.get("/metrics", headers=headers)
        calling = await client.post("/mcp", json={}, headers=bearer("scrape"))

    assert answer.status_code == status, answer.text
    assert ("wieldy_calls" in answer.text) is (status == 200)
    if "tokens" in options:
        assert calling.status_code == 401, "the token for metrics is good for nothing else"


@pytest.mark.parametrize("token", ["", "a b\n", "ü"])
def test_a_token_that_no_client_could_send_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="printable"):
        MetricsAccess(token=token)


async def test_a_box_that_is_no_longer_served_is_no_longer_observed() -> None:
    box = make_box()
    heard: list[Status] = []
    async with http(app(box)) as client:
        await box.call("greet")
        stop = box.observe(lambda outcome: heard.append(outcome.status))
        await box.call("greet")
        stop()
        found = figures_of(await client.get("/metrics"))
    await box.call("greet")

    assert heard == [Status.OK]
    assert one(found, "wieldy_calls_total", tool="greet", status="ok", caller="") == 2
    assert box._engine._observers == ()


async def test_opentelemetry_reads_the_same_instruments() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    otel.set_meter_provider(provider)
    box = make_box()
    async with scraping(box):
        await box.call(Call("greet", {}, Scope(caller="ann")))
        data = reader.get_metrics_data()
        provider.shutdown()

    assert data is not None
    found = {
        (metric.name, frozenset((point.attributes or {}).items())): point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    labels = frozenset({("tool", "greet"), ("status", "ok"), ("caller", "ann")})
    counted: Any = found["wieldy.calls", labels]
    took: Any = found["wieldy.call.duration.count", frozenset({("tool", "greet")})]
    assert (counted.value, took.value) == (1, 1)
    assert ("wieldy.calls.running", frozenset()) in found
