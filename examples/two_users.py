"""One toolbox, two users: each sees other tools, and each call knows whose it is."""

import asyncio
from dataclasses import dataclass, field

from wieldy import Context, Secret, Toolbox


@dataclass
class User:
    name: str
    notes: list[str] = field(default_factory=list)


class Notes:
    """Tools over the notes of whoever calls."""

    def write(self, text: str, context: Context) -> int:
        """Write a note and say how many there are."""
        user: User = context.deps
        user.notes.append(text)
        return len(user.notes)

    def read(self, context: Context) -> list[str]:
        """Read the notes."""
        user: User = context.deps
        return user.notes


def wipe_everything(token: Secret) -> str:
    """Wipe the notes of everybody."""
    return "wiped"


box = Toolbox()
box.add_object(Notes(), prefix="notes", tags={"everybody"})
box.add(wipe_everything, tags={"operators"}, presets={"token": Secret("not-for-models")})


async def main() -> None:
    ann, bob = User("ann"), User("bob")
    guest = box.view(tags={"everybody"}, agent="guest")
    operator = box.view(tags={"everybody", "operators"}, agent="operator")
    print(guest.names)
    print(operator.names)

    await guest.call("notes_write", {"text": "milk"}, deps=ann)
    await guest.call("notes_write", {"text": "bread"}, deps=bob)
    print((await guest.call("notes_read", deps=ann)).value)

    print((await guest.call("wipe_everything")).text)
    print((await operator.call("wipe_everything")).text)


if __name__ == "__main__":
    asyncio.run(main())

# > ['notes_write', 'notes_read']
# > ['notes_write', 'notes_read', 'wipe_everything']
# > ['milk']
# > There is no tool named 'wipe_everything'.
# > wiped
