"""A client of the API that holds every answer to the OpenAPI document."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs

from tests.server.test_app import http
from wieldy import Context, InputNeeded, Toolbox
from wieldy.core.choices import Role
from wieldy.mcp.serving.callers import Identity
from wieldy.server import app
from wieldy.server.api.api_routes import OPERATIONS
from wieldy.server.api.openapi_document import make_document

DOCUMENT = make_document(OPERATIONS)
PEOPLE: dict[str, tuple[Role, ...]] = {
    "cal": ("call",),
    "bob": ("call",),
    "ann": ("approve",),
    "amy": ("approve",),
    "adam": ("administer",),
    "max": ("call", "approve"),
    "nora": (),
}


class People:
    """Knows a token for each of the people, which is their name and -secret."""

    def __init__(self, views: Mapping[str, str] | None = None) -> None:
        self._views = views or {}

    async def identify(self, token: str) -> Identity | None:
        """Whose token this is."""
        name = token.removesuffix("-secret")
        if name == token or name not in PEOPLE:
            return None
        return Identity(name, frozenset(PEOPLE[name]), self._views.get(name))


class ApiClient:
    """Sends requests as one of the people, or as nobody."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def send(
        self, method: str, path: str, who: str | None = None, **options: Any
    ) -> httpx2.Response:
        """The answer, which is as the document says."""
        headers = dict(options.pop("headers", {}))
        if who is not None:
            headers["Authorization"] = f"Bearer {who}-secret"
        answer = await self._client.request(method, path, headers=headers, **options)
        check_answer(method, path, answer)
        return answer

    async def get(self, path: str, who: str | None = None, **params: Any) -> Any:
        """The body of an answer that is a success."""
        answer = await self.send("GET", path, who, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def read_health(self, who: str) -> Any:
        """What somebody is told at `/health`, which the document does not describe."""
        headers = {"Authorization": f"Bearer {who}-secret"}
        return (await self._client.get("/health", headers=headers)).json()

    async def post(self, path: str, body: Any, who: str | None = None) -> Any:
        """The body of an answer that is a success."""
        answer = await self.send("POST", path, who, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def refused(self, method: str, path: str, who: str | None = None, **options: Any) -> Any:
        """The status and the code of an answer that is not a success."""
        answer = await self.send(method, path, who, **options)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, answer.json()["error"]["code"]


def check_answer(method: str, path: str, answer: httpx2.Response) -> None:
    """Fail if an answer is not as the document says."""
    body = answer.json()
    described = _find_described(method, path)
    found = described.get(str(answer.status_code), described["default"])
    if answer.status_code >= 400:
        assert found is described["default"]
    schema = found["content"]["application/json"]["schema"]
    validator = jsonschema_rs.validator_for({**schema, "components": DOCUMENT["components"]})
    validator.validate(body)
    # Everything is text that any reader takes.
    json.dumps(body, ensure_ascii=False).encode()


def _find_described(method: str, path: str) -> dict[str, Any]:
    plain = path.partition("?")[0]
    for template in sorted(DOCUMENT["paths"], key=len, reverse=True):
        pattern = re.sub(r"\\{\w+\\}", ".*", re.escape(template))
        operations = DOCUMENT["paths"][template]
        if re.fullmatch(pattern, plain, re.DOTALL) and method.lower() in operations:
            responses: dict[str, Any] = operations[method.lower()]["responses"]
            return responses
    # A path or method that there is not is answered as any other mistake.
    anything: dict[str, Any] = DOCUMENT["paths"]["/api/me"]["get"]["responses"]
    return {"default": anything["default"]}


def make_box(folder: Path, **options: Any) -> Toolbox:
    """A box with a store and a tool of each kind."""
    box = Toolbox(store=f"sqlite:///{folder}/calls.db", **options)

    @box.tool(read_only=True, tags=["sums"])
    def add(a: int, b: int) -> int:
        """Add two numbers.

        They may be negative.
        """
        return a + b

    @box.tool(permission="confirm")
    def wipe(path: str) -> str:
        """Wipe a path."""
        return f"wiped {path}"

    @box.tool
    def order(context: Context) -> str:
        """Order something."""
        if not context.answers:
            raise InputNeeded.form("Which size?", {"type": "object"})
        return f"ordered {context.answers['answer']}"

    @box.tool
    async def outer(context: Context) -> str:
        """Call another tool."""
        return str((await box.call("add", {"a": 1, "b": 1})).value)

    @box.tool
    def long(size: int) -> str:
        """Give a long text."""
        return "x" * size

    return box


@asynccontextmanager
async def api_of(box: Toolbox, tokens: bool = True, **options: Any) -> AsyncIterator[ApiClient]:
    """A client of a box's API, which is closed after.

    Without tokens, anybody calls and reads, and the people decide.
    """
    options.setdefault("identifiers" if tokens else "deciders", [People()])
    async with http(app(box, **options)) as client:
        yield ApiClient(client)
    await box.close()
