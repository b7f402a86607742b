"""Serve the shop over HTTP in a process of its own, on a socket that it is given."""

import socket
import sys

import uvicorn

from tests.mcp.servers.shop import server

app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
listener = socket.socket(fileno=int(sys.argv[2]))
config = uvicorn.Config(app, log_level="critical", ws="none")
uvicorn.Server(config).run(sockets=[listener])
