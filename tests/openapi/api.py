"""A real HTTP server on loopback that says what it was asked, or answers as it was told."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Mapping[str, str], bytes]


class Api:
    """What was asked, in order, and what to answer by path; else the request itself is told."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Answer | Callable[[], Answer]] = {}

    def answer(self, path: str, status: int, body: bytes | str = b"", **headers: str) -> None:
        """Answer a path in this way from now on."""
        content = body.encode() if isinstance(body, str) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (status, named, content)

    @property
    def last(self) -> dict[str, Any]:
        return self.asked[-1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Api

    def handle_any(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        content = self.rfile.read(length)
        path, _, query = self.path.partition("?")
        told = {
            "method": self.command,
            "path": path,
            "query": query,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": content.decode("utf-8", "replace"),
            "bytes": base64.b64encode(content).decode(),
        }
        self.api.asked.append(told)
        canned = self.api.answers.get(path)
        if callable(canned):
            canned = canned()
        plain = (200, {"Content-Type": "application/json"}, json.dumps(told).encode())
        status, headers, body = plain if canned is None else canned
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about callers that have left."""


@contextmanager
def serving() -> Iterator[Api]:
    """A server for as long as the block lasts."""
    handler = type("Handler", (_Handler,), {})
    server = _Server(("127.0.0.1", 0), handler)
    api = Api(f"http://127.0.0.1:{server.server_address[1]}")
    handler.api = api  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join(120)


def document(paths: Mapping[str, Any], version: str = "3.1.0", **parts: Any) -> dict[str, Any]:
    """A document with these paths."""
    return {"openapi": version, "info": {"title": "Test", "version": "1"}, "paths": paths, **parts}


def operation(**facts: Any) -> dict[str, Any]:
    """An operation named `it` unless it has another id."""
    return {"operationId": "it", "responses": {"200": {"description": "ok"}}, **facts}
