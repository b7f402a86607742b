"""`/metrics`: who may read it, and the life of what it shows."""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from wieldy.core.call import Outcome
from wieldy.core.task import time_limit
from wieldy.mcp.serving.access import is_local_peer
from wieldy.mcp.serving.callers import current_identity, digest_token, read_bearer
from wieldy.mcp.serving.http_endpoint import HttpEndpoint
from wieldy.mcp.serving.http_guard import answer_refusal, peer_address
from wieldy.mcp.serving.refusals import Refusal

from .instruments import Instruments
from .live_facts import FactCollector, StoredCollector
from .otel_bridge import offer_to_opentelemetry, withdraw_from_opentelemetry
from .rollup_writer import RollupWriter

METRICS_PATH = "/metrics"
_FRESH_SECONDS = 1.0
_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class MetricsAccess:
    """The access to the figures, beside that of those who administer.

    Attributes:
        public: Everybody may.
        token: Whoever has this bearer token may; it is good for nothing else.
    """

    public: bool = False
    token: str | None = None

    def __post_init__(self) -> None:
        token = self.token
        if token is not None and not (token and token.isascii() and token.isprintable()):
            raise ValueError("The token for metrics must be printable ASCII text.")


class Metrics:
    """Counts the calls of a served box, and shows the figures."""

    def __init__(
        self, endpoint: HttpEndpoint, access: MetricsAccess, more: Sequence[StoredCollector] = ()
    ) -> None:
        box: Any = endpoint.server.box
        self._endpoint = endpoint
        self._access = access
        self._box = box
        # A view is narrower than the box, whose calls are all counted.
        whole = getattr(box, "box", box)
        self._instruments = Instruments(lambda name: whole.get(name) is not None)
        self._facts = FactCollector(endpoint)
        self._stored: list[StoredCollector] = [self._facts, *more]
        recorded = getattr(box, "recorded", False) and hasattr(box, "store")
        self._writer = RollupWriter(box.store.rollups) if recorded else None
        self._page: tuple[float, bool, bytes] = (-_FRESH_SECONDS, True, b"")
        self._lock = asyncio.Lock()
        registry = self._instruments.registry
        for each in self._stored:
            registry.register(each)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        self.route = Route(METRICS_PATH, self._answer)

    def __call__(self, outcome: Outcome) -> None:
        """Count an outcome. It is an observer of the box."""
        metadata = outcome.metadata
        if metadata.get("late"):
            # The call was counted when it was abandoned.
            return
        cost = metadata.get("cost", 0.0)
        tool, caller = self._instruments.labels_of(outcome)
        self._instruments.count(outcome, tool, caller, cost)
        if self._writer is not None:
            self._writer.add(tool, caller, outcome.status.value, outcome.seconds, cost)

    async def write_figures(self) -> None:
        """Write the sums of the current minute, for those who look at them now."""
        if self._writer is not None:
            await self._writer.flush()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Count while the `async with` block runs; what was counted is written at its end."""
        # An application may be started again on another loop.
        self._lock = asyncio.Lock()
        stop = self._box.observe(self) if hasattr(self._box, "observe") else lambda: None
        collectors = (*self._instruments.collectors, self._facts)
        offer_to_opentelemetry(collectors)
        writing = None if self._writer is None else asyncio.create_task(self._writer.run())
        try:
            yield
        finally:
            stop()
            withdraw_from_opentelemetry(collectors)
            if writing is not None and self._writer is not None:
                writing.cancel()
                with suppress(asyncio.CancelledError):
                    await writing
                # A store that does not answer must not hold up the end.
                with suppress(TimeoutError):
                    async with time_limit(_STOP_SECONDS):
                        await self._writer.flush()

    async def _answer(self, request: Request) -> Response:
        refused = self._refusal(request)
        if refused is not None:
            return answer_refusal(refused, self._endpoint.access.challenge)
        accepted = request.headers.get("accept", "")
        plain = "text/plain" in accepted and "openmetrics" not in accepted
        kind = CONTENT_TYPE_LATEST if plain else openmetrics.CONTENT_TYPE_LATEST
        return Response(await self._render(plain), headers={"content-type": kind})

    async def _render(self, plain: bool) -> bytes:
        """The page, made at most once a second."""
        async with self._lock:
            at, was_plain, page = self._page
            if time.monotonic() - at < _FRESH_SECONDS and plain is was_plain:
                return page
            for each in self._stored:
                await each.read_stored()
            generate = generate_latest if plain else openmetrics.generate_latest
            page = await asyncio.to_thread(generate, self._instruments.registry)
            self._page = time.monotonic(), plain, page
            return page

    def _refusal(self, request: Request) -> Refusal | None:
        """Why whoever asks may not read the figures, or None."""
        if self._access.public or self._has_token(request):
            return None
        scope = request.scope
        refused = self._endpoint.access.refusal(scope["headers"], peer_address(scope))
        if refused is not None:
            return refused
        identity = current_identity()
        if identity is not None:
            allowed = "administer" in identity.roles
            return None if allowed else Refusal(403, "This token does not allow to administer.")
        if self._endpoint.access.uses_tokens:
            return Refusal(401, "A bearer token is needed, of somebody who administers.")
        near = is_local_peer(peer_address(scope))
        return None if near else Refusal(403, "Without tokens only this machine sees metrics.")

    def _has_token(self, request: Request) -> bool:
        sent = request.headers.get("authorization", "").encode("latin-1")
        given, token = read_bearer(sent), self._access.token
        if token is None or given is None:
            return False
        return hmac.compare_digest(digest_token(given), digest_token(token))
