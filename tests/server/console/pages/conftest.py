"""One served console with something on each page, for the tests of all pages."""

from collections.abc import Iterator

import pytest

from tests.server.console.pages.page_box import PageGateway, serve_pages
from tests.server.console.served_console import seed_calls


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageGateway]:
    """A served console; tests add calls of their own and change nothing of others."""
    with serve_pages(tmp_path_factory.mktemp("pages")) as gateway:
        seed_calls(gateway)
        gateway.lasting = True
        yield gateway
