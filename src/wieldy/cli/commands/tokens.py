"""`wieldy token`: the access tokens of callers, and sign-in links for their browsers."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wieldy.cli import exits, screen
from wieldy.cli.deciding_person import find_token_maker
from wieldy.cli.moments import read_deadline
from wieldy.cli.store_choice import StoreChoice
from wieldy.core.choices import Role

if TYPE_CHECKING:
    # It loads SQLAlchemy, which a command without a store does not need.
    from wieldy.store.access_tokens import StoredToken

DEFAULT_URL = "http://127.0.0.1:8000"
_COLUMNS = ("name", "state", "roles", "view", "made", "by", "expires")


def run_make_token(
    choice: StoreChoice,
    name: str,
    roles: Sequence[Role],
    view: str | None,
    expires: str | None,
    person: str | None,
    as_json: bool,
) -> int:
    """Make a token and print it, the only time that it is shown; returns the exit code."""

    async def make() -> int:
        expires_at = read_deadline(expires, "--expires")
        # A caller may get a token before the server runs for the first time.
        async with choice.open(create=True) as box:
            tokens, by = box.store.tokens, await find_token_maker(box, person, name, roles)
            token = await tokens.make(name, roles, view=view, expires_at=expires_at, by=by)
            if as_json:
                known = {each.name: each for each in await tokens.list()}
                screen.put({"token": token, **known[name].to_dict()})
                return exits.OK
        screen.show(token)
        screen.say("This is the token. It is not kept, so that it can't be shown again.")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(make()))


def run_link_token(
    choice: StoreChoice, name: str, address: str, expires: str, person: str | None, as_json: bool
) -> int:
    """Make a link that signs the owner of a token in, and print it; returns the exit code."""

    async def make() -> int:
        expires_at = read_deadline(expires, "--expires") or 0.0
        page = _read_address(address)
        async with choice.open() as box:
            by = await find_token_maker(box, person, name)
            seconds = expires_at - time.time()
            key = await box.store.sign_ins.make_link(name, seconds=seconds, by=by)
        # A browser sends the part after the # to no server, so it is in no log.
        link = f"{page}/sign-in#{key}"
        if as_json:
            screen.put({"link": link, "name": name, "expires_at": expires_at})
            return exits.OK
        screen.show(link)
        screen.say(
            f"Open it in a browser: it signs {name} in once, until {screen.local(expires_at)}."
        )
        return exits.OK

    return exits.guarded(lambda runner: runner.run(make()))


def _read_address(address: str) -> str:
    """The beginning of the console's addresses; `ValueError` if the text is not an address."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"--url is the address of a server, such as {DEFAULT_URL}, not {address}.")
    return address.removesuffix("/mcp").rstrip("/")


def run_list_tokens(choice: StoreChoice, as_json: bool) -> int:
    """Print what is known of the tokens; returns the exit code."""

    async def read() -> int:
        async with choice.read() as box:
            found = await box.store.tokens.list()
            if as_json:
                screen.put([token.to_dict() for token in found])
            elif found:
                screen.table(_COLUMNS, [_token_row(token) for token in found])
            else:
                make = "Make one with `wieldy token make NAME`."
                screen.say(f"There is no token in {box.store.address}. {make}")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(read()))


def run_revoke_token(choice: StoreChoice, name: str, person: str | None, as_json: bool) -> int:
    """Revoke a token; returns the exit code."""

    async def revoke() -> int:
        async with choice.open() as box:
            await find_token_maker(box, person, name)
            token = await box.store.tokens.revoke(name)
            if as_json:
                screen.put(token.to_dict())
            else:
                screen.show(f"Revoked the token of {name}. Servers refuse it within a second.")
        return exits.OK

    return exits.guarded(lambda runner: runner.run(revoke()))


def _token_row(token: "StoredToken") -> tuple[object, ...]:
    return (
        token.name,
        token.state,
        ", ".join(sorted(token.roles)),
        token.view or "",
        screen.local(token.created_at),
        token.created_by or "",
        screen.local(token.expires_at) or "never",
    )
