"""One application: the MCP endpoint and health, and room for what else is served."""

from collections.abc import Mapping

from starlette.applications import Starlette
from typing_extensions import Unpack

from wieldy.core.keyword_check import check_options
from wieldy.mcp.serving.http_endpoint import HttpEndpoint, WebOptions
from wieldy.mcp.serving.offer import ServedBox
from wieldy.mcp.serving.running import GRACE, Ready, serve_application
from wieldy.mcp.serving.server import BoxServer


def app(
    box: ServedBox | BoxServer,
    tokens: Mapping[str, str] | None = None,
    **options: Unpack[WebOptions],
) -> Starlette:
    """The ASGI application over a box: MCP at `/mcp`, and `/health`.

    `tokens` are bearer tokens by the name of their owner. Whoever runs the
    application closes the box.
    """
    check_options(app, options, WebOptions.__annotations__)
    return _composed(HttpEndpoint(box, tokens, options))


async def run(
    box: ServedBox | BoxServer,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    tokens: Mapping[str, str] | None = None,
    grace: float = GRACE,
    ready: Ready | None = None,
    **options: Unpack[WebOptions],
) -> None:
    """Serve the application until the process is told to stop, and then close the box."""
    check_options(run, options, WebOptions.__annotations__)
    endpoint = HttpEndpoint(box, tokens, options)
    await serve_application(
        _composed(endpoint), endpoint, host=host, port=port, grace=grace, ready=ready
    )


def _composed(endpoint: HttpEndpoint) -> Starlette:
    return Starlette(
        routes=[*endpoint.routes], middleware=endpoint.middleware, lifespan=endpoint.lifespan
    )
