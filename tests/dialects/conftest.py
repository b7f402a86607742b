"""What the tests of the dialects share."""

from collections.abc import Iterator

import pytest
from mcp.server.mcpserver import MCPServer

from tests.mcp.web import Seen, served
from wieldy.dialects.agentscope import Toolkit


@pytest.fixture
def toolkit() -> Toolkit:
    """An empty toolkit of AgentScope's."""
    return Toolkit()


def make_stall() -> MCPServer:
    """A server of two tools."""
    stall = MCPServer("stall")

    @stall.tool()
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @stall.tool()
    def fail(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    return stall


@pytest.fixture(params=["streamable_http", "sse"])
def transport(request: pytest.FixtureRequest) -> str:
    """How a server is reached."""
    return str(request.param)


@pytest.fixture
def visits(transport: str) -> Seen:
    """A server behind HTTP, and what requests came to it with."""
    stall = make_stall()
    return Seen(stall.sse_app() if transport == "sse" else stall.streamable_http_app())


@pytest.fixture
def url(transport: str, visits: Seen) -> Iterator[str]:
    """Where it is."""
    with served(visits) as port:
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
