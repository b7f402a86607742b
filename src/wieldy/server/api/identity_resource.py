"""The caller: the name, the roles and the view behind a token."""

from pydantic import Field

from wieldy.core.choices import Role

from .answer_shapes import AnswerShape, PlainText
from .api_operations import Asked, operation

_ALL: tuple[Role, ...] = ("call", "approve", "administer")


class Me(AnswerShape):
    """Whoever asks."""

    name: PlainText | None = Field(description="Null for somebody unknown, who needs no token.")
    roles: list[Role]
    reads_all: bool = Field(description="Whether you may read everything, whatever your roles.")
    view: PlainText | None = Field(description="The name of the view that you see.")


@operation("GET", "/me", Me, for_all=True)
async def get_me(asked: Asked) -> Me:
    """Say who you are, and what you may do."""
    who = asked.identity
    if who is None:
        return Me(name=None, roles=["call"], reads_all=True, view=None)
    roles = [role for role in _ALL if role in who.roles]
    return Me(name=who.name, roles=roles, reads_all="administer" in roles, view=who.view)
