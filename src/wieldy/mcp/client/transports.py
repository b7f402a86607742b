"""Open sessions with a server, trying its possible transports and handshakes in order."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.session import MessageHandlerFnT
from mcp.client.stdio import get_default_environment
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from wieldy.core.errors import InvalidSource, WieldyError, describe_exception
from wieldy.core.secrets.credential import preset_secrets
from wieldy.core.secrets.secret import Secret, redact_text, reveal_secret
from wieldy.core.short_text import cut_text, first_line

from .config import show_filled
from .http_transports import open_address
from .live_session import ENDED, PROCESS_ENDED, LiveSession, WatchedStream
from .oauth import SIGN_IN_SECONDS, to_auth
from .patience import Patience
from .remote_tasks import TaskExtension
from .request_extras import RequestExtras
from .server_requests import RequestAnswers
from .server_source import Address, Command, Inside, Source
from .server_stderr import ErrorLog

# The statuses with which a server that supports only the older transport answers the newer.
_OTHER_TRANSPORT = (400, 404, 405, 406, 415)
_LOST_GRACE = 0.2
_LINES, _CHARACTERS = 10, 2000
_TRIM_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Way:
    """A transport, and whether the handshake uses the newest protocol or the older one."""

    transport: str
    mode: str = "auto"


class Opening:
    """Opens sessions with one server, and remembers the way that worked.

    `secrets` are the secret strings that the server was given.
    """

    def __init__(
        self,
        source: Source,
        patience: Patience,
        answers: RequestAnswers,
        told: MessageHandlerFnT,
    ) -> None:
        if isinstance(source, Command) and sys.platform == "win32":
            raise InvalidSource(source.guess, "servers can't be started on Windows; use a URL")
        self.source = source
        self._log = ErrorLog() if isinstance(source, Command) else None
        self.secrets = () if isinstance(source, Inside) else _source_secrets(source)
        self._filled = {} if isinstance(source, Inside) else source.filled
        self._garbage: Sequence[str] = ()
        self._patience = patience
        self._answers = answers
        self._told = told
        self._auth = to_auth(source.auth, source.url) if isinstance(source, Address) else None
        self._ways = _list_ways(source)

    @asynccontextmanager
    async def session(self, way: Way, link: LiveSession) -> AsyncIterator[None]:
        """A session for a link; one task enters and leaves it."""
        try:
            async with Client(
                self._open_target(way, link),
                mode=way.mode,
                message_handler=self._told,
                elicitation_callback=self._answers.elicit,
                sampling_callback=self._answers.sample if self._answers.samples else None,
                client_info=types.Implementation(name="wieldy", version=_package_version()),
                extensions=[TaskExtension(self._answers)],
                cache=None,
            ) as client:
                # The engine checks results and keeps them; the SDK's own check would raise.
                client.session.validate_tool_result = _take_as_it_is  # type: ignore[method-assign]
                link.begin(client)
                yield
        finally:
            link.stop()
            link.lose("it was closed")

    def cover(self, text: str) -> str:
        """A text for errors and logs: variables by their names, and other secrets masked."""
        return redact_text(show_filled(text, self._filled), self.secrets)

    @property
    def stderr(self) -> str:
        """The end of the server's stderr, with secrets masked."""
        return "" if self._log is None else self.cover(self._log.text())

    @property
    def last_words(self) -> str:
        """The last lines on stderr of the process that was started last, for an error message."""
        said = "" if self._log is None else self.cover(self._log.text(of_last=True))
        return "\n".join(said.rstrip().splitlines()[-_LINES:])[-_CHARACTERS:]

    @property
    def garbage(self) -> str:
        """The last output on the server's stdout that was not a message."""
        return self.cover(self._garbage[-1]) if self._garbage else ""

    def close(self) -> None:
        """Release what is kept across sessions."""
        if self._log is not None:
            self._log.close()

    @property
    def seconds(self) -> float:
        """The timeout for opening a session, which is longer if a person has to sign in."""
        signs_in = isinstance(self._auth, OAuthClientProvider)
        return self._patience.connect + (SIGN_IN_SECONDS if signs_in else 0)

    @property
    def ways(self) -> list[Way]:
        """The ways to try, best first."""
        return self._ways

    def worked(self, way: Way, link: LiveSession) -> None:
        """Use only the way that worked from now on."""
        self._ways = [way if link.modern else replace(way, mode="legacy")]

    def goes_on(self, error: BaseException, errand: RequestExtras) -> bool:
        """Whether another way may work after this error."""
        if isinstance(self.source, Address):
            return errand.status in _OTHER_TRANSPORT
        return not isinstance(error, TimeoutError | InvalidSource)

    def _open_target(self, way: Way, link: LiveSession) -> Any:
        source = self.source
        if isinstance(source, Inside):
            return source.server
        return self._open_streams(source, way, link)

    @asynccontextmanager
    async def _open_streams(
        self, source: Source, way: Way, link: LiveSession
    ) -> AsyncIterator[Any]:
        if isinstance(source, Address):
            most = self._patience.max_message
            opened = open_address(source, way.transport, self._auth, link.lose, most)
            async with opened as streams:
                yield WatchedStream(streams[0], link), streams[1]
        elif isinstance(source, Command):
            async with self._open_process(source, link) as streams:
                yield WatchedStream(streams[0], link), streams[1]

    @asynccontextmanager
    async def _open_process(self, source: Command, link: LiveSession) -> AsyncIterator[Any]:
        # Pipes and process groups need POSIX; a server behind a URL needs neither.
        from .process_pipe import Incoming, Outgoing  # noqa: PLC0415
        from .server_process import Process  # noqa: PLC0415

        assert self._log is not None
        env = get_default_environment() | {k: str(reveal_secret(v)) for k, v in source.env.items()}
        self._log.begin()
        process = Process(source.command, env, source.cwd, self._log.fd)
        incoming = Incoming(process.stdout, link.lose, self._patience.max_message)
        outgoing = Outgoing(process.stdin, link.lose)
        self._garbage = incoming.garbage
        chores = [
            asyncio.create_task(_tell_end(process.ended, link)),
            asyncio.create_task(_trim_log(self._log)),
        ]
        try:
            yield incoming, outgoing
        finally:
            for chore in chores:
                chore.cancel()
            incoming.close()
            outgoing.close()
            grace = self._patience.close if link.polite else _LOST_GRACE
            await asyncio.shield(process.stop(grace))
            if link.lost in ENDED and process.exit_code is not None:
                link.lost = _describe_exit(process.exit_code)


