"""Close connections that stay open and send no request."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_SECONDS = 30.0


class Patient(H11Protocol):
    """Uvicorn's connection, closed when no request has begun on it for a while.

    Uvicorn itself waits forever for the rest of a request's headers.
    """

    _last: RequestResponseCycle | None = None
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
        if cycle is self._last and (cycle is None or cycle.response_complete):
            self.transport.close()
            return
        self._last = cycle
        self._look = self.loop.call_later(self.seconds, self._check_idle)
