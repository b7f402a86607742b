"""Tokens in a store: shown once, found by their digest, refused when they are over."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from wieldy import NotKept, Toolbox
from wieldy.store.access_tokens import TokenTaken


async def test_a_token_is_found_and_only_its_digest_is_kept(
    url: str, dump: Callable[[], str]
) -> None:
    async with Toolbox(store=url) as box:
        token = await box.store.tokens.make("ann", ["approve", "call"], view="readers", by="root")
        found = await box.store.tokens.find(token)

        assert found is not None
        assert (found.name, found.view) == ("ann", "readers")
        assert sorted(found.roles) == ["approve", "call"]
        assert found.to_dict()["created_by"] == "root"
        for wrong in (token[:-1], token + "x", "", "\0", "\ud800", "ann"):
            assert await box.store.tokens.find(wrong) is None
    assert token not in dump()


@pytest.mark.parametrize("over", ["revoked", "expired"])
async def test_a_token_that_is_over_is_refused_and_its_name_is_free(url: str, over: str) -> None:
    async with Toolbox(store=url) as box, Toolbox(store=url) as elsewhere:
        expires_at = time.time() - 1 if over == "expired" else None
        token = await box.store.tokens.make("ann", expires_at=expires_at)
        if over == "revoked":
            assert (await elsewhere.store.tokens.revoke("ann")).state == "revoked"

        assert await box.store.tokens.find(token) is None
        assert [each.state for each in await box.store.tokens.list()] == [over]
        fresh = await box.store.tokens.make("ann")
        assert await elsewhere.store.tokens.find(fresh) is not None
        assert await elsewhere.store.tokens.find(token) is None


async def test_a_name_has_one_token_also_for_two_who_make_it_at_once(url: str) -> None:
    async with Toolbox(store=url) as box, Toolbox(store=url) as elsewhere:
        made = await asyncio.gather(
            *(each.store.tokens.make("ann") for each in (box, elsewhere) for _ in range(5)),
            return_exceptions=True,
        )

        assert sum(isinstance(each, str) for each in made) == 1
        refused = [each for each in made if not isinstance(each, str)]
        assert all(isinstance(each, TokenTaken) for each in refused), refused
        assert "Revoke it first" in str(refused[0])


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("", {}),
        ("x" * 10_000, {}),
        ("oauth:ann", {}),
        ("ann", {"roles": []}),
        ("ann", {"roles": ["root"]}),
        ("ann", {"roles": "administer!"}),
        ("ann", {"view": ""}),
    ],
)
async def test_what_can_t_be_a_token_is_refused(url: str, name: str, facts: dict[str, Any]) -> None:
    async with Toolbox(store=url) as box:
        with pytest.raises(ValueError, match=r"name of a|roles of a token"):
            await box.store.tokens.make(name, **facts)
        assert await box.store.tokens.list() == []
        with pytest.raises(NotKept):
            await box.store.tokens.revoke("nobody")
