"""Find out who decides by a command: the person at the terminal, or the owner of a token.

A program that runs the command, such as an agent with a shell, has no terminal. It decides only
with the token of somebody who may.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from wieldy.core.call import Call
from wieldy.core.choices import Role
from wieldy.core.errors import WieldyError
from wieldy.core.permission.deciders import DECIDING, MayNotDecide
from wieldy.toolbox import Toolbox

from . import environment, screen

if TYPE_CHECKING:
    # It loads SQLAlchemy, which a command without a store does not need.
    from wieldy.store.access_tokens import StoredToken


# Says who may decide, or raises `MayNotDecide`.
DecisionCheck = Callable[[Call, "StoredToken"], None]


class NobodyKnown(WieldyError):
    """A command wants a person, and there is neither a terminal nor a token that works."""


class TokenLacks(WieldyError):
    """The owner of the given token may not do this."""


async def find_person(box: Toolbox, given: str | None, roles: Iterable[Role]) -> str:
    """The name of whoever runs a command that wants a person with one of these roles."""
    token = await _find_token(box, given)
    if token is None:
        return environment.user()
    if token.roles.isdisjoint(roles):
        raise TokenLacks(f"The token of {token.name} has none of the roles {', '.join(roles)}.")
    return token.name


async def find_decider(box: Toolbox, given: str | None, call: Call, check: DecisionCheck) -> str:
    """The name of whoever decides on this call: the person here, or the token's owner if they may.

    Args:
        box: The toolbox whose call it is.
        given: The token of the command line.
        call: The call.
        check: What they have to pass, `check_approver` or `check_denier`.
    """
    token = await _find_token(box, given)
    if token is None:
        return environment.user()
    try:
        check(call, token)
    except MayNotDecide as error:
        raise TokenLacks(f"{token.name}: {error}") from error
    return token.name


async def find_token_maker(
    box: Toolbox, given: str | None, name: str, roles: Iterable[Role] = ()
) -> str:
    """The name of whoever may make, link or revoke the token of this name.

    Tokens that only call are for everybody, and so is the first one that decides: until somebody
    administers, there is nobody to ask. A terminal counts as a person.
    """
    tokens = await box.store.tokens.list()
    old = [each.roles for each in tokens if each.name == name]
    decides = not DECIDING.isdisjoint({*roles}.union(*old))
    # One that was revoked counts: whoever administers can't be removed to be replaced.
    administered = any("administer" in each.roles for each in tokens)
    if given is None and not (decides and administered):
        return environment.user()
    return await find_person(box, given, ["administer"])


def asks_here(given: str | None) -> bool:
    """Whether a person at the terminal is asked, because no token says who they are."""
    return environment.person_token(given) is None


async def _find_token(box: Toolbox, given: str | None) -> "StoredToken | None":
    """The token that was given; None for the person at the terminal."""
    text = environment.person_token(given)
    if text is not None:
        found = await box.store.tokens.find(text)
        if found is None:
            raise NobodyKnown(f"The token does not work in {box.store.address}.")
        return found
    if not screen.attended():
        raise NobodyKnown(
            "This is for a person, and there is no terminal to ask on. Run it on a terminal, or "
            "with the token of somebody who may do this: --token or the variable WIELDY_TOKEN."
        )
    return None
