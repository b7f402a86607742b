"""The instruments that are fed with the outcome of every call."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.registry import Collector

from wieldy.core.call import Outcome
from wieldy.store.databases.tables import LATENCY_BOUNDS

MAX_TOOLS = 200
MAX_CALLERS = 50
OTHER = "other"
_MAX_LABEL = 200


class BoundedNames:
    """Gives the first names as they are, and `other` for those that come later.

    The number of time series that a scraper has to keep depends on the number of names, and
    whoever calls can make up names.
    """

    def __init__(self, most: int, is_known: Callable[[str], bool] = lambda name: True) -> None:
        self._most = most
        self._is_known = is_known
        self._labels: dict[str, str] = {}

    def label(self, name: str) -> str:
        """The label for a name."""
        label = self._labels.get(name)
        if label is None:
            if len(self._labels) >= self._most or not self._is_known(name):
                return OTHER
            label = self._labels[name] = clean_label(name)
        return label


class Instruments:
    """Counts calls and measures how long they take. It is an observer of a toolbox."""

    def __init__(self, is_tool: Callable[[str], bool]) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.calls = Counter(
            "wieldy_calls",
            "Calls by tool, status and caller; a call that waits for a person counts twice.",
            ("tool", "status", "caller"),
            registry=self.registry,
        )
        self.durations = Histogram(
            "wieldy_call_duration_seconds",
            "How long calls took.",
            ("tool",),
            registry=self.registry,
            buckets=LATENCY_BOUNDS,
        )
        self.costs = Counter(
            "wieldy_call_cost",
            "What tools say that their calls cost.",
            ("tool",),
            registry=self.registry,
        )
        self._tools = BoundedNames(MAX_TOOLS, is_tool)
        self._callers = BoundedNames(MAX_CALLERS)

    @property
    def collectors(self) -> tuple[Collector, ...]:
        """The instruments themselves."""
        return self.calls, self.durations, self.costs

    def labels_of(self, outcome: Outcome) -> tuple[str, str | None]:
        """The bounded names of the tool and the caller."""
        call = outcome.call
        caller = call.scope.caller
        return self._tools.label(call.tool), None if caller is None else self._callers.label(caller)

    def count(self, outcome: Outcome, tool: str, caller: str | None, cost: float) -> None:
        """Count one outcome under its bounded names."""
        self.calls.labels(tool, outcome.status.value, caller or "").inc()
        if outcome.seconds is not None:
            self.durations.labels(tool).observe(outcome.seconds)
        if cost:
            self.costs.labels(tool).inc(cost)


def clean_label(name: str) -> str:
    """A name that can be encoded; quotes and line ends are escaped by the exposition."""
    return name[:_MAX_LABEL].encode("utf-8", "replace").decode()
