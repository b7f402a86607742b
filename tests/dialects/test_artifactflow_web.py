"""ArtifactFlow's web tools: contract 004.7."""

import json
from collections.abc import Iterator

import pytest

from tests.openapi.api import Api, serving
from wieldy.dialects.artifactflow import AgentToolkit, WebFetchTool, WebSearchTool


@pytest.fixture
def site() -> Iterator[Api]:
    with serving() as api:
        yield api


async def test_004_7_a_search_goes_to_bocha(site: Api) -> None:
    found = {"name": "Whales", "url": "https://whales.example/", "snippet": "Large animals"}
    answer = {"data": {"webPages": {"value": [found]}}}
    site.answer("/search", 200, json.dumps(answer), Content_Type="application/json")
    tool = WebSearchTool("key-of-bocha", f"{site.url}/search")

    toolkit = AgentToolkit("agent")
    toolkit.add_tool(tool)
    result = await toolkit.execute_tool("web_search", {"query": "whales"})
    await tool.close()

    assert result.success
    assert result.data == [
        {"title": "Whales", "url": "https://whales.example/", "summary": "Large animals"}
    ]
    assert json.loads(site.last["body"])["freshness"] == "noLimit"


async def test_004_7_a_search_without_a_key_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOCHA_API_KEY", raising=False)

    result = await WebSearchTool()(query="whales")

    assert not result.success
    assert "BOCHA_API_KEY" in (result.error or "")


@pytest.mark.parametrize(
    ("status", "said"), [(401, "401"), (403, "403"), (500, "answered with 500")]
)
async def test_004_7_statuses_of_a_search_are_told_apart(site: Api, status: int, said: str) -> None:
    site.answer("/search", status, "no")
    tool = WebSearchTool("key-of-bocha", f"{site.url}/search")

    result = await tool(query="whales")
    await tool.close()

    assert said in (result.error or "")


async def test_004_7_pages_are_read_in_order_and_only_a_failure_of_all_is_one(site: Api) -> None:
    site.answer("/long", 200, "x" * 500, Content_Type="text/plain")
    site.answer("/gone", 410, "gone")
    tool = WebFetchTool(allow_private=True)

    some = await tool(url_list=[f"{site.url}/gone", f"{site.url}/long"], max_content_length=100)
    none = await tool(url_list=[f"{site.url}/gone"])
    await tool.close()

    assert some.success
    assert (some.data[0]["url"], some.data[0]["status"]) == (f"{site.url}/gone", 410)
    assert "truncated" in some.data[1]["content"]
    assert not none.success
    assert f"{site.url}/gone" in (none.error or "")
    assert "410" in (none.error or "")


async def test_004_7_near_addresses_are_refused(site: Api) -> None:
    tool = WebFetchTool()

    result = await tool(url_list=[f"{site.url}/x"])
    await tool.close()

    assert "on this machine or its network" in (result.error or "")
    assert site.asked == []


async def test_what_the_web_says_is_from_outside_in_a_toolkit_too(site: Api) -> None:
    site.answer("/page", 200, "hello", Content_Type="text/plain")
    tool = WebFetchTool(allow_private=True)
    toolkit = AgentToolkit("agent")
    toolkit.add_tool(tool)

    await toolkit.execute_tool("web_fetch", {"url_list": [f"{site.url}/page"]})
    await tool.close()

    assert await toolkit.toolbox.untrusted.holds()
