"""What every test relies on."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.child_process import count_children, end_children

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

pytest_plugins = ("tests.machine",)

Spans = Callable[[], "list[ReadableSpan]"]
# A check must give the same answer twice, on a busy machine too; `make explore` draws new examples.
settings.register_profile("same", derandomize=True, max_examples=60, deadline=None)
settings.load_profile(os.environ.get("WIELDY_EXAMPLES", "same"))


# The event loops to run each test on, where they are named: `asyncio,uvloop`.
_LOOPS = os.environ.get("WIELDY_LOOPS", "")
if _LOOPS:

    def pytest_asyncio_loop_factories(
        config: pytest.Config, item: pytest.Item
    ) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
        """Makers of loops, by name."""
        return {name: import_module(name).new_event_loop for name in _LOOPS.split(",")}


# Following a test line by line makes it more than twice as slow, and more cases of a test run the
# same lines. So only the first cases of each test are followed, and no property test.
_FOLLOWED_CASES = 2
# These files take longest. They start first, so that none of them runs alone at the end.
_MAX_LENGTH = (
    "tests/agent/runs/test_killed_runs.py",
    "tests/docs/test_code_blocks.py",
    "tests/examples/test_examples.py",
    "tests/cli/commands/test_lock.py",
    "tests/execution/test_process_kills.py",
    "tests/store/test_crash.py",
    "tests/cli/commands/test_log.py",
    "tests/cli/test_hostile.py",
    "tests/bench/test_rows.py",
    "tests/docs/test_site.py",
)


# A log of twelve thousand dots hides the rest of it.
_TESTS_PER_DOT = 20
_passed = count(1)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Name what fails at once, and where nobody watches, print a dot for some tests that passed."""
    if report.failed:
        category = "failed" if report.when == "call" else "error"
        return category, f"\n{category.upper()} {report.nodeid}\n", category.upper()
    if sys.stdout.isatty() or not report.passed or report.when != "call":
        return None
    return "passed", "" if next(_passed) % _TESTS_PER_DOT else ".", "PASSED"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Let no test be followed that is not to be.

    In a process that shares the tests, pytest-cov starts to follow twice, and pauses only the
    second. What the first one finds is never used.
    """
    plugin = session.config.pluginmanager.getplugin("_cov")
    if plugin is not None and hasattr(session.config, "workerinput"):
        plugin.cov_controller.cov.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose which tests are followed by the coverage, and put the longest first."""
    # Processes that share the tests would each have other ones.
    if odd := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"the name of a test has an address of memory: {odd}")
    cases: Counter[str] = Counter()
    for item in items:
        cases[name := item.nodeid.partition("[")[0]] += 1
        is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if is_property or cases[name] > _FOLLOWED_CASES:
            item.add_marker("no_cover")
    places = {name: place for place, name in enumerate(_MAX_LENGTH)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(_MAX_LENGTH)))


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell starts its background jobs deaf to control-C; tests of it must be heard."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_child_stays() -> Iterator[None]:
    """Whatever an assertion says, a process that a test started by hand ends with the test."""
    lasting = count_children()
    yield
    end_children(lasting)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """OpenTelemetry as an application configures it; gives the spans that have ended."""
    # Loaded here, because calls look whether it is loaded and other tests run without it.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: PLC0415
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A provider can be set once per process; each test has its own.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return lambda: list(exporter.get_finished_spans())
