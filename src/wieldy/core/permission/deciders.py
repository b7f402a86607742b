"""Say who may decide on a call: somebody with a name and the role, and not who made the call.

Every way in asks here: the API and the console, and the commands. A program that has the toolbox
decides with `box.approve`, and is not asked who it is.
"""

from typing import ClassVar, Literal, Protocol

from wieldy.core.call import Call
from wieldy.core.choices import Role
from wieldy.core.errors import WieldyError

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


def check_approver(call: Call, who: KnownPerson | None, self_approval: bool = False) -> None:
    """Raise `MayNotDecide` unless somebody may let a call run."""
    if who is None:
        raise MayNotDecide("unknown")
    if DECIDING.isdisjoint(who.roles):
        raise MayNotDecide("role")
    if not self_approval and _made_by(call, who.name):
        raise MayNotDecide("own")


def check_denier(call: Call, who: KnownPerson | None) -> None:
    """Raise `MayNotDecide` unless somebody may deny a call; everybody withdraws their own."""
    if who is None:
        raise MayNotDecide("unknown")
    if DECIDING.isdisjoint(who.roles) and not _made_by(call, who.name):
        raise MayNotDecide("role")


def _made_by(call: Call, name: str) -> bool:
    """Whether somebody of this name made a call, or a call around it.

    Names count and not tokens: a token that is made anew is still that of the same person.
    """
    return name in call.scope.callers()
