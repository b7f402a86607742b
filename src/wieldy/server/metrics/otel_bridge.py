"""Let OpenTelemetry read the same instruments, if it is installed."""

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

# Instruments of OpenTelemetry can't be read back as histograms, so that these are their sums.
_SAMPLES = (
    ("wieldy.calls", "wieldy_calls_total", "{call}"),
    ("wieldy.call.duration.sum", "wieldy_call_duration_seconds_sum", "s"),
    ("wieldy.call.duration.count", "wieldy_call_duration_seconds_count", "{call}"),
    ("wieldy.call.cost", "wieldy_call_cost_total", "1"),
)
_LIVE = (
    ("wieldy.calls.running", "wieldy_calls_running", "{call}"),
    ("wieldy.calls.queued", "wieldy_calls_queued", "{call}"),
    ("wieldy.sessions", "wieldy_sessions", "{session}"),
    ("wieldy.upstream.up", "wieldy_upstream_up", "1"),
)


# OpenTelemetry has one instrument of each name, also if several boxes are served one by one.
_sources: "weakref.WeakSet[Collector]" = weakref.WeakSet()


def offer_to_opentelemetry(collectors: Iterable[Collector]) -> None:
    """Register observable instruments that read the collectors as long as these exist."""
    try:
        from opentelemetry.metrics import get_meter  # noqa: PLC0415 - an optional package
    except ImportError:
        return
    for collector in collectors:
        _sources.add(collector)
    meter = get_meter("wieldy")
    for name, sample, unit in _SAMPLES:
        meter.create_observable_counter(name, [_make_callback(sample)], unit)
    for name, sample, unit in _LIVE:
        meter.create_observable_gauge(name, [_make_callback(sample)], unit)


def withdraw_from_opentelemetry(collectors: Iterable[Collector]) -> None:
    """Let the collectors be read no more."""
    for collector in collectors:
        _sources.discard(collector)


def _make_callback(sample: str) -> "Callable[[CallbackOptions], Iterable[Observation]]":
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - an optional package

    def observe(options: "CallbackOptions") -> "Iterable[Observation]":
        metrics: Iterable[Metric] = (
            metric for collector in list(_sources) for metric in collector.collect()
        )
        for metric in metrics:
            for each in metric.samples:
                if each.name == sample:
                    yield Observation(each.value, dict(each.labels))

    return observe