async def _tell_end(ended: asyncio.Event, link: LiveSession) -> None:
    await ended.wait()
    link.lose(PROCESS_ENDED)


async def _trim_log(log: ErrorLog) -> None:
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        log.trim()


def _source_secrets(source: Command | Address) -> tuple[str, ...]:
    if isinstance(source, Address) and isinstance(source.auth, str):
        source = replace(source, auth=Secret(source.auth))
    # What is shown in place of a variable is no secret, whatever the variable holds.
    return tuple(preset_secrets(replace(source, filled={})))


def _list_ways(source: Source) -> list[Way]:
    if isinstance(source, Inside):
        return [Way("memory")]
    if isinstance(source, Command):
        # Some older servers crash on a request that they don't know.
        return [Way("stdio"), Way("stdio", "legacy")]
    return [Way(source.transport)] if source.transport else [Way("http"), Way("sse")]


def _describe_exit(code: int) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"exited with status {code}"
    return f"its process {how}"


def reason_of(error: BaseException) -> str:
    """The most informative error, in one or two lines."""
    leaves = list(_error_leaves(error))
    ranked = sorted(leaves, key=_rank_vagueness)
    best = ranked[0] if ranked else error
    if isinstance(best, TimeoutError) and not str(best):
        return "it did not answer in time"
    if isinstance(best, MCPError):
        return best.message
    if isinstance(best, WieldyError):
        return str(best)
    if isinstance(best, ValidationError):
        first = best.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return f"its answer can't be read: {place}: {first['msg']}"[:500]
    return cut_text(first_line(describe_exception(best)), 500)


def is_vague(error: BaseException) -> bool:
    """Whether the error says only that the connection ended."""
    return all(_rank_vagueness(leaf) >= 2 for leaf in _error_leaves(error))


def _rank_vagueness(error: BaseException) -> int:
    if isinstance(error, httpx2.HTTPError | OSError):
        return 0
    if isinstance(error, asyncio.CancelledError):
        return 3
    closed = isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED
    return 2 if closed else 1


def _error_leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _error_leaves(inner)]
    return [error]


def _package_version() -> str:
    # Read when first needed, to keep it off the import path.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("wieldy")
    except PackageNotFoundError:
        return "0"


async def _take_as_it_is(name: str, result: types.CallToolResult) -> None:
    """Accept every result, in place of the SDK's own check."""
