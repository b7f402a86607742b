"""Limits on the calls of a gateway, with two callers over real HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcp.clients import connected, text_of
from tests.mcp.served import served
from tests.server.api.api_client import People
from wieldy.cli.live_gateway import LiveGateway
from wieldy.server import run
from wieldy.server.metrics.metrics_endpoint import MetricsAccess
from wieldy.server.named_callers import NamedCallers

TOOLS = """
from wieldy import Toolbox

box = Toolbox()


@box.tool(read_only=True)
def add(a: int, b: int) -> int:
    return a + b
"""
FILE = """
store = "sqlite:///calls.db"
[[sources]]
path = "tools.py"
[access]
tokens = true
[limits.caller]
rate = "2/h"
[limits.callers.cal]
rate = "1/h"
[limits.tools.add]
rate = "100/h"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    path = tmp_path / "gateway.toml"
    path.write_text(FILE)
    return path


@asynccontextmanager
async def gateway_of(path: Path) -> AsyncIterator[tuple[LiveGateway, str, httpx2.AsyncClient]]:
    """A gateway while it is served, its address, and a client of its API."""
    gateway = await LiveGateway.open(path)
    options: dict[str, Any] = {
        "identifiers": [NamedCallers(People(), gateway.callers, gateway.people.known)],
        "metrics": MetricsAccess(public=True),
    }
    serving = served(gateway.found.box, run, view=gateway.found.offer, **options)
    url = await asyncio.to_thread(serving.__enter__)
    try:
        async with httpx2.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=120) as http:
            yield gateway, url, http
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)


async def call_add(http: httpx2.AsyncClient, who: str, path: str = "/api/calls") -> httpx2.Response:
    """Add two numbers as somebody."""
    return await http.post(
        path,
        json={"tool": "add", "arguments": {"a": 1, "b": 1}},
        headers={"Authorization": f"Bearer {who}-secret"},
    )


async def test_a_caller_who_calls_too_often_is_told_when_to_try_again(path: Path) -> None:
    async with gateway_of(path) as (gateway, url, http):
        for who, left in (("bob", 2), ("cal", 1)):
            for _ in range(left):
                assert (await call_add(http, who)).json()["value"] == 2
            refused = await call_add(http, who)
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (429, "too_many_calls")
            assert 3500 < int(refused.headers["Retry-After"]) <= 3600
            assert 3500 < error["details"]["retry_after"] <= 3600
        async with connected(url, "cal-secret") as client:
            told = await client.call_tool("add", {"a": 1, "b": 1})
            assert (told.is_error, "(limits.callers.cal). Try again in" in text_of(told)) == (
                True,
                True,
            )
        explained = (await call_add(http, "bob", "/api/explain")).json()
        assert [(each["limit"], each["started"]) for each in explained["limits"]] == [
            ('limits.tools."add"', 3),
            ("limits.caller", 2),
        ]
        figures = (await http.get("/metrics")).text
        assert 'wieldy_calls_limited_total{limit="limits.caller"} 1.0' in figures
        assert 'wieldy_calls_limited_total{limit="limits.callers.cal"} 2.0' in figures

        # A limit that stays the same goes on counting, another begins anew.
        await asyncio.to_thread(path.write_text, FILE.replace('rate = "1/h"', 'rate = "4/h"'))
        assert await gateway.reload()
        assert (await call_add(http, "bob")).status_code == 429
        assert (await call_add(http, "cal")).status_code == 200
