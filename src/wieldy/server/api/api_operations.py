"""One operation of the API: what it takes and gives, who may ask for it, and how it runs."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from wieldy.core.call import Scope as CallScope
from wieldy.core.choices import Role
from wieldy.core.errors import WieldyError
from wieldy.core.limits.off_loop import is_long_json, run_off_loop
from wieldy.mcp.serving.callers import Identity, current_identity
from wieldy.mcp.serving.server import BoxServer
from wieldy.toolbox import Toolbox
from wieldy.view import View

from .answer_shapes import Input, dump_answer, read_cursor
from .api_problems import Problem, find_problem, forbidden, not_found, unknown_person
from .path_parts import read_part

if TYPE_CHECKING:
    from wieldy.agent.served_agent import ServedAgent
    from wieldy.server.webhooks.dispatch import Webhooks
    from wieldy.server.webhooks.webhook import Webhook
    from wieldy.store.store import Store

    from .event_hub import EventHub
    from .event_stream import EventStream

T = TypeVar("T")
_log = logging.getLogger("wieldy.server")
_MAX_FAULTS = 20
# An answer for one caller must not stay in a cache. A browser that opens an answer itself takes
# it for nothing but data, and no other site may embed it.
ANSWER_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_FLUSH_SECONDS = 2.0
# The roles for an operation that names none. Administrators may do everything.
_ANY_ROLE: tuple[Role, ...] = ("call", "approve")


class NoInput(Input):
    """Nothing."""


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What the application has beside the toolbox: its agents, and what writes its figures."""

    agents: "Sequence[ServedAgent]" = ()
    write_figures: Callable[[], Awaitable[None]] | None = None
    webhooks: "Webhooks | None" = None


class ApiBox:
    """The parts that all operations of one application share."""

    def __init__(self, server: BoxServer, box: Toolbox, shared: SharedParts) -> None:
        self.server = server
        self.box = box
        self.webhooks = shared.webhooks
        self._agents = shared.agents
        self._write_figures = shared.write_figures
        self._flushed_at = -math.inf
        self.hub: EventHub | None = None
        self.streams: set[EventStream] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    def find_agent(self, name: str) -> "ServedAgent | None":
        """The served agent of this name, or None."""
        return next((each for each in self._agents if each.agent.name == name), None)

    async def flush_figures(self) -> None:
        """Have the figures of the last seconds written, every few seconds at most."""
        now = time.monotonic()
        if self._write_figures is not None and now - self._flushed_at > _FLUSH_SECONDS:
            self._flushed_at = now
            await self._write_figures()

    @property
    def hooks(self) -> "Sequence[Webhook]":
        """The webhooks of this application."""
        return () if self.webhooks is None else self.webhooks.hooks

    async def run_counted(self, work: Coroutine[Any, Any, T], seconds: float) -> T | None:
        """Run something that goes on if its caller leaves; None if it takes longer than this."""
        task = asyncio.create_task(self._count(work))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        done, _ = await asyncio.wait((task,), timeout=seconds)
        return task.result() if done else None

    async def _count(self, work: Coroutine[Any, Any, T]) -> T:
        with self.server.traffic.one():
            return await work

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # The caller may be gone, and then nobody else looks at the error.
            task.exception()


class Asked:
    """One request: who asks for what."""

    def __init__(self, api: ApiBox, request: Request) -> None:
        self.api = api
        self.box = api.box
        self.request = request
        self.identity: Identity | None = current_identity()
        self.query: Any = None
        self.body: Any = None

    @property
    def name(self) -> str | None:
        """The name of whoever asks; None where tokens are not used."""
        return None if self.identity is None else self.identity.name

    def has_role(self, *roles: Role) -> bool:
        """Whether whoever asks has one of these roles; administrators have all.

        Somebody unknown, where no token is needed, may call.
        """
        if self.identity is None:
            return "call" in roles
        return not self.identity.roles.isdisjoint((*roles, "administer"))

    def reads_as(self, *roles: Role) -> bool:
        """Whether whoever asks may read what is for these roles.

        Where no token is needed, anybody on this machine reads everything.
        """
        return self.identity is None or self.has_role(*roles)

    @property
    def sees_all(self) -> bool:
        """Whether whoever asks may see what belongs to others."""
        return self.reads_as("approve")

    def owns(self, caller: str | None) -> bool:
        """Whether whoever asks may see what belongs to this caller."""
        return self.sees_all or (caller is not None and caller == self.name)

    @property
    def scope(self) -> CallScope:
        """On whose behalf calls are made; callers have a session of their name, as over MCP."""
        return CallScope(self.name, self.name, caller=self.name)

    @property
    def view(self) -> View:
        """The tools that the caller of this request may see and call."""
        offer = self.api.server.find_offer()
        if not isinstance(offer, View):
            # Somebody whose view is not there sees nothing.
            offer = self.box.view(names=())
        name = self.name
        return offer if name is None else offer.view(agent=name, caller=name, session=name)

    @property
    def store(self) -> "Store":
        """The store, or a `Problem` if the box has none."""
        if not self.box.recorded:
            hint = "Serve a toolbox with a store, such as Toolbox(store='sqlite:///wieldy.db')."
            raise Problem(409, "no_store", "This server records nothing.", hint)
        return self.box.store

    def part(self, name: str) -> str:
        """A name or an id in the path."""
        return read_part(str(self.request.path_params[name]))

    def place(self, *kinds: Any) -> tuple[Any, ...] | None:
        """The place in the request's cursor, if it has one."""
        cursor = self.query.cursor
        if cursor is None:
            return None
        place = read_cursor(cursor, kinds)
        if place is None:
            hint = "Send `next_cursor` of the page before as it is, or begin without a cursor."
            raise Problem(400, "bad_cursor", "This cursor is not one of ours.", hint)
        return place


