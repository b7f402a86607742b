"""Check every request to the web application: its sender, and the size of its body."""

from math import ceil

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.authentication import AuthCredentials
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wieldy.core.bounded_json import dump_json
from wieldy.core.task import time_limit

from .access import Access
from .body_values import MAX_VALUES, has_more_values, too_many_values
from .callers import IdentifiedUser, Identity
from .held_answers import HeldAnswer
from .refusals import Refusal
from .wrong_tokens import WINDOW_SECONDS

MAX_BODY = 4 * 1024 * 1024
_UPLOAD_SECONDS = 30.0
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
# Requests to sign in and out are answered in the form of the API.
_SIGNING = frozenset(("/sign-in", "/sign-out"))
# The API's form of each refusal: a code that stays the same, and the next step.
_CODES = {
    400: ("two_lengths", "Send a body with one of these headers."),
    401: ("no_token", "Send `Authorization: Bearer TOKEN`; whoever runs the server has tokens."),
    403: ("not_from_there", "Call from an address and an origin that the server expects."),
    408: ("too_slow", "Send the body faster."),
    413: ("too_large", "Send less."),
    421: ("wrong_host", "Call the server by a name that it expects."),
    429: ("too_many_tries", "Look for the right token, and try again later."),
    503: ("try_again", "Try again in a moment."),
}


class Guard:
    """Accepts a request if its host, origin and token are right and its body is small enough.

    A body is small by its bytes, and by the values in it if it is JSON.

    Everybody may ask about the health of the server; without a token they are told less.
    The other open paths of `access` decide themselves whom they answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        max_body: int = MAX_BODY,
        max_values: int | None = MAX_VALUES,
    ) -> None:
        self._app = AuthContextMiddleware(app)
        self._access = access
        self._max_body = max_body
        self._max_values = max_values

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with the reason why it is refused."""
        refused = None if scope["type"] == "lifespan" else _find_bad_length(scope)
        if refused is None and scope["type"] != "lifespan":
            refused = await self._admit(scope)
        if refused is None and scope["type"] == "http":
            refused, whole = await self._read_body(scope, receive)
            if whole is None:
                # The client left before it had sent everything, and nobody waits for an answer.
                return
            receive = whole
        if refused is None:
            await self._pass_on(scope, receive, send)
        elif scope["type"] == "http":
            await self._refuse(refused, scope)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": refused.message})

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = scope.get("user")
        if scope["type"] != "http" or not isinstance(user, IdentifiedUser):
            await self._app(scope, receive, send)
            return
        held = HeldAnswer(scope, user, lambda refused: self._refuse(refused, scope))
        await held.run(self._app, receive, send)

    async def _identify(self, scope: Scope) -> Identity | Refusal | None:
        method = scope.get("method", "")
        return await self._access.identify(
            scope["headers"], scope["path"], method, peer_address(scope)
        )

    def _refuse(self, refused: Refusal, scope: Scope) -> Response:
        return answer_refusal(refused, self._access.challenge, str(scope["path"]))

    async def _admit(self, scope: Scope) -> Refusal | None:
        headers, path = scope["headers"], scope["path"]
        found = await self._identify(scope)
        if found is not None and not isinstance(found, Refusal):
            user = IdentifiedUser(found, lambda: self._identify(scope))
            scope["user"], scope["auth"] = user, AuthCredentials()
        if path in self._access.open_paths:
            return None
        refused = self._access.refusal(headers, peer_address(scope))
        if refused is None and isinstance(found, Refusal) and not self._access.is_public(path):
            return found
        return refused

    async def _read_body(
        self, scope: Scope, receive: Receive
    ) -> tuple[Refusal | None, Receive | None]:
        """Read the body, within its limits of time and size, for the next application.

        The second part is None if the client has left.
        """
        too_large = Refusal(413, f"The body is larger than {self._max_body} bytes.")
        for name, value in scope["headers"]:
            if name == b"content-length" and (
                not value.isdigit() or len(value) > 18 or int(value) > self._max_body
            ):
                return too_large, receive
        body = bytearray()
        try:
            async with time_limit(_UPLOAD_SECONDS):
                while True:
                    message = await receive()
                    body += message.get("body", b"")
                    if len(body) > self._max_body:
                        return too_large, receive
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            return Refusal(408, "The body took too long."), receive
        if message["type"] == "http.disconnect":
            return None, None
        most = self._max_values
        if most is not None and await has_more_values(body, most):
            return Refusal(413, too_many_values("body", most)), receive
        message = {"type": "http.request", "body": bytes(body), "more_body": False}
        return None, _replay(message, receive)


def _find_bad_length(scope: Scope) -> Refusal | None:
    """Refuse a body with two lengths: a proxy may believe the other one."""
    names = {name for name, _ in scope["headers"]}
    if {b"content-length", b"transfer-encoding"} <= names:
        return Refusal(400, "Content-Length and Transfer-Encoding can't be sent together.")
    return None


def _replay(first: Message, receive: Receive) -> Receive:
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def answer_refusal(refusal: Refusal, challenge: str, path: str = "") -> Response:
    """The response that tells why a request is refused."""
    headers = dict(_HEADERS)
    if refusal.status == 401:
        headers["www-authenticate"] = challenge
    if refusal.status == 429:
        headers["retry-after"] = str(ceil(WINDOW_SECONDS))
    if refusal.status in (400, 408, 413):
        # The rest of the body is not read, or its end is not known.
        headers["connection"] = "close"
    told: object = refusal.message
    if path.startswith("/api/") or path in _SIGNING:
        code, hint = _CODES.get(refusal.status, ("refused", "Look at the settings of the server."))
        told = {"code": code, "message": refusal.message, "hint": hint, "details": {}}
    body = dump_json({"error": told})
    return Response(body, refusal.status, headers, "application/json")


def peer_address(scope: Scope) -> str | None:
    """The address that a request comes from, if it has one."""
    client = scope.get("client")
    return client[0] if client else None
