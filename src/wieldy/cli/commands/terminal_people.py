"""The person at a server's terminal: how they sign in, and what they are told while it serves."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

from wieldy.cli import environment, screen
from wieldy.cli.extra_imports import import_extra
from wieldy.core.call import Outcome, Status
from wieldy.core.errors import WieldyError
from wieldy.core.permission.deciders import DECIDING
from wieldy.core.visible_text import visible_line, visible_name
from wieldy.toolbox import Toolbox

# How often it is looked who can decide by now.
_LOOK_SECONDS = 5.0


class TerminalPeople:
    """The person at the terminal of a server.

    Where callers need no token, that person signs in with links that are printed here. They are
    printed on a terminal only: others may read a log.

    Args:
        box: The served toolbox.
        guarded: Whether callers need tokens.
    """

    def __init__(self, box: Toolbox, guarded: bool) -> None:
        self.guarded = guarded
        self._box = box
        self._page = ""
        self._links: Any = None
        if not guarded and sys.stderr.isatty():
            where = "wieldy.server.console.terminal_sign_ins"
            make = import_extra(where, "TerminalSignIns", "server")
            self._links = make(environment.user(), self._tell_used)

    @property
    def deciders(self) -> list[Any]:
        """Who decides by the links of this terminal."""
        return [] if self._links is None else [self._links]

    def explain_console(self, page: str) -> list[str]:
        """Where the console is, and how a person comes in who decides."""
        self._page = page
        if self._links is not None:
            link = self._link(self._links.make_link())
            return [
                f"The console, in a browser: {page}/",
                f"To decide and to change rules there, sign in. This link works once: {link}",
            ]
        command = f"`wieldy token link NAME --url {page}`"
        if self.guarded:
            return [f"The console, in a browser: {page}/ (sign in with {command})"]
        others = f"{command} prints a link" if self._box.recorded else "this needs a terminal"
        return [
            f"The console, in a browser: {page}/",
            f"To decide and to change rules there, sign in: {others}.",
        ]

    async def watching(self, serving: Coroutine[Any, Any, None]) -> None:
        """Serve, and meanwhile tell of calls that wait and of new people who may decide."""
        stop = self._box.observe(self._tell_waiting)
        looking = asyncio.create_task(self._look_at_tokens())
        try:
            await serving
        finally:
            looking.cancel()
            await asyncio.wait((looking,))
            stop()

    def _tell_waiting(self, outcome: Outcome) -> None:
        asks = outcome.metadata.keys().isdisjoint(("input", "waits_for"))
        if outcome.status is not Status.PENDING or not asks:
            return
        who = outcome.call.scope.caller
        asked = "" if who is None else f" of {visible_line(who, 80)}"
        because = visible_line(str(outcome.metadata.get("reason") or "it needs approval"), 200)
        name = visible_name(outcome.call.tool)
        screen.say(
            f"A call{asked} waits for you: {name} ({because}). See {self._page}/inbox, "
            f"`wieldy pending`, or `wieldy approve {outcome.call.id}`."
        )

    async def _look_at_tokens(self) -> None:
        if not self._box.recorded:
            return
        known = await self._find_deciders()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            found = await self._find_deciders()
            for name, made_at in sorted(found.keys() - known.keys()):
                by = found[name, made_at] or "somebody"
                said = f"{visible_line(by, 80)} made a token for {visible_line(name, 80)}"
                screen.say(f"{said}, with which they decide on calls. `wieldy token list` has all.")
            known |= found

    async def _find_deciders(self) -> dict[tuple[str, float], str | None]:
        """Who made the tokens that let their owners decide, by name and time."""
        try:
            tokens = await self._box.store.tokens.list()
        except WieldyError:
            return {}
        deciding = [each for each in tokens if not DECIDING.isdisjoint(each.roles)]
        return {(each.name, each.created_at): each.created_by for each in deciding}

    def _tell_used(self, key: str) -> None:
        name = environment.user()
        screen.say(f"A browser signed in here as {name}. The next link: {self._link(key)}")

    def _link(self, key: str) -> str:
        # A browser sends the part after the # to no server, so it is in no log.
        return f"{self._page}/sign-in#{key}"
