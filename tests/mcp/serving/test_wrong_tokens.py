"""A flood of wrong tokens is turned away before it reaches what knows the tokens."""

from wieldy.mcp.serving.access import Access
from wieldy.mcp.serving.callers import GivenTokens, Identity
from wieldy.mcp.serving.refusals import Refusal
from wieldy.mcp.serving.wrong_tokens import WrongTokens


class CountedTokens(GivenTokens):
    """Tokens that count how often they are looked up."""

    looked = 0

    async def identify(self, token: str) -> Identity | None:
        """Whose token this is."""
        self.looked += 1
        return await super().identify(token)


async def try_token(access: Access, token: str, peer: str) -> str:
    """Who comes in with a token, or the status of the refusal."""
    found = await access.identify([(b"authorization", f"Bearer {token}".encode())], peer=peer)
    assert found is not None
    return str(found.status) if isinstance(found, Refusal) else found.name


async def test_an_address_that_tries_too_many_tokens_has_to_wait_and_others_do_not() -> None:
    tokens = CountedTokens({"ann": "ann-secret", "bob": "bob-secret"})
    access = Access([tokens], wrong_tokens=WrongTokens(3, 3600.0))
    assert await try_token(access, "ann-secret", "10.0.0.1") == "ann"
    tried = [await try_token(access, f"guess-{n}", "10.0.0.1") for n in range(6)]
    assert tried == ["401"] * 3 + ["429"] * 3
    assert tokens.looked == 4
    # A right token of the same address counts if it was known before, and else from elsewhere.
    assert await try_token(access, "ann-secret", "10.0.0.1") == "ann"
    assert await try_token(access, "bob-secret", "10.0.0.1") == "429"
    assert await try_token(access, "bob-secret", "10.0.0.2") == "bob"
    assert await try_token(access, "bob-secret", "10.0.0.1") == "bob"


class KnownSessions:
    """A session that works, and one that has ended."""

    async def identify(self, token: str) -> Identity | None:
        return None

    async def identify_session(self, key: str) -> Identity | None:
        return Identity("ann", frozenset()) if key == "works" else None

    async def had_session(self, key: str) -> bool:
        return key in ("works", "ended")


async def try_session(access: Access, key: str) -> str:
    headers = [(b"host", b"localhost"), (b"cookie", f"wieldy_session={key}".encode())]
    found = await access.identify(headers, "/api/me", peer="10.0.0.1")
    assert found is not None
    return str(found.status) if isinstance(found, Refusal) else found.name


async def test_guessed_sessions_are_limited_like_tokens_and_ended_ones_are_no_guesses() -> None:
    access = Access([KnownSessions()], wrong_tokens=WrongTokens(3, 3600.0))
    assert [await try_session(access, "ended") for _ in range(9)] == ["401"] * 9
    assert await try_session(access, "works") == "ann"
    tried = [await try_session(access, f"guess-{n}") for n in range(5)]
    assert tried == ["401"] * 3 + ["429"] * 2
    assert await try_session(access, "works") == "ann", "it was right before"
    assert await try_token(access, "guess", "10.0.0.1") == "429", "one count for both"


def test_a_name_that_a_proxy_passes_on_is_no_address_of_this_machine() -> None:
    headers = [(b"host", b"localhost")]
    access = Access()
    peers = ["localhost", "", "LOCALHOST", "127.0.0.1 ", "10.0.0.1"]
    assert all(access.refusal(headers, peer) is not None for peer in peers)
    assert [access.refusal(headers, peer) for peer in (None, "127.0.0.1", "::1")] == [None] * 3
