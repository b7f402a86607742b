"""A console that is served for real: tools of many kinds, people, and calls of the past."""

import base64
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2

from tests.mcp.served import served
from tests.server.api.api_client import People
from wieldy import Context, Image, InputNeeded, Toolbox
from wieldy.server import run


def make_tools(folder: Path) -> Toolbox:
    """A box with a tool of each kind that a person meets."""
    box = Toolbox(store=f"sqlite:///{folder}/calls.db")

    @box.tool(read_only=True, timeout=5, tags=["weather"])
    def forecast(city: str, days: int = 3) -> str:
        """Say what the weather will be.

        Args:
            city: where
            days: for how many days
        """
        return f"{days} days of sun in {city}"

    @box.tool(permission="confirm", tags=["mail"])
    def send_mail(
        to: str,
        text: str,
        priority: Literal["low", "normal", "high"] = "normal",
        copies: list[str] | None = None,
        urgent: bool = False,
    ) -> str:
        """Send a mail.

        Args:
            to: who gets it
            text: what it says
        """
        return f"sent to {to}"

    @box.tool(permission="confirm", destructive=True)
    def wipe(path: str) -> str:
        """Delete a file."""
        return f"wiped {path}"

    @box.tool
    def order(context: Context, item: str = "shirt") -> str:
        """Order something; asks for the size."""
        if not context.answers:
            sizes = {"size": {"type": "string", "enum": ["S", "M", "L"]}}
            schema = {"type": "object", "properties": sizes, "required": ["size"]}
            raise InputNeeded.form("Which size?", schema)
        return f"ordered {item}: {context.answers['answer']}"

    @box.tool(read_only=True)
    def draw(width: int = 64) -> Image:
        """Draw a picture."""
        return Image(base64.b64encode(make_png(width)).decode(), "image/png")

    @box.tool
    def fail(reason: str = "the disk is full") -> str:
        """Fail."""
        raise RuntimeError(reason)

    @box.tool
    async def report(context: Context) -> dict[str, Any]:
        """Ask for two forecasts, and put them together."""
        found = [await context.call("forecast", {"city": each}) for each in ("Oslo", "Rome")]
        return {"cities": [each.value for each in found], "ok": True}

    @box.tool
    def echo(value: Any) -> Any:
        """Give back what it got."""
        return value

    return box


def make_png(width: int) -> bytes:
    """A red square."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + check

    size = width.to_bytes(4, "big")
    rows = (b"\0" + b"\xc0\x30\x30" * width) * width
    header = chunk(b"IHDR", size * 2 + b"\x08\x02\0\0\0")
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Gateway:
    """A served box, and a way to do something there as one of the people of the API's tests."""

    def __init__(self, box: Toolbox, url: str) -> None:
        self.box = box
        self.url = url
        # Whether it is served for more than one test.
        self.lasting = False

    def send(self, who: str, method: str, path: str, body: Any = None) -> Any:
        """The body of an answer that is a success."""
        headers = {"Authorization": f"Bearer {who}-secret"}
        address = f"{self.url}/api{path}"
        answer = httpx2.request(method, address, headers=headers, json=body, timeout=120)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def call(self, tool: str, arguments: Any = None, who: str = "cal") -> str:
        """Make a call, and give its id."""
        body = {"tool": tool, "arguments": arguments or {}}
        return str(self.send(who, "POST", "/calls", body)["call_id"])

    def state_of(self, call_id: str) -> str:
        """The state of a call."""
        return str(self.send("adam", "GET", f"/calls/{call_id}")["state"])


@contextmanager
def serve_console(box: Toolbox, port: int = 0, **options: Any) -> Iterator[Gateway]:
    """The gateway of a box while it is served; the box is closed after."""

    async def serve(box: Toolbox, port: int, **more: Any) -> None:
        await run(box, port=wanted, grace=1, **more)

    wanted = port
    options.setdefault("identifiers", [People()])
    with served(box, serve, **options) as url:
        yield Gateway(box, url.removesuffix("/mcp"))


def seed_calls(gateway: Gateway) -> None:
    """Make calls of many kinds, some of which wait."""
    gateway.call("forecast", {"city": "Oslo", "days": "2"})
    gateway.call("forecast", {"city": "Bergen"}, who="bob")
    gateway.call("report")
    gateway.call("draw")
    gateway.call("fail")
    gateway.call("echo", {"value": {"rows": [{"id": n, "name": f"row {n}"} for n in range(300)]}})
    denied = gateway.call("wipe", {"path": "/etc/hosts"}, who="bob")
    gateway.send("ann", "POST", f"/pending/{denied}/deny", {"reason": "It is needed."})
    mail = {"to": "ann@example.com", "text": "The tests are green.\nShall we release?"}
    gateway.call("send_mail", {**mail, "priority": "high", "copies": ["bob@example.com"]})
    gateway.call("wipe", {"path": "/srv/build/old"}, who="bob")
    gateway.call("order", {"item": "jacket"})


def run_beside(work: Any) -> threading.Thread:
    """Do something on a thread of its own."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread
