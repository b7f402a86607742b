"""Sign-in links and sessions in a store: used once, short-lived, and gone with their token."""

import asyncio
import time
from collections.abc import Callable

import pytest
from sqlalchemy import update

from wieldy import NotKept, Toolbox
from wieldy.store.databases.tables import sign_ins


async def test_a_link_begins_one_session_and_only_digests_are_kept(
    url: str, dump: Callable[[], str]
) -> None:
    async with Toolbox(store=url) as box:
        token = await box.store.tokens.make("ann", ["approve"], view="readers")
        key = await box.store.sign_ins.make_link("ann", by="root")
        begun = await box.store.sign_ins.use_link(key)
        assert begun is not None
        found = await box.store.sign_ins.find_session(begun.key)
        assert found is not None and (found.name, found.view) == ("ann", "readers")
        assert begun.expires_at > time.time()

        assert await box.store.sign_ins.use_link(key) is None
        # A key is good for what it was made for, and for nothing else.
        assert await box.store.sign_ins.find_session(key) is None
        assert await box.store.sign_ins.use_link(begun.key) is None
        assert await box.store.sign_ins.find_session(begun.key) is not None
        for wrong in ("", "\0", "\ud800", token, begun.key + "x", "ann"):
            assert await box.store.sign_ins.use_link(wrong) is None
            assert await box.store.sign_ins.find_session(wrong) is None
    kept = dump()
    assert key not in kept and begun.key not in kept


async def test_of_those_who_use_a_link_at_once_one_comes_in(url: str) -> None:
    async with Toolbox(store=url) as box, Toolbox(store=url) as elsewhere:
        await box.store.tokens.make("ann")
        key = await box.store.sign_ins.make_link("ann")
        stores = [box.store, elsewhere.store] * 5
        begun = await asyncio.gather(*(store.sign_ins.use_link(key) for store in stores))
    assert sum(each is not None for each in begun) == 1


@pytest.mark.parametrize("kind", ["link", "session"])
async def test_what_has_expired_does_not_work(url: str, kind: str) -> None:
    async with Toolbox(store=url) as box:
        await box.store.tokens.make("ann")
        key = await box.store.sign_ins.make_link("ann")
        begun = await box.store.sign_ins.use_link(key) if kind == "session" else None
        past = update(sign_ins).values(expires_at=time.time() - 1)
        await box.store.write(lambda connection: connection.execute(past))
        if begun is None:
            assert await box.store.sign_ins.use_link(key) is None
        else:
            assert await box.store.sign_ins.find_session(begun.key) is None


async def test_a_revoked_token_ends_its_links_and_sessions_for_good(url: str) -> None:
    async with Toolbox(store=url) as box:
        await box.store.tokens.make("ann")
        unused = await box.store.sign_ins.make_link("ann")
        begun = await box.store.sign_ins.use_link(await box.store.sign_ins.make_link("ann"))
        assert begun is not None
        await box.store.tokens.revoke("ann")
        assert await box.store.sign_ins.use_link(unused) is None
        assert await box.store.sign_ins.find_session(begun.key) is None
        # Another token of the same name does not bring them back.
        await box.store.tokens.make("ann", ["administer"])
        assert await box.store.sign_ins.use_link(unused) is None
        assert await box.store.sign_ins.find_session(begun.key) is None


async def test_a_session_that_was_ended_stays_ended_and_others_go_on(url: str) -> None:
    async with Toolbox(store=url) as box:
        await box.store.tokens.make("ann")
        links = [await box.store.sign_ins.make_link("ann") for _ in range(2)]
        first, second = [await box.store.sign_ins.use_link(link) for link in links]
        assert first is not None and second is not None
        for _ in range(2):
            await box.store.sign_ins.end_session(first.key)
        assert await box.store.sign_ins.find_session(first.key) is None
        assert await box.store.sign_ins.find_session(second.key) is not None


async def test_a_link_needs_a_token_that_works_and_ends_soon(url: str) -> None:
    async with Toolbox(store=url) as box:
        with pytest.raises(NotKept, match="ann"):
            await box.store.sign_ins.make_link("ann")
        await box.store.tokens.make("ann", expires_at=time.time() - 1)
        with pytest.raises(NotKept, match="ann"):
            await box.store.sign_ins.make_link("ann")
        for seconds in (0, -1, 86_401, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="a day"):
                await box.store.sign_ins.make_link("ann", seconds=seconds)