Handler = Callable[[Asked], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation. Its name, summary and description are those of its function."""

    method: str
    path: str
    run: Handler
    answer: type[BaseModel] | None
    query: type[Input] = NoInput
    body: type[Input] | None = None
    roles: tuple[Role, ...] = ()
    statuses: tuple[int, ...] = (200,)
    # The media type of an operation without a described answer.
    media_type: str = "text/event-stream"
    # Whether also those may ask who have no role at all.
    for_all: bool = False

    @property
    def name(self) -> str:
        """The name of the operation."""
        return str(getattr(self.run, "__name__", "operation"))


def operation(
    method: str,
    path: str,
    answer: type[BaseModel] | None,
    *,
    query: type[Input] = NoInput,
    body: type[Input] | None = None,
    roles: Sequence[Role] = (),
    statuses: Sequence[int] = (200,),
    media_type: str = "text/event-stream",
    for_all: bool = False,
) -> Callable[[Handler], ApiOperation]:
    """Make an operation of a function."""
    given = tuple(roles), tuple(statuses), media_type, for_all

    def make(run: Handler) -> ApiOperation:
        return ApiOperation(method, path, run, answer, query, body, *given)

    return make


class ApiPath:
    """All operations of one path, as an ASGI application."""

    def __init__(self, api: ApiBox, operations: Mapping[str, ApiOperation]) -> None:
        self._api = api
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer: ASGIApp
        try:
            answer = await self._answer(Request(scope, receive))
        except Problem as problem:
            answer = write_answer(problem.answer, problem.status, problem.headers)
        except Exception:
            _log.exception("A request to %s failed", scope["path"])
            broken = Problem(500, "internal", "The server failed.", "Its log says why.")
            answer = write_answer(broken.answer, 500)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        operation = self._operations.get(request.method)
        if operation is None:
            known = ", ".join(self._operations)
            hint = f"This path knows {known}."
            raise Problem(405, "wrong_method", "Not this method.", hint, headers={"allow": known})
        asked = Asked(self._api, request)
        needed = operation.roles or _ANY_ROLE
        allowed = asked.reads_as if operation.method == "GET" else asked.has_role
        if not operation.for_all and not allowed(*needed):
            raise unknown_person() if asked.identity is None else forbidden(" or ".join(needed))
        asked.query = _read_query(request, operation.query)
        if operation.body is not None:
            asked.body = await _read_body(request, operation.body)
        try:
            found = await operation.run(asked)
        except WieldyError as error:
            problem = find_problem(error)
            if problem is None:
                raise
            raise problem from error
        if operation.answer is None:
            made: ASGIApp = found
            return made
        status, body = found if isinstance(found, tuple) else (operation.statuses[0], found)
        # An answer may be large, and others must not wait for it.
        return await asyncio.to_thread(write_answer, body, status)


async def refuse_path(request: Request) -> Response:
    """Answer a request for a path that does not exist."""
    return write_answer(not_found("path", "GET /api/openapi.json").answer, 404)


def write_answer(
    body: BaseModel | Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """The JSON answer with this body."""
    more = {**ANSWER_HEADERS, **(headers or {})}
    return Response(dump_answer(body), status, more, "application/json")


def _read_query(request: Request, model: type[Input]) -> Input:
    pairs = request.query_params.multi_items()
    if len({name for name, _ in pairs}) < len(pairs):
        raise Problem(400, "repeated", "A parameter is there twice.", "Send each of them once.")
    try:
        return model.model_validate(dict(pairs))
    except ValidationError as error:
        raise _invalid_request("query", error) from error


async def _read_body(request: Request, model: type[Input]) -> Input:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        hint = "Send JSON, with the header `Content-Type: application/json`."
        raise Problem(415, "not_json", "The body must be JSON.", hint)
    body = await request.body()
    return await run_off_loop(is_long_json(body), lambda: _parse_body(body, model))


def _parse_body(body: bytes, model: type[Input]) -> Input:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        if any(fault["type"] == "json_invalid" for fault in _list_faults(error)):
            hint = "Send one JSON object, encoded as UTF-8."
            raise Problem(400, "invalid_json", "The body is no JSON.", hint) from error
        raise _invalid_request("body", error) from error


def _list_faults(error: ValidationError) -> list[Any]:
    """What does not fit, without what was sent, which may be large."""
    return [*error.errors(include_url=False, include_context=False, include_input=False)]


def _invalid_request(where: str, error: ValidationError) -> Problem:
    faults = [
        {"field": ".".join(map(str, fault["loc"]))[:200], "message": fault["msg"][:500]}
        for fault in _list_faults(error)
    ]
    said = "; ".join(f"{fault['field'] or where}: {fault['message']}" for fault in faults[:3])
    hint = "GET /api/openapi.json describes what is expected."
    details = {"where": where, "fields": faults[:_MAX_FAULTS]}
    return Problem(422, "invalid_request", f"The {where} does not fit. {said}", hint, details)
