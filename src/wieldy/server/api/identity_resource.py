"""The caller: the name, the roles and the view behind a token."""

from pydantic import Field

from wieldy.core.choices import Role

from .answer_shapes import AnswerShape, PlainText
from .api_operations import Asked, operation

_ALL: tuple[Role, ...] = ("call", "approve", "administer")


class Me(AnswerShape):
    """Whoever asks."""

    name: PlainText | None = Field(description="Null where tokens are not used.")
    roles: list[Role]
    view: PlainText | None = Field(description="The name of the view that you see.")


@operation("GET", "/me", Me, for_all=True)
async def get_me(asked: Asked) -> Me:
    """Say who you are, and what you may do."""
    who = asked.identity
    if who is None:
        return Me(name=None, roles=list(_ALL), view=None)
    return Me(name=who.name, roles=[role for role in _ALL if role in who.roles], view=who.view)
