"""Say who may decide on a call: somebody with a name and the role, and not who made the call.

Every way in asks here: the API and the console, and the commands. A program that has the toolbox
decides with `box.approve`, and is not asked who it is.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from wieldy.core.call import Call
from wieldy.core.choices import Role
from wieldy.core.errors import CallNotFound, WieldyError

if TYPE_CHECKING:
    from .decisions import Desk

# Calls inside calls go as deep as nobody needs; whoever is further out is not looked for.
_MOST_AROUND = 1000
DECIDING: frozenset[Role] = frozenset(("approve", "administer"))
# Who decided, if the user of an MCP client answered the client's own question.
IN_CLIENT = "answered in the client"


class KnownPerson(Protocol):
    """Somebody whom a token or a session names."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def roles(self) -> frozenset[Role]:
        """What they may do."""


class CallKeeper(Protocol):
    """The parts of a toolbox that know its calls."""

    @property
    def recorded(self) -> bool:
        """Whether there is a store."""

    @property
    def ledger(self) -> Any:
        """The calls of the store."""

    @property
    def desk(self) -> "Desk":
        """The calls that wait."""


class MayNotDecide(WieldyError):
    """Whoever wants to decide on a call may not.

    Attributes:
        why: `unknown` if it is not known who they are, `role` if they lack the role, and `own` if
            they made the call, or a call around it.
    """

    _TEXTS: ClassVar = {
        "unknown": "Decisions are never anonymous: only a person who has signed in decides.",
        "role": "This needs the role approve.",
        "own": "Nobody approves their own calls here.",
    }

    def __init__(self, why: Literal["unknown", "role", "own"]) -> None:
        super().__init__(self._TEXTS[why])
        self.why = why


async def check_approver(
    box: CallKeeper, call: Call, who: KnownPerson | None, self_approval: bool = False
) -> None:
    """Raise `MayNotDecide` unless somebody may let a call run."""
    if who is None:
        raise MayNotDecide("unknown")
    if DECIDING.isdisjoint(who.roles):
        raise MayNotDecide("role")
    if not self_approval and await _made_by(box, call, who.name):
        raise MayNotDecide("own")


async def check_denier(box: CallKeeper, call: Call, who: KnownPerson | None) -> None:
    """Raise `MayNotDecide` unless somebody may deny a call; everybody withdraws their own."""
    if who is None:
        raise MayNotDecide("unknown")
    if DECIDING.isdisjoint(who.roles) and not await _made_by(box, call, who.name):
        raise MayNotDecide("role")


async def _made_by(box: CallKeeper, call: Call, name: str) -> bool:
    """Whether somebody of this name made a call, or a call around it, as far as these are kept.

    Names count and not tokens: a token that is made anew is still that of the same person.
    """
    seen: set[str] = set()
    scope = call.scope
    while scope.caller != name:
        above = scope.parent
        if above is None or above in seen:
            return False
        if len(seen) >= _MOST_AROUND:
            return True
        seen.add(above)
        outer = await _find_call(box, above)
        if outer is None:
            return False
        scope = outer.scope
    return True


async def _find_call(box: CallKeeper, call_id: str) -> Call | None:
    if box.recorded:
        entry = await box.ledger.get(call_id)
        return None if entry is None else entry.call
    try:
        return (await box.desk.find(call_id)).call
    except CallNotFound:
        return None
