"""The figures of webhooks for `/metrics`."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from wieldy.core.errors import WieldyError
from wieldy.core.task import time_limit
from wieldy.server.metrics.live_facts import STORE_SECONDS, StoredCollector

from .dispatch import Webhooks


class WebhookCollector(StoredCollector):
    """Gives how many messages were sent here, and how many of the store wait or have failed."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks
        self._counts: dict[tuple[str, str], int] | None = None

    async def read_stored(self) -> None:
        """Read what the store says; it has two seconds to answer."""
        self._counts = None
        if not self._webhooks.hooks:
            return
        try:
            async with time_limit(STORE_SECONDS):
                found = await self._webhooks.outbox.count()
        except (WieldyError, TimeoutError, OSError):
            return
        own = {hook.name for hook in self._webhooks.hooks}
        none = {(name, state): 0 for name in own for state in ("waiting", "failed")}
        self._counts = none | {key: count for key, count in found.items() if key[0] in own}

    def collect(self) -> Iterator[Metric]:
        """The metrics, without those that could not be read."""
        attempts = CounterMetricFamily(
            "wieldy_webhook_attempts", "Messages that were sent.", labels=["webhook", "result"]
        )
        for key, count in sorted(self._webhooks.attempts.items()):
            attempts.add_metric(key, count)
        yield attempts
        if self._counts is None:
            return
        waiting = GaugeMetricFamily(
            "wieldy_webhook_deliveries",
            "Messages that wait, and that were given up.",
            labels=["webhook", "state"],
        )
        for key, count in sorted(self._counts.items()):
            waiting.add_metric(key, count)
        yield waiting
