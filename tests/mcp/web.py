"""Real HTTP servers on loopback, each on a thread of its own."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

ROOT = Path(__file__).parents[2]


@contextmanager
def served(app: Any, port: int = 0) -> Iterator[int]:
    """Serve an ASGI app; gives the port."""
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        app, log_level="critical", timeout_graceful_shutdown=1, ws="none", lifespan="on"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(120)
        listener.close()
        assert not thread.is_alive()


@contextmanager
def served_elsewhere(
    transport: str, trace: Path, port: int = 0
) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """Serve the shop in a process of its own; gives the port and the process."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        number = listener.fileno()
        command = [sys.executable, "-m", "tests.mcp.servers.web", transport, str(number)]
        environment = {**os.environ, "SHOP_TRACE": str(trace)}
        process = subprocess.Popen(command, pass_fds=[number], env=environment, cwd=ROOT)
        port = listener.getsockname()[1]
    try:
        yield port, process
    finally:
        process.kill()
        process.wait(120)


class Seen:
    """Middleware that keeps what requests came with, and may turn them away."""

    def __init__(self, app: Any, refuse: Any = None) -> None:
        self.app = app
        self.refuse = refuse
        self.requests: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {k.decode().lower(): v.decode("latin-1") for k, v in scope["headers"]}
            self.requests.append({"method": scope["method"], "path": scope["path"], **headers})
            status = self.refuse(scope, headers) if self.refuse is not None else None
            if status is not None:
                await send({"type": "http.response.start", "status": status, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await self.app(scope, receive, send)
