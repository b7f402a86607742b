"""The sums of each minute reach the store, also after trouble with it and at the end."""

import time
from pathlib import Path

from tests.server.test_app import http, make_box
from wieldy import Call, Scope
from wieldy.core.errors import StoreUnavailable
from wieldy.server import app
from wieldy.server.metrics.rollup_writer import RollupWriter
from wieldy.store.rollups import RollupKey, Rollups, RollupSum


async def test_what_was_counted_is_in_the_store_after_a_graceful_end(tmp_path: Path) -> None:
    url, since = f"sqlite:///{tmp_path}/store.db", time.time() - 60
    for _ in range(2):
        async with make_box(store=url) as box, http(app(box)):
            await box.call(Call("greet", {}, Scope(caller="ann")))
            await box.call("nowhere")
            await box.call("elsewhere")
    async with make_box(store=url) as box:
        found = await box.store.rollups.read(since, time.time() + 60, 3600)

    counts = {(each.tool, each.caller, each.status): each.count for each in found}
    assert sum(counts.values()) == 6
    assert counts["greet", "ann", "ok"] in (1, 2), "the hour may have changed meanwhile"
    assert counts["other", None, "error"] in (2, 4)


async def test_a_box_without_a_store_keeps_no_sums() -> None:
    async with make_box() as box, http(app(box)):
        assert (await box.call("greet")).ok


class Failing(Rollups):
    """A store that fails at first."""

    def __init__(self) -> None:
        self.failures = 2
        self.written: dict[RollupKey, RollupSum] = {}

    async def add(self, sums: object) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("it is gone", "Wait.")
        assert isinstance(sums, dict)
        self.written = sums


async def test_sums_wait_in_order_and_bounded_for_a_store_that_can_not_be_written() -> None:
    store, now = Failing(), [600.0]
    writer = RollupWriter(store, lambda: now[0])
    writer.add("add", None, "ok", 1.0, 0.0)
    await writer.flush()
    writer.add("add", None, "ok", 3.0, 0.5)
    now[0] = 665.0
    writer.add("add", None, "ok", None, 0.0)
    await writer.flush()
    assert store.written == {}
    await writer.flush()

    sums = {key.minute: (each.count, each.seconds) for key, each in store.written.items()}
    assert sums == {600: (2, 4.0), 660: (1, 0.0)}

    store.failures = 1
    for number in range(20_100):
        writer.add(f"tool {number}", None, "ok", 1.0, 0.0)
    await writer.flush()
    writer.add("last", None, "ok", 1.0, 0.0)
    await writer.flush()
    kept = [key.tool for key in store.written]
    assert (len(kept), kept[0], kept[-1]) == (20_000, "tool 101", "last")
