"""End an answer that lasts when its receiver loses their token, their session or a role."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .callers import IdentifiedUser, Identity, has_expired
from .refusals import Refusal

# A lost permission is noticed within this time if nothing is sent. Otherwise it is noticed before
# something is sent, if the last look is a second or more ago.
LOOK_SECONDS = 2.0
_FRESH_SECONDS = 1.0
_log = logging.getLogger("wieldy.server")
_UNKNOWN = Refusal(503, "The caller can't be looked up now. Try again.")
_CHANGED = Refusal(503, "The roles or the view of the caller have changed. Try again.")
MakeRefusal = Callable[[Refusal], ASGIApp]


class HeldAnswer:
    """One answer to somebody who is known, for as long as they are who they were.

    An event stream ends at once, and an answer that has not begun becomes a refusal. The
    application is told that its client has left. An answer of a known length that has begun is
    sent to its end.

    Args:
        scope: The request.
        user: Who sent it.
        refuse: Makes the answer that tells why a request is refused.
    """

    def __init__(self, scope: Scope, user: IdentifiedUser, refuse: MakeRefusal) -> None:
        self._scope = scope
        self._asked_by = user.who
        self._look = user.look
        self._refuse = refuse
        self._looked_at = time.monotonic()
        self._begun = self._streams = self._body_taken = False
        self._over = asyncio.Event()
        self._one_at_once = asyncio.Lock()

    async def run(self, app: ASGIApp, receive: Receive, send: Send) -> None:
        """Have an application answer, and look who is answered while it does."""
        watching = asyncio.create_task(self._watch(send))

        async def receive_or_leave() -> Message:
            return await self._receive(receive)

        async def send_if_known(message: Message) -> None:
            await self._send(message, send)

        try:
            await app(self._scope, receive_or_leave, send_if_known)
        finally:
            watching.cancel()
            await asyncio.wait((watching,))

    async def _watch(self, send: Send) -> None:
        while not self._over.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            async with self._one_at_once:
                await self._check(send)

    async def _receive(self, receive: Receive) -> Message:
        if not self._body_taken:
            # The guard has read the body, so that nobody waits for it.
            self._body_taken = True
            return await receive()
        waiting: list[asyncio.Task[Any]] = [
            asyncio.ensure_future(each) for each in (receive(), self._over.wait())
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            over = self._over.is_set() or not waiting[0].done()
            return {"type": "http.disconnect"} if over else waiting[0].result()
        finally:
            for each in waiting:
                each.cancel()

    async def _send(self, message: Message, send: Send) -> None:
        async with self._one_at_once:
            if time.monotonic() - self._looked_at >= _FRESH_SECONDS:
                await self._check(send)
            if self._over.is_set():
                return
            if message["type"] == "http.response.start":
                self._begun, self._streams = True, _is_stream(message)
            await send(message)

    async def _check(self, send: Send) -> None:
        """Look who is answered, and end the answer if it is not for them any more."""
        if self._over.is_set() or (self._begun and not self._streams):
            return
        refused = self._find_refusal(await self._look_safely())
        self._looked_at = time.monotonic()
        if refused is None:
            return
        self._over.set()
        # The client may have left already.
        with suppress(OSError):
            await self._end(refused, send)

    async def _look_safely(self) -> Identity | Refusal | None:
        try:
            return await self._look()
        except Exception:
            # Nobody goes on being answered whose token can't be checked.
            _log.exception("A caller could not be looked up again")
            return _UNKNOWN

    async def _end(self, refused: Refusal, send: Send) -> None:
        if self._begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await self._refuse(refused)(self._scope, _receive_nothing, send)

    def _find_refusal(self, now: Identity | Refusal | None) -> Refusal | None:
        before = self._asked_by
        if isinstance(now, Refusal):
            return None if self._has_expired_only() else now
        if now is None or (now.name, now.view) != (before.name, before.view):
            return _CHANGED
        # A caller with more roles than before may still have the answer. A stream that has begun
        # ends, because it would show them more if they opened it again.
        same = now.roles == before.roles or (not self._begun and now.roles > before.roles)
        return None if same else _CHANGED

    def _has_expired_only(self) -> bool:
        """Whether this is the answer to a call whose OAuth token was good when it came.

        Clients renew such a token and would send the call again, so that it would run twice.
        A stream that only listens ends with its token.
        """
        listens = (b"mcp-method", b"subscriptions/listen") in self._scope["headers"]
        return self._scope["method"] == "POST" and not listens and has_expired(self._asked_by)


def _is_stream(start: Message) -> bool:
    kinds = [value for name, value in start.get("headers", ()) if name.lower() == b"content-type"]
    return any(kind.startswith(b"text/event-stream") for kind in kinds)


async def _receive_nothing() -> Message:
    return {"type": "http.disconnect"}
