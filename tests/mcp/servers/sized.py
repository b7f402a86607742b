"""A server written by hand whose answers are exactly as large as they are asked to be.

As a program it speaks over its pipes; `sized_app` serves it over HTTP. It is an older server.
"""

import asyncio
import gzip
import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}, "lines": {}, "form": {}}}
INFO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "sized", "version": "1"},
}


def sized_message(id: Any, size: int, lines: int = 1, form: str = "head") -> bytes:
    """An answer of so many bytes, on so many lines; its id is in its head or in its tail."""

    def write(texts: list[str]) -> str:
        blocks = ",\n".join(f'{{"type":"text","text":"{text}"}}' for text in texts)
        result = f'"result":{{"content":[{blocks}]}}'
        named = f'"jsonrpc":"2.0","id":{json.dumps(id)}'
        return f"{{{named},{result}}}" if form == "head" else f"{{{result},{named}}}"

    rest = size - len(write([""] * lines))
    share, more = divmod(rest, lines)
    return write(["x" * (share + more), *["x" * share] * (lines - 1)]).encode()


def answer_to(message: dict[str, Any]) -> bytes | None:
    """The answer to a message, or None if it needs none."""
    id, method = message.get("id"), message.get("method")
    if id is None:
        return None
    if method == "tools/call":
        asked = message["params"].get("arguments", {})
        return sized_message(id, **asked)
    facts: dict[str, Any] = {"error": {"code": -32601, "message": "not here"}}
    if method == "initialize":
        facts = {"result": INFO}
    elif method == "tools/list":
        facts = {"result": {"tools": [{"name": "give", "inputSchema": SCHEMA}]}}
    elif method == "ping":
        facts = {"result": {}}
    return json.dumps({"jsonrpc": "2.0", "id": id, **facts}).encode()


def as_event(message: bytes) -> bytes:
    """A message as an event, with a field for each of its lines."""
    return b"".join(b"data: %s\r\n" % line for line in message.split(b"\n")) + b"\r\n"


def sized_app(form: str) -> Any:
    """The server over HTTP: answers as `json`, as `events`, packed (`gzip`), or by `sse`."""
    waiting: asyncio.Queue[bytes] = asyncio.Queue()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await answer_lifespan(receive, send)
        if scope["method"] == "GET" and form == "sse":
            return await stream_events(receive, send, waiting)
        if scope["method"] != "POST":
            return await respond(send, 405)
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        made = answer_to(json.loads(body))
        if form == "sse":
            if made is not None:
                waiting.put_nowait(as_event(made))
            return await respond(send, 202)
        return await send_answer(send, form, made)

    return app


async def send_answer(send: Any, form: str, made: bytes | None) -> None:
    if made is None:
        await respond(send, 202)
    elif form == "json":
        await respond(send, 200, made, "application/json")
    elif form == "gzip":
        await respond(send, 200, gzip.compress(made), "application/json", b"gzip")
    else:
        await respond(send, 200, as_event(made), "text/event-stream")


async def respond(
    send: Any, status: int, body: bytes = b"", kind: str = "text/plain", packed: bytes = b""
) -> None:
    headers = [(b"content-type", kind.encode())]
    if packed:
        headers.append((b"content-encoding", packed))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for at in range(0, len(body), 300_001):
        await send(
            {"type": "http.response.body", "body": body[at : at + 300_001], "more_body": True}
        )
    await send({"type": "http.response.body", "body": b""})


async def stream_events(receive: Any, send: Any, waiting: "asyncio.Queue[bytes]") -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    left = asyncio.ensure_future(wait_for_end(receive))
    event = b"event: endpoint\r\ndata: /messages\r\n\r\n"
    while True:
        await send({"type": "http.response.body", "body": event, "more_body": True})
        coming = asyncio.ensure_future(waiting.get())
        await asyncio.wait((coming, left), return_when=asyncio.FIRST_COMPLETED)
        if left.done():
            coming.cancel()
            return
        event = coming.result()


async def wait_for_end(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def answer_lifespan(receive: Any, send: Any) -> None:
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


if __name__ == "__main__":
    for heard in sys.stdin.buffer:
        said = answer_to(json.loads(heard))
        if said is not None:
            # A message over pipes is one line.
            sys.stdout.buffer.write(said.replace(b",\n", b", ") + b"\n")
            sys.stdout.buffer.flush()
