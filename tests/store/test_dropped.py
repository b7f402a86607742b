"""A store that nobody closes is closed when the toolbox is gone."""

import gc
import threading
import warnings

from tests.mcp.waiting import until
from wieldy import Toolbox


def store_threads() -> set[threading.Thread]:
    ours = ("wieldy-store", "wieldy-pulse")
    return {each for each in threading.enumerate() if each.name.startswith(ours)}


async def test_a_dropped_toolbox_lets_go_of_its_database(url: str) -> None:
    async def use() -> None:
        box = Toolbox(store=url)

        @box.tool
        async def count() -> int:
            return len(box)

        assert (await box.call("count")).ok
        assert len(await box.ledger.list()) == 1

    before = store_threads()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        # What other tests have loaded is not looked through each time.
        gc.freeze()
        await use()
        await until(lambda: gc.collect() >= 0 and store_threads() <= before)
        gc.unfreeze()

    said = [str(each.message) for each in heard if each.category is ResourceWarning]
    assert len(said) == 1
    assert "while it held an open store" in said[0]
