"""Run a server until it is told to stop: over standard input and output, or over HTTP."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, redirect_stdout, suppress
from types import FrameType
from typing import Any, cast

import anyio
import uvicorn
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError
from starlette.applications import Starlette
from typing_extensions import Unpack

from wieldy.core.names import check_options

from .body_values import too_many_values
from .http_endpoint import PATH, HttpEndpoint, WebOptions, of_server
from .offer import ServedBox
from .server import BoxServer, server
from .slow_clients import Patient
from .stdin_lines import Lines
from .stdout_lines import OutputLines

GRACE = 30.0
_CLOSING = 2
# Longer than clients and proxies keep a connection: one that we close may carry a request by then.
_KEEP_ALIVE = 75
_MAX_COUNT = 1000
_WRITING = 0.2
Ready = Callable[[str], None]
Streams = tuple["anyio.AsyncFile[str]", "anyio.AsyncFile[str]"]


async def serve(
    box: ServedBox | BoxServer,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    tokens: Mapping[str, str] | None = None,
    grace: float = GRACE,
    ready: Ready | None = None,
    **options: Unpack[WebOptions],
) -> None:
    """Serve a box to MCP clients until the process gets SIGTERM or SIGINT.

    Without a port the server uses standard input and output. With a port it uses HTTP, at
    `/mcp`. On a signal it refuses new calls, waits for running ones, and closes the box.

    Args:
        box: the toolbox or view to serve, or a server object from `server`.
        port: the port for HTTP; 0 takes a free one.
        host: the address to listen on. Other addresses than this machine's need tokens.
        tokens: bearer tokens by the name of their owner.
        grace: how many seconds running calls may take to end after a signal.
        ready: a function that is called with the URL when the server accepts requests.
        **options: the settings of `ServerOptions`, and for HTTP those of `WebOptions`.

    Raises:
        ValueError: an option is only for HTTP, or tokens are missing.

    Example:
        `asyncio.run(serve(box, port=8000))`
    """
    check_options(serve, options, WebOptions.__annotations__)
    if port is None:
        own = of_server(options)
        others = sorted(options.keys() - own.keys()) + ["tokens"] * (tokens is not None)
        if others:
            raise ValueError(f"For HTTP only: {', '.join(others)}. Pass a port, or leave them out.")
        made = server(box, **own)
        made.check_callers(())
        async with opened(made):
            await serve_stdio(made, grace)
        return
    endpoint = HttpEndpoint(box, tokens, options)
    app = Starlette(
        routes=endpoint.routes, middleware=endpoint.middleware, lifespan=endpoint.lifespan
    )
    await serve_application(app, endpoint, host=host, port=port, grace=grace, ready=ready)


async def serve_stdio(made: BoxServer, grace: float = GRACE) -> None:
    """Serve one client over standard input and output, until it closes them or on a signal."""
    with _own_streams() as (stdin, stdout), _frozen_heap():
        lines, answers = Lines(stdin, made.max_values), OutputLines(stdout)

        async def leave() -> None:
            # The client may have stopped reading.
            answers.close_after(grace + _WRITING)
            await made.traffic.drain(grace)
            # The answers of calls that have ended still have to be written.
            await asyncio.sleep(_WRITING)
            lines.close()
            await answers.wait_closed()

        def end() -> None:
            lines.close()
            answers.close()

        streams = cast("Streams", (lines, answers))
        # The output of a tool must not be read as a message.
        with redirect_stdout(sys.stderr), _on_signal(leave, end):
            async with stdio_server(*streams) as (incoming, outgoing):

                async def refuse(request_id: str | int) -> None:
                    said = too_many_values("message", made.max_values)
                    error = ErrorData(code=INVALID_REQUEST, message=said)
                    answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
                    await outgoing.send(SessionMessage(answer))

                lines.refuse = refuse
                try:
                    await made.run(incoming, outgoing, made.create_initialization_options())
                finally:
                    answers.close_after(grace)


async def serve_application(
    app: Starlette,
    endpoint: HttpEndpoint,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace: float = GRACE,
    ready: Ready | None = None,
    certificate: tuple[str, str] | None = None,
    trusted_proxies: Sequence[str] = (),
) -> None:
    """Serve an application over HTTP until the process is told to stop.

    `ready` is called with the address of the MCP endpoint once it can be reached. With a
    `certificate`, the paths of it and of its key as PEM files, it is https. Forwarded headers
    are believed only from `trusted_proxies`.
    """
    endpoint.access.check_address(host)
    chain, key = certificate or (None, None)
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        http=Patient,
        limit_concurrency=_MAX_COUNT,
        lifespan="on",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_CLOSING,
        ssl_certfile=chain,
        ssl_keyfile=key,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
    )
    web = _Web(settings, lambda: endpoint.drain(grace), ready)
    with _bind_socket(host, port) as bound, _frozen_heap():
        async with opened(endpoint.server):
            await _until_told(web, bound)


async def _until_told(web: "_Web", bound: socket.socket) -> None:
    serving = asyncio.create_task(web.serve(sockets=[bound]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        # Cancelling the server has the same effect as a signal.
        web.leave()
        await serving
        raise


class _Web(uvicorn.Server):
    """Uvicorn, which on a signal waits for the running calls and then exits with 0."""

    def __init__(
        self,
        config: uvicorn.Config,
        drain: Callable[[], Coroutine[Any, Any, object]],
        ready: Ready | None,
    ) -> None:
        super().__init__(config)
        self._drain = drain
        self._ready = ready
        self._loop = asyncio.get_running_loop()
        self._leaving: asyncio.Task[Any] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None and sockets:
            host, port = sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{PATH}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The method of the parent class would end open streams and raise the signal again.
        self._loop.call_soon_threadsafe(self.leave)

    def leave(self) -> None:
        """End after the running calls; a second request ends at once."""
        if self._leaving is None:
            self._leaving = _leave_and_end(self._drain(), self._end)
        else:
            self._leaving.cancel()

    def _end(self) -> None:
        self.should_exit = True


@asynccontextmanager
async def opened(made: BoxServer) -> AsyncIterator[None]:
    """Serve a box: recover the calls that a crash interrupted, and close the box at the end."""
    box: Any = made.box
    try:
        if getattr(box, "recorded", False) and hasattr(box, "recover"):
            # A store that can't be used is an error now. The calls may take long.
            await box.recover([])
            made.pickup.recover_left()
        yield
    finally:
        await made.pickup.stop()
        if hasattr(box, "close"):
            await box.close()


def _leave_and_end(
    leave: Coroutine[Any, Any, object], end: Callable[[], object]
) -> "asyncio.Task[Any]":
    """Start to leave; what ends is ended also if the task is cancelled before its first step."""
    leaving = asyncio.get_running_loop().create_task(leave)
    leaving.add_done_callback(lambda task: end())
    return leaving


@contextmanager
def _on_signal(
    leave: Callable[[], Coroutine[Any, Any, None]], end: Callable[[], None]
) -> Iterator[None]:
    """Leave on the first signal to stop, and end after that; the second ends at once."""
    loop = asyncio.get_running_loop()
    leaving: list[asyncio.Task[Any]] = []

    def told() -> None:
        if leaving:
            leaving[0].cancel()
        else:
            leaving.append(_leave_and_end(leave(), end))

    signals = (signal.SIGTERM, signal.SIGINT)
    # Only the main thread gets signals, and Windows does not have these.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for each in signals:
            loop.add_signal_handler(each, told)
    try:
        yield
    finally:
        for task in leaving:
            task.cancel()
        for each in signals:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(each)


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Have the garbage collector pass over what is loaded already.

    A request with very many values makes it look through everything, which takes a tenth of a
    second for the modules alone, and nobody is answered meanwhile.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _own_streams() -> Iterator[tuple[int, int]]:
    """Standard input and output for the server only.

    Tools and the programs they start find the input empty, and write to standard error.
    """
    own = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield own
    finally:
        for number, each in enumerate(own):
            os.dup2(each, number)
        # The threads of both may still wait for the client, so they stay open.


def _bind_socket(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.create_server(cast("tuple[str, int]", address[:2]), family=family)
    # An answer in several pieces would wait for the client's kernel before each of them. Accepted
    # sockets inherit this; asyncio sets it only on sockets that name their protocol.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return bound
