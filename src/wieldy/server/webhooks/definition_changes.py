"""Tell webhooks of tools that differ from the lock, once for each of their definitions."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from wieldy.store.outbox.outbox import Outbox
from wieldy.toolbox import Toolbox


class DefinitionChanges:
    """Looks at the tools of a box whenever they change.

    The store remembers what was told. A process that is killed between a change and its event
    finds the change again when it starts.
    """

    def __init__(self, box: Toolbox, outbox: Outbox) -> None:
        self._box = box
        self._outbox = outbox
        self._told: dict[str, str] | None = None
        self._is_new = True

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Look again after each change of the tools, and wake the caller; returns how to end it."""
        loop = asyncio.get_running_loop()

        def note() -> None:
            self._is_new = True
            wake()

        def tell_soon(name: str | None) -> None:
            # Tools may be added on any thread, even after the loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(note)

        return self._box.watch(tell_soon)

    async def tell(self) -> None:
        """Make an event of each change that was not told yet."""
        if not self._is_new:
            return
        # A change that comes meanwhile, and a store that fails, lead to another look.
        self._is_new = False
        try:
            await self._compare()
        except BaseException:
            self._is_new = True
            raise

    async def _compare(self) -> None:
        if self._told is None:
            self._told = await self._outbox.list_changed_tools()
        now = {tool.name: (tool, reason) for tool, reason in self._box.changed_tools()}
        for name, (tool, reason) in now.items():
            if self._told.get(name) == tool.fingerprint:
                continue
            blocked = tool.hold is not None and not tool.hold.asks
            facts = {
                "source": tool.source,
                "blocked": blocked,
                "reason": reason,
                "fingerprint": tool.fingerprint,
            }
            await self._outbox.note_tool(name, tool.fingerprint, facts)
            self._told[name] = tool.fingerprint
        for name in self._told.keys() - now.keys():
            # A tool that is not here may be one of another gateway on the store.
            if self._box.get(name) is not None:
                await self._outbox.forget_tool(name)
                del self._told[name]
