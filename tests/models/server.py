"""A real HTTP server on the loopback interface that answers as a test tells it to."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from wieldy.core.sync import LoopThread

STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}


@dataclass
class Scene:
    """One answer: what is sent piece by piece, and what happens after the last piece.

    `then` is "end"; "cut", which closes the connection in the middle of the answer; "hang",
    which sends nothing more; or "repeat", which sends the pieces again and again.
    """

    pieces: Iterable[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(STREAM))
    then: str = "end"


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


Choose = Callable[[Asked], Scene]


class ModelServer:
    """Answers with the scenes it was given, in order; the last one is for all that follow."""

    def __init__(self) -> None:
        self.scenes: deque[Scene | Choose] = deque()
        self.asked: list[Asked] = []
        self.connections = 0
        # Those that have not ended.
        self.open = 0
        self._change = threading.Condition()
        # Set when a client goes away in the middle of an answer.
        self.left = threading.Event()
        # Set when all pieces of some answer are sent.
        self.sent = threading.Event()
        self.url = ""
        self._home = LoopThread("model-server")
        self._server: asyncio.Server | None = None

    def play(self, *scenes: Scene | Choose) -> None:
        """Answer so from now on."""
        self.scenes = deque(scenes)

    def wait_until_open(self, most: int) -> bool:
        """Wait until no more connections than so many are open."""
        with self._change:
            return self._change.wait_for(lambda: self.open <= most, 120)

    def start(self) -> None:
        """Listen on a free port."""
        ready = threading.Event()

        async def listen() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2000)
            self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
            ready.set()

        self._home.call(lambda: asyncio.ensure_future(listen()))
        assert ready.wait(120)

    def stop(self) -> None:
        """Close every connection."""
        done = threading.Event()

        async def end() -> None:
            assert self._server is not None
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            done.set()

        self._home.call(lambda: asyncio.ensure_future(end()))
        assert done.wait(120)
        self._home.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with self._change:
            self.open += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer(reader, writer):
                pass
        with self._change:
            self.open -= 1
            self._change.notify_all()
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = await _read_request(reader)
        self.asked.append(asked)
        scene = self.scenes[0] if len(self.scenes) == 1 else self.scenes.popleft()
        if callable(scene):
            scene = scene(asked)
        headers = {**scene.headers, "Transfer-Encoding": "chunked"}
        lines = [f"HTTP/1.1 {scene.status} X", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        going = asyncio.ensure_future(reader.read(1))
        try:
            await self._send(scene, writer)
            if scene.then == "hang":
                await going
                raise ConnectionResetError
        except ConnectionError:
            self.left.set()
            raise
        finally:
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)
        if scene.then == "cut":
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _send(self, scene: Scene, writer: asyncio.StreamWriter) -> None:
        while True:
            for piece in scene.pieces:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
            self.sent.set()
            if scene.then != "repeat":
                return
            # A loop that always finds room to write must still see who leaves.
            await asyncio.sleep(0)


async def _read_request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, json.loads(body) if body else None)
