"""Report whether the server is alive, and whether it is ready for calls."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from wieldy.core.choices import Role
from wieldy.core.errors import WieldyError
from wieldy.core.task import time_limit

from .access import Access
from .callers import current_identity, may_do
from .http_guard import peer_address
from .server import BoxServer

if TYPE_CHECKING:
    from wieldy.store.ledger import Ledger

_SECONDS = 5.0
_FRESH = 1.0
_SEE_ALL: tuple[Role, ...] = ("approve", "administer")


class Health:
    """Alive while it answers; ready while it has started, takes calls and reaches its store."""

    def __init__(
        self, server: BoxServer, access: Access, started: Callable[[], bool] | None = None
    ) -> None:
        self._server = server
        self._started = started or (lambda: True)
        self._access = access
        self._store: tuple[float, bool] = (-_FRESH, True)

    @property
    def routes(self) -> list[Route]:
        """The routes `/ready` and `/health` for readiness, and `/health/live` for liveness."""
        return [
            Route("/ready", self._answer_ready),
            Route("/health", self._answer_ready),
            Route("/health/live", self._answer_live),
        ]

    async def _answer_live(self, request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def _answer_ready(self, request: Request) -> JSONResponse:
        store = await self._store_ok()
        upstreams = upstream_health(self._server.box)
        closing = self._server.traffic.closing
        starting = not self._started()
        ready = store and not closing and not starting
        # If one upstream server is gone, its tools are missing, but all others still work.
        served = "ok" if all(upstreams.values()) else "degraded"
        facts: dict[str, Any] = {"status": served if ready else "unavailable"}
        if self._is_known(request):
            facts |= {
                "draining": closing,
                "starting": starting,
                "store": _store_word(self._server.box, store),
            }
            if _sees_others():
                facts |= {"running": self._server.traffic.running, "upstreams": upstreams}
        return JSONResponse(facts, 200 if ready else 503)

    def _is_known(self, request: Request) -> bool:
        """Whether whoever asks could also call."""
        scope = request.scope
        if self._access.refusal(scope["headers"], peer_address(scope)) is not None:
            return False
        return current_identity() is not None or not self._access.uses_tokens

    async def _store_ok(self) -> bool:
        """Whether the store answers; it is checked at most once a second."""
        at, ok = self._store
        if time.monotonic() - at < _FRESH:
            return ok
        ok = await _is_store_reachable(self._server.box)
        self._store = time.monotonic(), ok
        return ok


def _sees_others() -> bool:
    """Whether whoever asks may know of all servers behind, and of the calls of others."""
    return current_identity() is None or any(map(may_do, _SEE_ALL))


def _store_word(box: object, ok: bool) -> str:
    if not _is_recorded(box):
        return "none"
    return "ok" if ok else "unreachable"


async def _is_store_reachable(box: object) -> bool:
    ledger: Ledger | None = getattr(box, "ledger", None) if _is_recorded(box) else None
    if ledger is None:
        return True
    try:
        async with time_limit(_SECONDS):
            await ledger.list(limit=1)
    except (WieldyError, TimeoutError, OSError):
        return False
    return True


def _is_recorded(box: object) -> bool:
    return bool(getattr(box, "recorded", False))


def upstream_health(box: object) -> dict[str, bool]:
    """Whether each MCP server that the box's tools come from is connected."""
    servers = getattr(box, "mcp", None)
    if not isinstance(servers, Mapping):
        return {}
    return {str(name): server.error is None for name, server in servers.items()}
