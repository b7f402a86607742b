"""MCP Apps through a served box: who is told that there are user interfaces."""

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, Apps
from mcp.server.mcpserver import MCPServer

from tests.mcp.clients import MODES, Mode
from wieldy import Toolbox
from wieldy.mcp import server


def make_clock() -> MCPServer:
    """A server whose tool has a user interface."""
    apps = Apps()

    @apps.tool(resource_uri="ui://clock/app.html", description="Tell the time.")
    def tell_time() -> str:
        return "noon"

    apps.add_html_resource("ui://clock/app.html", "<p>noon</p>")
    return MCPServer("clock", extensions=[apps])


KNOWS = [advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("known", [True, False])
async def test_apps_are_announced_to_clients_that_know_them(known: bool, mode: Mode) -> None:
    async with Toolbox() as box:
        await box.add_mcp(make_clock())
        extensions = KNOWS if known else []
        async with Client(server(box), mode=mode, extensions=extensions) as client:
            announced = client.server_capabilities.extensions or {}
            assert (EXTENSION_ID in announced) is known
            [tool] = (await client.list_tools()).tools
            assert (tool.meta or {})["ui"]["resourceUri"] == "ui://clock/app.html"
            [page] = (await client.read_resource("ui://clock/app.html")).contents
            assert page.mime_type == APP_MIME_TYPE


async def test_apps_of_a_server_that_a_client_does_not_see_are_not_announced() -> None:
    async with Toolbox() as box:
        await box.add_mcp(make_clock())
        box.add(lambda: 1, name="one")
        served = server(box, view=box.view(names=["one"]))
        async with Client(served, extensions=KNOWS) as client:
            assert EXTENSION_ID not in (client.server_capabilities.extensions or {})
