"""Sign in by a link that works once, and out again: the session is a cookie of the browser."""

from collections.abc import Awaitable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wieldy.core.bounded_json import parse_json
from wieldy.core.errors import StoreError
from wieldy.mcp.serving.cookie_sessions import (
    comes_from_same_origin,
    name_cookie,
    read_session_key,
)
from wieldy.mcp.serving.http_guard import peer_address
from wieldy.mcp.serving.wrong_tokens import WrongTokens
from wieldy.server.api.api_operations import write_answer
from wieldy.server.api.api_problems import Problem
from wieldy.store.access.sign_ins import SESSION_SECONDS

from .console_routes import HEADERS
from .terminal_sign_ins import BegunSession, LinkTaker

_HEADERS = {**HEADERS, "cache-control": "no-store"}
_MAX_KEY = 200
_ASK = "Ask whoever runs the gateway for another one."


class SignInDesk:
    """Begins and ends the sessions of browsers."""

    def __init__(self, sign_ins: Sequence[LinkTaker], wrong_links: WrongTokens) -> None:
        self._sign_ins = sign_ins
        self._wrong_links = wrong_links
        self.routes = [
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
        ]

    async def _sign_in(self, request: Request) -> Response:
        return await _answer_safely(self._begin_session(request))

    async def _sign_out(self, request: Request) -> Response:
        return await _answer_safely(self._end_session(request))

    async def _begin_session(self, request: Request) -> Response:
        _check_origin(request)
        if not self._sign_ins:
            hint = "Serve a toolbox with a store, or start the server at a terminal."
            raise Problem(409, "no_sign_in", "Nobody signs in here by a link.", hint)
        key, peer = await _read_key(request), peer_address(request.scope)
        refused = self._wrong_links.refuse(peer, key)
        if refused is not None:
            raise Problem(429, "too_many_tries", refused.message, _ASK)
        begun = await self._use_link(key)
        if begun is None:
            self._wrong_links.note_wrong(peer, key)
            raise Problem(403, "bad_link", "The link was used, or no longer works.", _ASK)
        # The session that this browser had before ends.
        await self._end_current(request)
        told = {"name": begun.token.name, "roles": sorted(begun.token.roles)}
        answer = write_answer(told, 200, _HEADERS)
        _set_cookie(answer, request, begun.key, int(SESSION_SECONDS))
        return answer

    async def _use_link(self, key: str) -> BegunSession | None:
        for each in self._sign_ins:
            begun = await each.use_link(key)
            if begun is not None:
                return begun
        return None

    async def _end_session(self, request: Request) -> Response:
        _check_origin(request)
        await self._end_current(request)
        answer = write_answer({}, 200, _HEADERS)
        _set_cookie(answer, request, "", 0)
        return answer

    async def _end_current(self, request: Request) -> None:
        key = read_session_key(request.scope["headers"])
        if key is not None:
            for each in self._sign_ins:
                await each.end_session(key)


async def _answer_safely(work: Awaitable[Response]) -> Response:
    """The answer, or what is wrong in the form of the API."""
    try:
        return await work
    except Problem as problem:
        return write_answer(problem.answer, problem.status, _HEADERS)
    except StoreError:
        hint = "Try again in a moment."
        told = Problem(503, "store_unavailable", "The store does not answer.", hint)
        return write_answer(told.answer, 503, _HEADERS)


def _check_origin(request: Request) -> None:
    """Refuse what a page of somebody else sends: it could sign a person in as another."""
    if not comes_from_same_origin(request.scope["headers"]):
        hint = "Open the link in a browser."
        raise Problem(403, "not_from_there", "Only the gateway's own page signs in or out.", hint)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        hint = "Send JSON, with the header `Content-Type: application/json`."
        raise Problem(415, "not_json", "The body must be JSON.", hint)


async def _read_key(request: Request) -> str:
    try:
        sent: Any = parse_json(await request.body())
    except ValueError:
        sent = None
    key = sent.get("key") if isinstance(sent, dict) else None
    if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY:
        raise Problem(422, "invalid_request", "A link has a key after its #.", _ASK)
    return key


def _set_cookie(answer: Response, request: Request, value: str, seconds: int) -> None:
    secure = request.url.scheme == "https"
    answer.set_cookie(
        name_cookie(request.scope["headers"], secure),
        value,
        max_age=seconds,
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
