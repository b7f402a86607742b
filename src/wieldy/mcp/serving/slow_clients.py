"""Close connections of clients that stay and send no request, or that stop reading an answer."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_SECONDS = 30.0


class Patient(H11Protocol):
    """Uvicorn's connection, closed when its client does nothing for a while.

    Between two requests Uvicorn closes it, after a longer time. Uvicorn itself waits forever for
    the rest of a request's headers, and forever for a client that does not read, with the whole
    answer in memory.
    """

    _last: RequestResponseCycle | None = None
    _unread = 0
    _look: asyncio.TimerHandle | None = None
    seconds = _SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look = self.loop.call_later(self.seconds, self._check_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _check_idle(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        is_between = self.timeout_keep_alive_task is not None
        if cycle is self._last and not is_between and (cycle is None or cycle.response_complete):
            self.transport.close()
            return
        unread = self.transport.get_write_buffer_size()
        # More may have been written since, but nothing was read. Closing would wait for it.
        if cycle is self._last and 0 < self._unread <= unread:
            self.transport.abort()
            return
        self._last, self._unread = cycle, unread
        self._look = self.loop.call_later(self.seconds, self._check_idle)
