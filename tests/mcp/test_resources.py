"""Artifacts as resources: each client sees its own."""

from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import TextResourceContents

from tests.mcp.clients import MODES, Mode, connected
from tests.mcp.served import served
from wieldy import Toolbox
from wieldy.mcp import server
from wieldy.mcp.resources import serve_artifacts


@dataclass(frozen=True)
class Page:
    """An artifact in memory."""

    id: str
    version: int
    content: str
    session: str | None
    title: str | None = None
    content_type: str = "markdown"

    @property
    def handle(self) -> str:
        """Its address."""
        return f"artifact://{self.id}@{self.version}"


class Shelf:
    """Artifacts in memory, by session."""

    def __init__(self, *pages: Page) -> None:
        self._pages = pages

    async def list(self, session: str | None = None) -> list[Page]:
        """Those of a session."""
        return [page for page in self._pages if page.session == session]

    async def open(self, reference: str, session: str | None = None) -> Page:
        """One of a session."""
        for page in await self.list(session):
            if page.handle == reference:
                return page
        raise LookupError(reference)


SHELF = Shelf(
    Page("plan", 2, "# Plan", None, title="The plan"),
    Page("data", 1, "{}", None, content_type="application/json"),
    Page("diary", 1, "Dear diary", "alice"),
    Page("plan", 1, "Bob's plan", "bob"),
)
TOKENS = {"alice": "alice-secret-1", "bob": "bob-secret-2"}


def made() -> Any:
    found = server(Toolbox())
    serve_artifacts(found, SHELF)
    return found


async def read(client: Client, uri: str) -> tuple[str | None, str]:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.mime_type, content.text


@pytest.mark.parametrize("mode", MODES)
async def test_artifacts_are_listed_and_read(mode: Mode) -> None:
    async with Client(made(), mode=mode) as client:
        listed = (await client.list_resources()).resources
        (template,) = (await client.list_resource_templates()).resource_templates
        assert [(each.uri, each.title, each.mime_type) for each in listed] == [
            ("artifact://plan@2", "The plan", "text/markdown"),
            ("artifact://data@1", None, "application/json"),
        ]
        assert template.uri_template == "artifact://{id}@{version}"
        assert await read(client, "artifact://plan@2") == ("text/markdown", "# Plan")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "uri", ["artifact://plan@1", "artifact://none@1", "artifact://", "file:///etc/passwd"]
)
async def test_what_is_not_there_is_the_protocols_error(mode: Mode, uri: str) -> None:
    async with Client(made(), mode=mode) as client:
        with pytest.raises(MCPError, match="no such resource") as raised:
            await client.read_resource(uri)
    assert (raised.value.error.code, raised.value.error.data) == (-32602, {"uri": uri})


@pytest.mark.parametrize("mode", MODES)
async def test_a_token_does_not_read_anothers_artifacts(mode: Mode) -> None:
    with served(made(), tokens=TOKENS) as url:
        async with connected(url, "alice-secret-1", mode) as alice:
            assert [each.uri for each in (await alice.list_resources()).resources] == [
                "artifact://diary@1"
            ]
            assert await read(alice, "artifact://diary@1") == ("text/markdown", "Dear diary")
            for uri in ("artifact://plan@1", "artifact://plan@2"):
                with pytest.raises(MCPError, match="no such resource"):
                    await alice.read_resource(uri)
        async with connected(url, "bob-secret-2", mode) as bob:
            assert await read(bob, "artifact://plan@1") == ("text/markdown", "Bob's plan")


async def test_a_box_without_a_store_has_no_resources() -> None:
    async with Client(server(Toolbox())) as client:
        assert client.server_capabilities.resources is None
