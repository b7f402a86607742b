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
