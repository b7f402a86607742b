"""A real HTTP server on loopback, and a real browser that is started once for many tests."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.openapi.api import Api, serving
from wieldy import Toolbox
from wieldy.core.network.addresses import Reach
from wieldy.tools.web.browser_process import Browser
from wieldy.tools.web.page_renderer import PageRenderer
from wieldy.tools.web.web_tools import add_web_tools


@pytest.fixture
def site() -> Iterator[Api]:
    """A site that answers as it is told."""
    with serving() as api:
        yield api


@pytest.fixture(scope="module")
def browser_box() -> Iterator[Toolbox]:
    """A toolbox whose browser is started once for a module."""
    box = Toolbox()
    add_web_tools(box, allow_private=True, timeout=20, robots=True, browser=True)
    yield box
    asyncio.run(box.close())


@pytest.fixture(scope="module")
def renderers() -> Iterator[Callable[[Browser, Reach], PageRenderer]]:
    """Makes renderers that are closed after a module."""
    made: list[PageRenderer] = []

    def make(settings: Browser, reach: Reach) -> PageRenderer:
        made.append(PageRenderer(settings, reach))
        return made[-1]

    yield make
    for renderer in made:
        asyncio.run(renderer.close())
