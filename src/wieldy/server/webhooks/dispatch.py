"""The webhooks of one application: make messages of events, and send them until they arrive."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from wieldy.core.errors import NotKept, WieldyError
from wieldy.core.task import time_limit
from wieldy.store.outbox.outbox import Delivery, SendResult
from wieldy.toolbox import Toolbox

from .definition_changes import DefinitionChanges
from .messages import TEST_KIND, make_message, make_test_message
from .posting import GONE, Postman
from .webhook import Webhook

# A slow receiver uses up its own places, and none of the others'.
MAX_AT_ONCE = 4
PAUSE = 0.5
_PAUSE_AFTER_FAILURE = 5.0
# How often the store is told that these webhooks are still there.
_SIGN_SECONDS = 600.0
_STOP_SECONDS = 2.0
_STORE_SECONDS = 5.0
_log = logging.getLogger("wieldy.server")


class Webhooks:
    """Sends what happens on a box's store to the webhooks.

    Several processes on one store may have the same webhooks: each message is sent by one of them.

    Args:
        box: A toolbox with a store.
        hooks: The webhooks; each has its own name.
        postman: What sends the messages.
        pause: After how many seconds the store is looked at again.

    Attributes:
        attempts: How often something was sent, by webhook and what came of it.

    Raises:
        ValueError: The box has no store, or two webhooks have the same name.
    """

    def __init__(
        self,
        box: Toolbox,
        hooks: Sequence[Webhook] = (),
        postman: Postman | None = None,
        pause: float = PAUSE,
    ) -> None:
        if not box.recorded:
            raise ValueError("Webhooks need a toolbox with a store, and this has none.")
        self.outbox = box.store.outbox
        self.attempts: Counter[tuple[str, str]] = Counter()
        self._hooks = _by_name(hooks)
        self._removed: set[str] = set()
        self._changes = DefinitionChanges(box, self.outbox)
        self._postman = postman or Postman()
        self._pause = pause
        self._sending: dict[str, set[asyncio.Task[None]]] = {}
        self._signed_at: float | None = None
        self._has_failed = False
        self._bell = asyncio.Event()

    @property
    def hooks(self) -> Sequence[Webhook]:
        """The webhooks, in order."""
        return [*self._hooks.values()]

    async def use(self, hooks: Sequence[Webhook]) -> None:
        """Have these webhooks from now on; those of before that are not among them are removed."""
        wanted = _by_name(hooks)
        self._removed = (self._removed | self._hooks.keys()) - wanted.keys()
        self._hooks = wanted
        await self._sign_up_now()
        self._bell.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send while the `async with` block runs."""
        # An application may be started again on another loop.
        self._bell = asyncio.Event()
        await self._sign_up_now()
        unwatch = self._changes.watch(self._bell.set)
        going = asyncio.create_task(self._run())
        try:
            yield
        finally:
            unwatch()
            going.cancel()
            with suppress(asyncio.CancelledError):
                await going
            await self._finish_sending()
            await self._postman.close()

    async def test(self, name: str) -> Delivery:
        """Send a message now that says nothing; a receiver that takes it is sent messages again.

        Args:
            name: The webhook's name.

        Returns:
            The message, delivered or failed.

        Raises:
            NotKept: There is no webhook of this name here.
        """
        hook = self._hooks.get(name)
        if hook is None:
            raise NotKept("webhook", name)
        body = make_test_message(time.time())
        delivery = await self.outbox.add_claimed(name, TEST_KIND, body)
        result = await self._postman.send(hook, delivery)
        await self._settle(hook, delivery, result)
        if result.state == "delivered":
            await self.outbox.start(name)
        return await self.outbox.find(delivery.id)

    async def _run(self) -> None:
        while True:
            pause = await self._take_turn()
            with suppress(TimeoutError):
                async with time_limit(pause):
                    await self._bell.wait()
            self._bell.clear()

    async def _take_turn(self) -> float | None:
        """Do what there is to do; returns after which time to look again, or None for a bell."""
        if not self._hooks and not self._removed:
            return None
        try:
            await self._sign_up()
            if any("tool.changed" in hook.events for hook in self._hooks.values()):
                await self._changes.tell()
            is_busy = await self._move_on()
        except Exception as error:
            # The next turn tries again after any error. An error of the store needs no traceback.
            is_known = isinstance(error, WieldyError | OSError)
            if not self._has_failed:
                _log.warning("Webhooks can't go on now: %s", error, exc_info=not is_known)
            self._has_failed = True
            return _PAUSE_AFTER_FAILURE
        self._has_failed = False
        return 0.0 if is_busy else self._pause

    async def _sign_up_now(self) -> None:
        """Tell the store which webhooks there are; if it does not answer, that is done later."""
        self._signed_at = None
        if not self._hooks and not self._removed:
            return
        try:
            async with time_limit(_STORE_SECONDS):
                await self._sign_up()
        except (WieldyError, OSError) as error:
            _log.warning("The webhooks are told to the store later: %s", error)

    async def _sign_up(self) -> None:
        """Tell the store which webhooks there are, and from time to time that they still are."""
        now = time.monotonic()
        if self._signed_at is not None and now < self._signed_at + _SIGN_SECONDS:
            return
        removed = {*self._removed}
        await self.outbox.subscribe([hook.subscription for hook in self.hooks], removed)
        self._removed -= removed
        self._signed_at = now

    async def _move_on(self) -> bool:
        """Make messages of events, and begin to send what is due; returns whether to go on."""
        has_events, due = await self.outbox.find_work()
        made = await self.outbox.make_deliveries(make_message) if has_events else 0
        for name in due & self._hooks.keys():
            running = self._sending.setdefault(name, set())
            free = MAX_AT_ONCE - len(running)
            claimed = await self.outbox.claim(name, free) if free > 0 else []
            for delivery in claimed:
                task = asyncio.create_task(self._send(self._hooks[name], delivery))
                running.add(task)
                task.add_done_callback(running.discard)
        return made > 0

    async def _send(self, hook: Webhook, delivery: Delivery) -> None:
        result = await self._postman.send(hook, delivery)
        try:
            await self._settle(hook, delivery, result)
        except (WieldyError, OSError) as error:
            # The message is sent again when its claim has run out.
            _log.warning("What became of %s can't be recorded: %s", delivery.id, error)
        self._bell.set()

    async def _settle(self, hook: Webhook, delivery: Delivery, result: SendResult) -> None:
        outcome = "retried" if result.state == "waiting" else result.state
        self.attempts[hook.name, outcome] += 1
        await self.outbox.settle(delivery, result)
        if result.status == GONE and self._hooks.get(hook.name) is hook:
            _log.warning("The webhook %s is off: %s", hook.name, result.error)
            await self.outbox.stop(hook.name, result.error or "")

    async def _finish_sending(self) -> None:
        tasks = {task for each in self._sending.values() for task in each}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_STOP_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)


def _by_name(hooks: Sequence[Webhook]) -> dict[str, Webhook]:
    named = {hook.name: hook for hook in hooks}
    if len(named) < len(hooks):
        raise ValueError("Two webhooks have the same name. Give each its own.")
    return named
