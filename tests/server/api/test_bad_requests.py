"""Every operation of the OpenAPI document, and every other path, against every bad request.

Nothing here names an operation: what is added to the API is tried by itself.
"""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.types import Message

from tests.server.api.api_client import DOCUMENT, People, check_answer, make_box
from tests.server.test_app import http
from wieldy import Toolbox
from wieldy.server import app

MAX_BODY = 20_000
# Paths that are no operation of the API.
OTHERS = ("/mcp", "/health", "/health/live", "/ready", "/metrics", "/", "/api", "/api/", "/x")
# What everybody may ask, so that a machine can watch the server.
OPEN = {"/health", "/health/live", "/ready"}
SCALARS = {"string": "text", "integer": 1, "number": 1.5, "boolean": True}


class Operation(NamedTuple):
    """An operation as the document describes it."""

    method: str
    path: str
    described: dict[str, Any]

    def fill(self, text: str = "nothing-there") -> str:
        """The path with this as the first id in it, and with any others that fit."""
        filled = re.sub(r"{\w+}", lambda _: quote(text, safe=""), self.path, count=1)
        return re.sub(r"{(\w+)}", lambda found: PARTS[found[1]], filled)

    @property
    def needed(self) -> dict[str, Any]:
        """The parameters without which it is not asked at all."""
        found = {
            each["name"]: sample(each["schema"])
            for each in self.described.get("parameters", ())
            if each["in"] == "query" and each.get("required")
        }
        # A stream ends at once.
        return found | ({"seconds": 0} if "seconds" in self.query_names else {})

    @property
    def query_names(self) -> list[str]:
        """The parameters after the question mark."""
        found = self.described.get("parameters", ())
        return [each["name"] for each in found if each["in"] == "query"]

    @property
    def body_names(self) -> list[str]:
        """The fields of its body."""
        found = self.described.get("requestBody")
        if found is None:
            return []
        name = found["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        return [*DOCUMENT["components"]["schemas"][name].get("properties", {})]

    @property
    def body(self) -> Any:
        """The smallest body that it takes, or None."""
        found = self.described.get("requestBody")
        return None if found is None else sample(found["content"]["application/json"]["schema"])


OPERATIONS = [
    Operation(method.upper(), path, described)
    for path, methods in DOCUMENT["paths"].items()
    for method, described in methods.items()
]
# What stands after an id in a path.
PARTS = {"number": "0", "part": "value"}
# Parts of paths that name what belongs to no caller.
OF_NOBODY = {"name", "rule_id"}


def sample(schema: dict[str, Any]) -> Any:
    """A value that a schema of the document describes."""
    if "$ref" in schema:
        return sample(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return sample(schema[several][0])
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    if schema.get("type") == "object":
        known = schema.get("properties", {})
        return {name: sample(known[name]) for name in schema.get("required", ())}
    return [] if schema.get("type") == "array" else SCALARS.get(schema.get("type", ""), "text")


@asynccontextmanager
async def client_of(box: Toolbox, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a box's application, which is closed after."""
    async with box, http(app(box, identifiers=[People()], **options)) as client:
        yield client


async def send(client: httpx2.AsyncClient, operation: Operation, **changes: Any) -> Any:
    """An ordinary request of somebody who may do everything, but for what is changed."""
    options: dict[str, Any] = {"params": operation.needed}
    if operation.body is not None and "content" not in changes:
        options["json"] = operation.body
    path, who = changes.pop("path", operation.fill()), changes.pop("who", "adam")
    headers = {"Authorization": f"Bearer {who}-secret", **changes.pop("headers", {})}
    options |= {"headers": headers, **changes}
    answer = await client.request(operation.method, path, **options)
    if answer.headers.get("content-type") == "application/json":
        check_answer(operation.method, path, answer)
    return answer


BAD_TOKENS: tuple[str, ...] = (
    "",
    "Bearer",
    "Bearer ",
    "bearer\tx",
    "Basic YWRhbTphZGFt",
    "Bearer adam-secret2",
)
BAD_TOKENS += ("Bearer " + "x" * 5000, "Bearer \xff", "Bearer a b", "adam-secret", "Digest x")


async def test_a_wrong_token_is_no_token(tmp_path: Path) -> None:
    async with client_of(make_box(tmp_path)) as client:
        for operation, token in itertools.product(OPERATIONS, BAD_TOKENS):
            headers = {"Authorization": token.encode("latin-1")}
            answer = await send(client, operation, headers=headers)
            told = (answer.status_code, answer.json()["error"]["code"])
            assert told == (401, "no_token"), (operation.path, token)
            assert answer.headers["www-authenticate"].startswith("Bearer")


BAD_SENDERS: list[tuple[dict[str, str], tuple[int, str]]] = [
    ({"Host": "evil.example"}, (421, "wrong_host")),
    ({"Host": ""}, (421, "wrong_host")),
    ({"Host": "localhost.evil.example"}, (421, "wrong_host")),
    ({"Host": "localhost@evil.example"}, (421, "wrong_host")),
    ({"Origin": "https://evil.example"}, (403, "not_from_there")),
    ({"Origin": "null"}, (403, "not_from_there")),
    ({"Origin": "http://localhost.evil.example"}, (403, "not_from_there")),
]


async def test_a_page_elsewhere_gets_nothing(tmp_path: Path) -> None:
    async with client_of(make_box(tmp_path)) as client:
        for operation, (headers, refusal) in itertools.product(OPERATIONS, BAD_SENDERS):
            answer = await send(client, operation, headers=headers)
            told = (answer.status_code, answer.json()["error"]["code"])
            assert told == refusal, (operation.path, headers)


async def in_pieces() -> AsyncIterator[bytes]:
    for _ in range(5):
        yield b" " * (MAX_BODY // 4)


async def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    async with client_of(make_box(tmp_path), max_body=MAX_BODY) as client:
        for operation in OPERATIONS:
            headers = {"Content-Type": "application/json"}
            lying = {**headers, "Content-Length": "9" * 30}
            for content, told in (
                (b" " * (MAX_BODY + 1), headers),
                (in_pieces(), headers),
                (b"{}", lying),
            ):
                answer = await send(client, operation, content=content, headers=told)
                refusal = (answer.status_code, answer.json()["error"]["code"])
                assert refusal == (413, "too_large"), operation.path


WRONG_TEXTS: tuple[str, ...] = (
    "",
    "x" * 5000,
    "-1",
    "1e999",
    "NaN",
    "null",
    "\0",
    "😀",
    "9" * 30,
    "[]",
)
WRONG_TEXTS += ("../../etc/passwd", "'; DROP TABLE wieldy_calls--", "\u2028")
WRONG_VALUES: tuple[Any, ...] = (None, [[]], {"": None}, "", "x" * 5000, -1, 1e300, 2**70, True)


async def test_a_wrong_value_is_refused_or_finds_nothing(tmp_path: Path) -> None:
    async with client_of(make_box(tmp_path)) as client:
        for operation in OPERATIONS:
            for name, text in itertools.product(operation.query_names, WRONG_TEXTS):
                params = {**operation.needed, name: text}
                answer = await send(client, operation, params=params)
                assert answer.status_code < 500, (operation.path, name, text, answer.text)
            for name, value in itertools.product(operation.body_names, WRONG_VALUES):
                answer = await send(client, operation, json={**operation.body, name: value})
                assert answer.status_code < 500, (operation.path, name, value, answer.text)
            for text in ("", "\0", "..", "x" * 50_000, "\u202e", "%"):
                answer = await send(client, operation, path=operation.fill(text))
                assert answer.status_code < 500, (operation.path, text, answer.text)


MARK = "only-for-cal"
STEP = json.dumps({"calls": [], "requests": 0, "usage": None})


async def make_things(box: Toolbox, client: httpx2.AsyncClient) -> list[str]:
    """The ids of something of each kind that belongs to one caller."""
    await box.sessions.append("cal", {"role": "user", "content": MARK})
    await box.artifacts.create("plan", MARK, session="cal")
    request = json.dumps({"prompt": {"input": MARK}})
    await box.store.runs.begin("run-of-cal", "helper", request, STEP, session="cal")
    headers = {"Authorization": "Bearer cal-secret"}
    made = []
    for tool, arguments in (("wipe", {"path": MARK}), ("say", {"text": MARK})):
        body = {"tool": tool, "arguments": arguments}
        made.append((await client.post("/api/calls", json=body, headers=headers)).json())
    return ["cal", "plan", "run-of-cal", *(call["call_id"] for call in made)]


async def test_what_belongs_to_somebody_else_does_not_exist(tmp_path: Path) -> None:
    box = make_box(tmp_path)
    box.add(lambda text: text, name="say")
    async with client_of(box) as client:
        ids = await make_things(box, client)
        for operation in OPERATIONS:
            for known in ids:
                theirs = await send(client, operation, who="bob", path=operation.fill(known))
                assert MARK not in theirs.text, operation.path
                if "{" in operation.path:
                    nothing = await send(client, operation, who="bob")
                    told = (theirs.status_code, theirs.content)
                    assert told == (nothing.status_code, nothing.content), (operation.path, known)
                for name in operation.query_names:
                    params = {**operation.needed, name: known}
                    asked = await send(client, operation, who="bob", params=params)
                    assert MARK not in asked.text, (operation.path, name)
        await check_ids(client, ids)


async def check_ids(client: httpx2.AsyncClient, ids: list[str]) -> None:
    """Fail if a path takes an id of which none of these is one: it was not tried then."""
    for operation in OPERATIONS:
        names = re.findall(r"{(\w+)}", operation.path)
        if names and names[0] not in OF_NOBODY:
            paths = [operation.fill(each) for each in ids]
            answers = [await send(client, operation, who="cal", path=path) for path in paths]
            found = {answer.status_code for answer in answers} - {404}
            assert found, f"make something for {operation.method} {operation.path} in make_things"


@pytest.mark.parametrize("way", ["leaves early", "leaves later", "does not read"])
async def test_a_client_that_leaves_or_stops_reading_leaves_nothing_behind(
    way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = make_box(tmp_path)
    made = app(box, identifiers=[People()])
    async with box, http(made) as client:
        for operation in OPERATIONS:
            await visit(made, operation, way)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in others if "Stream" in repr(task.get_coro())]
        again = await client.get("/api/me", headers={"Authorization": "Bearer adam-secret"})
    assert again.status_code == 200
    assert not [record for record in caplog.records if record.name.startswith("wieldy")]


async def visit(made: Starlette, operation: Operation, way: str) -> None:
    """One request by a client that does not stay for its answer."""
    body = b"" if operation.body is None else json.dumps(operation.body).encode()
    half = {"type": "http.request", "body": body[: len(body) // 2], "more_body": True}
    whole = {"type": "http.request", "body": body, "more_body": False}
    waiting = [half if way == "leaves early" else whole]
    stuck, gone = asyncio.Event(), {"type": "http.disconnect"}

    async def receive() -> Message:
        return waiting.pop() if waiting else gone

    async def write(message: Message) -> None:
        if way != "does not read":
            return
        stuck.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(made(make_scope(operation), receive, write))
    stopped = asyncio.create_task(stuck.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED, timeout=120)
    for each in (task, stopped):
        each.cancel()
    done = await asyncio.gather(task, stopped, return_exceptions=True)
    assert done[0] is None or isinstance(done[0], asyncio.CancelledError), operation.path


def make_scope(operation: Operation) -> dict[str, Any]:
    headers = {
        "host": "localhost",
        "authorization": "Bearer adam-secret",
        "content-type": "application/json",
    }
    return {
        "type": "http",
        "method": operation.method,
        "path": operation.fill(),
        "raw_path": operation.fill().encode(),
        "query_string": str(httpx2.QueryParams(operation.needed)).encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 4321),
        "server": ("localhost", 80),
        "scheme": "http",
        "root_path": "",
    }


METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")
BAD_BODIES = (b"", b"{", b"[]", b'{"jsonrpc": "2.0", "id": 1, "method": 7}', b"\xff")


async def test_no_other_path_fails_or_tells_a_stranger_anything(tmp_path: Path) -> None:
    async with client_of(make_box(tmp_path)) as client:
        for path, method, body in itertools.product(OTHERS, METHODS, BAD_BODIES):
            for headers in ({}, {"Authorization": "Bearer x"}, {"Origin": "https://evil.example"}):
                sent = {"Content-Type": "application/json", **headers}
                answer = await client.request(method, path, content=body, headers=sent)
                assert answer.status_code < 500, (method, path, answer.text)
                open_page = path in OPEN or "text/html" in answer.headers.get("content-type", "")
                assert open_page or answer.status_code >= 400, (method, path, answer.text)
