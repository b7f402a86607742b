"""The ASGI application of a toolbox, with the MCP endpoint, the API and health checks."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from starlette.applications import Starlette
from typing_extensions import Unpack

from wieldy.core.names import check_options
from wieldy.mcp.serving.http_endpoint import HttpEndpoint, WebOptions
from wieldy.mcp.serving.offer import ServedBox
from wieldy.mcp.serving.running import GRACE, Ready, serve_application
from wieldy.mcp.serving.server import BoxServer

from .api.api_operations import SharedParts
from .api.api_routes import ServedApi, find_toolbox
from .console.console_routes import console_routes, is_console_path
from .console.sign_in import SignInDesk
from .console.terminal_sign_ins import LinkTaker, TerminalSignIns
from .metrics.metrics_endpoint import METRICS_PATH, Metrics, MetricsAccess
from .webhooks.dispatch import Webhooks
from .webhooks.webhook import Webhook
from .webhooks.webhook_figures import WebhookCollector

if TYPE_CHECKING:
    from wieldy.agent.served_agent import ServedAgent


class AppOptions(WebOptions, total=False):
    """What the application takes beside the box and the tokens.

    `metrics` says who may read `/metrics`. By default administrators may if there are tokens, and
    otherwise everybody on this machine. With None there is no such page, and nothing is counted.
    `agents` are agents whose tools the box has; their runs can then be resumed over the API.
    `webhooks` are told what happens on the box's store.
    """

    metrics: MetricsAccess | None
    agents: "Sequence[ServedAgent]"
    webhooks: Sequence[Webhook] | Webhooks


_OPTIONS = {**WebOptions.__annotations__, **AppOptions.__annotations__}


def app(
    box: ServedBox | BoxServer,
    tokens: Mapping[str, str] | None = None,
    **options: Unpack[AppOptions],
) -> Starlette:
    """Create an ASGI application with `/mcp`, the API at `/api`, `/health` and `/metrics`.

    The application does not close the box; its caller does.

    Args:
        box: the toolbox or view to serve, or a server object from `wieldy.mcp.server`.
        tokens: bearer tokens by the name of their owner.
        **options: the settings of `wieldy.mcp.serve` for HTTP, such as `hosts`, `origins`,
            `max_body` and `max_sessions`, and `metrics`, which says who may read `/metrics`, and
            `webhooks`, a list of `Webhook`.

    Returns:
        The application, for any ASGI server that supports lifespan events.

    Example:
        `application = app(box, tokens={"ann": token})`
    """
    check_options(app, options, _OPTIONS)
    return _composed(_make_parts(box, tokens, options), options)


async def run(
    box: ServedBox | BoxServer,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    tokens: Mapping[str, str] | None = None,
    grace: float = GRACE,
    ready: Ready | None = None,
    certificate: tuple[str, str] | None = None,
    trusted_proxies: Sequence[str] = (),
    **options: Unpack[AppOptions],
) -> None:
    """Serve the application until the process gets SIGTERM or SIGINT, and then close the box.

    Args:
        box: the toolbox or view to serve.
        host: the address to listen on.
        port: the port to listen on; 0 takes a free one.
        tokens: bearer tokens by the name of their owner.
        grace: how many seconds running calls may take to end.
        ready: a function that is called with the URL when the server accepts requests.
        certificate: the paths of a certificate and of its key, as PEM files, for https.
        trusted_proxies: addresses of proxies whose forwarded headers are believed.
        **options: the settings of `app`.

    Example:
        `asyncio.run(run(box, port=8000))`
    """
    check_options(run, options, _OPTIONS)
    parts = _make_parts(box, tokens, options)
    await serve_application(
        _composed(parts, options),
        parts.endpoint,
        host=host,
        port=port,
        grace=grace,
        ready=ready,
        certificate=certificate,
        trusted_proxies=trusted_proxies,
    )


class _Parts(NamedTuple):
    endpoint: HttpEndpoint
    metrics: Metrics | None
    webhooks: Webhooks | None


def _make_parts(
    box: ServedBox | BoxServer, tokens: Mapping[str, str] | None, options: AppOptions
) -> _Parts:
    access = options.get("metrics", MetricsAccess())
    endpoint = HttpEndpoint(box, tokens, options, open_paths=[METRICS_PATH])
    webhooks = _make_webhooks(endpoint.server, options.get("webhooks", ()))
    more = [] if webhooks is None else [WebhookCollector(webhooks)]
    return _Parts(endpoint, None if access is None else Metrics(endpoint, access, more), webhooks)


def _make_webhooks(server: BoxServer, given: Sequence[Webhook] | Webhooks) -> Webhooks | None:
    if isinstance(given, Webhooks):
        return given
    box = find_toolbox(server)
    if given and box is None:
        raise ValueError(
            "Webhooks need a toolbox with a store: serve the toolbox itself, and make it with "
            "Toolbox(store=…)."
        )
    return Webhooks(box, given) if given and box is not None else None


def _composed(parts: _Parts, options: AppOptions) -> Starlette:
    endpoint, metrics, webhooks = parts
    write_figures = None if metrics is None else metrics.write_figures
    shared = SharedParts(options.get("agents", ()), write_figures, webhooks)
    api = ServedApi(endpoint.server, shared)
    endpoint.before_drain.append(api.close_streams)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            await running.enter_async_context(endpoint.lifespan(app))
            for part in (metrics, webhooks, api):
                if part is not None:
                    await running.enter_async_context(part.running())
            yield

    routes = [*endpoint.routes, *api.routes, *([] if metrics is None else [metrics.route])]
    if api.routes:
        endpoint.access.is_public = is_console_path
        sign_ins = _find_sign_ins(endpoint, options)
        routes += [*SignInDesk(sign_ins, endpoint.access.wrong_tokens).routes, *console_routes()]
    return Starlette(routes=routes, middleware=endpoint.middleware, lifespan=lifespan)


def _find_sign_ins(endpoint: HttpEndpoint, options: AppOptions) -> list[LinkTaker]:
    """Where links and sessions are kept, if the server lets people in by them."""
    box = find_toolbox(endpoint.server)
    if box is None or not endpoint.access.keeps_sessions:
        return []
    deciders = () if endpoint.access.uses_tokens else options.get("deciders", ())
    found: list[LinkTaker] = [each for each in deciders if isinstance(each, TerminalSignIns)]
    return [*found, box.store.sign_ins] if box.recorded else found
