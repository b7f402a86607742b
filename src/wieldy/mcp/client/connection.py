"""Keep the connection to one server, shared by all callers and reopened when it is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol, TypeVar

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from wieldy.core.errors import RemoteFailure, ServerUnavailable
from wieldy.core.task import time_limit

from .change_streams import Change, ChangeStreams
from .live_session import STREAM_ENDED, LiveSession, current_server, log_in_one_line
from .patience import Patience
from .request_extras import AnswerLost, RequestExtras, current_errand
from .tool_listing import MAX_PAGES, Listing, read_listing
from .transports import Opening, Way, is_vague, reason_of

T = TypeVar("T")
_PAUSES = (0.0, 0.2, 1.0)
_FIRST_REST, _MAX_REST = 1.0, 30.0
_CLOSE_SECONDS = 15.0
# By then a server process has been ended; a server behind a URL that hangs is abandoned.
_LEAVE_SECONDS = 9.0
_log = logging.getLogger("wieldy.mcp")


class ConnectionOwner(Protocol):
    """The owner of a connection."""

    name: str

    def listed(self, client: Client, listing: Listing) -> None:
        """Receive the tools that the server lists."""

    def changed(self, change: Change, uri: str | None) -> None:
        """Receive a change of what the server offers besides tools."""

    def renewed(self) -> None:
        """Receive that a new session has begun, of a server that may offer other things."""


class _NotOpened(Exception):
    """A session could not be opened in one way; `cause` decides whether another way is tried."""

    def __init__(self, reason: str, cause: BaseException) -> None:
        super().__init__(reason)
        self.cause = cause


class Connection:
    """A connection whose methods all run on one loop; one task enters and leaves each session.

    A lost session is reopened when the next request needs it, once for all waiting callers.
    If that fails, requests in the next moments fail at once.
    """

    def __init__(
        self,
        server: ConnectionOwner,
        opening: Opening,
        patience: Patience,
        lists_tools: bool = True,
    ) -> None:
        log_in_one_line()
        self.failure: ServerUnavailable | None = None
        self._server = server
        self._opening = opening
        self._patience = patience
        # Whether the owner wants the server's tools.
        self._lists_tools = lists_tools
        self._link: LiveSession | None = None
        self._owner: asyncio.Task[None] | None = None
        self._remaking: asyncio.Task[LiveSession] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._under_way: set[RequestExtras] = set()
        self.changes = ChangeStreams(lambda: server.name, self._hear_change)
        self._stale = False
        self._closed = False
        self._rest = _FIRST_REST
        self._rests_until = 0.0

    async def open(self) -> LiveSession:
        """Open the first session; raises if the server can't be reached at once."""
        self._link = await self._open_session()
        return self._link

    async def ask(
        self, send: Callable[[Client], Awaitable[T]], errand: RequestExtras, safe: bool = True
    ) -> T:
        """Send a request, and send it again on a new session if the first session was lost.

        It is sent again only if `safe` says that it may run twice, or if it certainly did not
        run.
        """
        current_errand.set(errand)
        current_server.set(self._server.name)
        for last in (False, True):
            link = await self._current_session()
            errand.sent = errand.turned_away = False
            self._under_way.add(errand)
            try:
                return await link.ask(send)
            except MCPError as error:
                if not self._has_lost(link, errand, error):
                    raise _remote_failure(error, errand) from error
            except ValidationError as error:
                raise RemoteFailure(f"its answer can't be read: {_first_line(error)}") from error
            finally:
                self._under_way.discard(errand)
            if last or not (safe or errand.surely_did_not_run):
                raise await self._unanswered_error(link, errand)
        raise AssertionError("the second time is the last")

    async def renew(self) -> None:
        """Open a new session at once; requests that run on the old one may still end."""
        self._rests_until, self._rest = 0.0, _FIRST_REST
        if self._link is not None:
            self._link.retire("it was connected again")
        await self._current_session()

    @property
    def is_lost(self) -> bool:
        """Whether the session has ended, and no other one is open yet."""
        return not self._closed and (self._link is None or self._link.lost is not None)

    async def revive(self) -> None:
        """Open another session, if the last one has ended."""
        await self._current_session()

    def told(self, message: Any) -> None:
        """Receive a notification from the server."""
        if isinstance(message, types.LoggingMessageNotification):
            self._pass_on(message.params)
        else:
            self.changes.hear(message)

    def _hear_change(self, change: Change, uri: str | None) -> None:
        if change == "tools":
            if self._lists_tools:
                self._refresh_soon()
        else:
            self._server.changed(change, uri)

    def _pass_on(self, said: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message of the server to the call that it belongs to, if that is known."""
        errand = self.find_errand()
        if errand is not None and errand.hear is not None:
            errand.hear(said)

    def find_errand(self) -> RequestExtras | None:
        """The request that a message of the server belongs to, if that is known.

        A message on the stream of one answer belongs to that request. A message on a shared
        stream names no request. It goes to the running request if there is only one. If there
        are several it goes to none, because their callers must not see each other's messages.
        """
        under_way = self._under_way
        # A shared stream is read in the context in which it was opened, which is no request's.
        own = [each for each in under_way if each is current_errand.get()]
        about = own or (list(under_way) if len(under_way) == 1 else [])
        return about[0] if about else None

    @property
    def busy(self) -> bool:
        """Whether a request runs or waits for a session, or somebody follows a resource."""
        opening = self._remaking is not None and not self._remaking.done()
        return bool(self._under_way) or opening or self.changes.has_followers

    def doubt(self) -> None:
        """Note that a caller gave up waiting for an answer."""
        if self._link is not None:
            self._link.doubt()

    def forget(self) -> None:
        """Drop everything in a forked child, because the loop and session belong to the parent."""
        self._link = self._owner = self._remaking = self._refreshing = None

    async def close(self) -> None:
        """End the session; waiting requests fail with an error that says so."""
        self._closed = True
        for task in (self._remaking, self._refreshing):
            if task is not None:
                task.cancel()
        if self._link is not None:
            self._link.close()
        if self._owner is not None:
            await asyncio.wait((self._owner,), timeout=_CLOSE_SECONDS)
            if not self._owner.done():
                self._owner.cancel()
                await asyncio.wait((self._owner,), timeout=_CLOSE_SECONDS)
        self._opening.close()

    async def _current_session(self) -> LiveSession:
        """The session to use now: the existing one, or a new one for all waiting callers."""
        if self._closed:
            raise self._unavailable_error("it was closed")
        link = self._link
        if link is not None and await link.sure():
            return link
        if self.failure is not None and asyncio.get_running_loop().time() < self._rests_until:
            raise ServerUnavailable(self._server.name, self.failure.reason, self.failure.stderr)
        if self._remaking is None or self._remaking.done():
            self._remaking = _start_task(self._remake_session())
            # If every waiting caller has left, the exception still has to be retrieved.
            self._remaking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._remaking)

    async def _remake_session(self) -> LiveSession:
        if self._link is not None:
            # A server must not run twice at once, because it may hold a port or a lock.
            await self._link.why()
            self._link.close()
        try:
            self._link = await self._try_opening()
        except ServerUnavailable as error:
            self.failure = error
            self._rests_until = asyncio.get_running_loop().time() + self._rest
            self._rest = min(self._rest * 2, _MAX_REST)
            raise
        self.failure, self._rest = None, _FIRST_REST
        return self._link

    async def _try_opening(self) -> LiveSession:
        *pauses, final = _PAUSES
        for pause in pauses:
            await asyncio.sleep(pause)
            try:
                return await self._open_session()
            except ServerUnavailable as error:
                _log.info("Reconnecting: %s", error)
        await asyncio.sleep(final)
        return await self._open_session()

    async def _open_session(self) -> LiveSession:
        """Open a session by the first way that works, and read the tools through it."""
        for way in self._opening.ways:
            errand = RequestExtras()
            ready: asyncio.Future[LiveSession] = asyncio.get_running_loop().create_future()
            self._owner = _start_task(self._own_session(way, errand, ready))
            try:
                link = await asyncio.shield(ready)
            except asyncio.CancelledError:
                self._owner.cancel()
                raise
            except _NotOpened as error:
                failure = error
                if not self._opening.goes_on(error.cause, errand):
                    break
            else:
                self._opening.worked(way, link)
                return link
        raise self._unavailable_error(_told_status(str(failure), errand)) from failure.cause

    async def _own_session(
        self, way: Way, errand: RequestExtras, ready: "asyncio.Future[LiveSession]"
    ) -> None:
        """Enter one session, keep it open, and leave it."""
        current_errand.set(errand)
        current_server.set(self._server.name)
        link = LiveSession(self._patience.sign_of_life)
        try:
            async with (
                time_limit(self._opening.seconds) as patience,
                self._opening.session(way, link),
            ):
                if self._lists_tools:
                    self._server.listed(link.client, await read_listing(link.client))
                self._server.renewed()
                patience.reschedule(None)
                current_errand.set(None)
                listening = _start_task(self.changes.listen(link))
                ready.set_result(link)
                await link.over()
                listening.cancel()
                patience.reschedule(asyncio.get_running_loop().time() + _LEAVE_SECONDS)
        except BaseException as error:
            self._note_left(ready, link, error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            link.gone.set()

    def _note_left(
        self, ready: "asyncio.Future[LiveSession]", link: LiveSession, error: BaseException
    ) -> None:
        """Report why a session could not be opened, or record why it ended."""
        if not ready.done():
            # A vague error says less than the reason that the link has recorded.
            ended = is_vague(error) and link.lost is not None
            ready.set_exception(_NotOpened(link.lost or "" if ended else reason_of(error), error))
            # The waiting task may be gone; retrieving the exception avoids a warning.
            ready.exception()
        elif link.lost in (None, STREAM_ENDED):
            link.lost = reason_of(error)

    def _refresh_soon(self) -> None:
        self._stale = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = _start_task(self._refresh_tools())

    async def _refresh_tools(self) -> None:
        while self._stale and self._link is not None and self._link.lost is None:
            self._stale = False
            try:
                async with time_limit(self._patience.connect):
                    client = self._link.client
                    self._server.listed(client, await read_listing(client))
            except Exception as error:
                _log.warning(
                    "The tools of %s can't be read anew: %s", self._server.name, reason_of(error)
                )

    def _has_lost(self, link: LiveSession, errand: RequestExtras, error: MCPError) -> bool:
        """Whether an error means that no answer will arrive, as opposed to being the answer."""
        if errand.turned_away:
            link.retire("its session had ended")
        if link.lost is not None:
            return True
        # The transport raises this when the stream of one answer breaks off.
        return error.code == types.CONNECTION_CLOSED and error.message.startswith("SSE stream")

    async def _unanswered_error(self, link: LiveSession, errand: RequestExtras) -> Exception:
        why = await link.why() if link.lost is not None else "the answer broke off"
        reason = self._opening.cover(why)
        if errand.surely_did_not_run:
            return self._unavailable_error(reason)
        said = self._opening.last_words
        return AnswerLost(f"{reason}; last on stderr: {said}" if said else reason)

    def _unavailable_error(self, reason: str) -> ServerUnavailable:
        garbage, reason = self._opening.garbage, self._opening.cover(reason)
        if garbage:
            reason = f"{reason}; it wrote to stdout what is no message: {garbage!r}"
        return ServerUnavailable(self._server.name, reason, self._opening.last_words)


async def list_all_pages(
    page: Callable[[str | None], Awaitable[Any]], items: Callable[[Any], list[T]]
) -> list[T]:
    """The items of all pages of a list; an endless list is detected and ended."""
    found: list[T] = []
    seen: set[str | None] = {None}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        result = await page(cursor)
        found += items(result)
        cursor = result.next_cursor
        if cursor is None:
            return found
        if cursor in seen:
            raise RemoteFailure("its list never ends: a page names itself as the next")
        seen.add(cursor)
    raise RemoteFailure(f"its list has more than {MAX_PAGES} pages")


def _start_task(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    # An empty context, because a call's context would keep the call and its arguments alive.
    return asyncio.get_running_loop().create_task(work, context=Context())


def _remote_failure(error: MCPError, errand: RequestExtras) -> RemoteFailure:
    return RemoteFailure(_told_status(error.message, errand), code=error.code)


def _told_status(reason: str, errand: RequestExtras) -> str:
    failed = errand.status is not None and errand.status >= 400
    return f"{reason} (HTTP {errand.status})" if failed else reason


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split("\n")[:3])[:300]
