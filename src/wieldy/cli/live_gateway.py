"""A gateway while it is served: its file is read again when it changes."""

import asyncio
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from wieldy.core.errors import InvalidSource
from wieldy.core.permission.rules import Rule
from wieldy.server.config.file_limits import read_limits
from wieldy.server.config.gateway_file import CallerTable, GatewayFile
from wieldy.server.config.mistakes import FileMistakes, read_gateway
from wieldy.server.config.webhook_tables import WebhookUnusable, make_webhooks
from wieldy.server.webhooks.dispatch import Webhooks

from . import screen
from .extra_imports import import_extra
from .gateway import add_rules, add_server, check_server, load_gateway
from .gateway_offer import GatewayOffer
from .server_keeper import ServerKeeper
from .sources import LoadedSources

if TYPE_CHECKING:
    from wieldy.server.caller_sources import CallerSources

_PAUSE = 1.0
# So long calls wait for servers at the start; who takes longer comes later.
_FIRST_SECONDS = 10.0
_log = logging.getLogger("wieldy")
# These can't be changed while the gateway is served.
_NEED_RESTART = (
    "name",
    "instructions",
    "store",
    "lock",
    "on_change",
    "approval_ttl",
    "max_result",
    "listen",
    "metrics",
    "tasks",
    "retention",
    "sources",
    "search",
    "code_mode",
    "skills",
    "access",
)


class LiveGateway:
    """What a file says, in force, and changed with it.

    A change is the difference between two files that were checked: what both say alike is left
    alone, so that no session ends and no server is connected anew without need.

    Attributes:
        path: The file itself.
        file: What is in force.
        found: The tools, in their toolbox.
        views: The views by name, changed in place.
        callers: What named callers may do and see, changed in place.
        people: The servers that everybody reaches as themselves, and what is known of callers.
        webhooks: Who is told what happens, changed in place.
        started: Whether each server has answered, can't be reached, or had its first seconds.
    """

    def __init__(
        self,
        path: Path,
        file: GatewayFile,
        found: LoadedSources,
        callers: dict[str, CallerTable],
        people: "CallerSources",
    ) -> None:
        self.file = file
        self.found = found
        self.callers = callers
        self.people = people
        # A view is a part of what is offered: the tools of agents are for agents alone.
        found.offer = people.screen(found.offer)
        found.toolbox.desk.hold_to_claims(people)
        self._offer = GatewayOffer(file, found)
        self.views = self._offer.views
        self.path = path
        self.started = False
        self._told: list[Callable[[], None]] = []
        self.webhooks = Webhooks(found.toolbox, make_webhooks(file.webhooks))
        self._rules: list[Rule] = add_rules(file, found.toolbox)
        self._limits = read_limits(file)
        limits = found.toolbox.call_limits
        limits.replace([*limits, *self._limits])
        self._keeper = ServerKeeper(found.toolbox.mcp, self._connect)
        self._seen = _read_marks(path)
        self._tried: set[str] = set()

    @classmethod
    async def open(cls, path: Path, locked: bool = True, *, connect: bool = True) -> "LiveGateway":
        """Read a file and load what it names.

        Args:
            path: The file.
            locked: Whether its lock holds back what has changed.
            connect: Whether to wait until each server has answered or can't be reached. Otherwise
                `watch` connects to them.
        """
        marks_before = _read_marks(path)
        file = read_gateway(path)
        if not locked:
            file = file.model_copy(update={"lock": None, "on_change": "block"})
        # A missing variable of the environment is reported before anything is started.
        make_webhooks(file.webhooks)
        callers = dict(file.callers)
        people = import_extra("wieldy.server.caller_sources", "CallerSources", "server")(callers)
        found = await load_gateway(file, path.parent.absolute(), people, connect=connect)
        gateway = cls(path, file, found, callers, people)
        gateway._seen = marks_before
        if connect or not gateway._enabled():
            gateway.started = True
            gateway._tried.update(file.servers)
        return gateway

    async def watch(self) -> None:
        """Read the file again whenever it changes, until this is cancelled.

        Servers that can't be reached are tried again meanwhile.
        """
        starting = asyncio.create_task(self._begin(() if self.started else self._enabled()))
        try:
            # The first attempts come before any others.
            await asyncio.sleep(0)
            while True:
                self._keeper.look(self._enabled())
                await asyncio.sleep(_PAUSE)
                marks = _read_marks(self.path)
                if marks is not None and marks != self._seen:
                    self._seen = marks
                    await self.reload()
        finally:
            starting.cancel()
            await self._keeper.close()

    async def _begin(self, names: Collection[str]) -> None:
        """Connect to servers, and wait for them for their first seconds."""
        self._tried.difference_update(names)
        attempts = self._keeper.begin(names)
        if attempts:
            await asyncio.wait(attempts, timeout=_FIRST_SECONDS)
        self.started = True
        while self._told:
            self._told.pop()()

    def when_started(self, told: Callable[[], None]) -> None:
        """Call a function as soon as it has started."""
        if self.started:
            told()
        else:
            self._told.append(told)

    def _enabled(self) -> list[str]:
        return [name for name, server in self.file.servers.items() if not server.disabled]

    async def _connect(self, name: str) -> bool:
        """Try to connect a server; a failure is reported once."""
        folder, again = self.path.parent.absolute(), name in self._tried
        self._tried.add(name)
        connected = await add_server(self.found, name, self.file, folder, self.people, again)
        if connected and self.started:
            screen.say(f"The server {name} was connected.")
        return connected

    async def reload(self) -> bool:
        """Read the file again; one with mistakes changes nothing. Returns whether it was taken."""
        try:
            file = read_gateway(self.path)
        except FileMistakes as error:
            screen.fail(
                f"{self.path} has changed and is not used, because it has mistakes.\n{error}"
            )
            return False
        try:
            done = await self.apply(file)
        except (WebhookUnusable, InvalidSource) as error:
            screen.fail(f"{self.path} has changed and is not used. {error}")
            return False
        except Exception as error:
            # The gateway goes on, and looks at its file again when it changes.
            screen.fail(
                f"{self.path} has changed, and not all of it could be put in force: {error}"
            )
            _log.exception("A changed file could not be put in force")
            return False
        for line in done:
            screen.say(line)
        return True

    async def apply(self, file: GatewayFile) -> list[str]:
        """Put another file in force; returns what was done, for people.

        Rules, modes, views and callers change in one step, and the tools of servers that go or
        change are gone in the same step: no tool is there without the rules that hold for it.
        """
        # This raises if a variable of the environment is wrong, before anything is changed.
        webhooks = make_webhooks(file.webhooks)
        changed = [
            name for name, each in file.servers.items() if self.file.servers.get(name) != each
        ]
        folder = self.path.parent.absolute()
        for name in changed:
            check_server(name, file.servers[name], folder)
        going = [name for name, each in self.file.servers.items() if file.servers.get(name) != each]
        for name in going:
            await self._keeper.leave_alone(name)
        before, self.file = self.file, file
        # The tools are taken out before the first of these waits for its server to end.
        closing = [asyncio.create_task(self._remove_server(name)) for name in going]
        await asyncio.sleep(0)
        done = self._change_rules(before, file)
        if webhooks != self.webhooks.hooks:
            await self.webhooks.use(webhooks)
            done.append("The webhooks have changed.")
        done += [said for said in await asyncio.gather(*closing) if said is not None]
        await self._begin([name for name in changed if not file.servers[name].disabled])
        later = [name for name in _NEED_RESTART if getattr(before, name) != getattr(file, name)]
        if later:
            done.append(f"Changed, but in force only after a restart: {', '.join(later)}.")
        return [f"{self.path} was read again.", *done]

    def _change_rules(self, before: GatewayFile, file: GatewayFile) -> list[str]:
        box, done = self.found.toolbox, []
        if before.mode != file.mode:
            box.set_mode(file.mode, by=str(self.path))
            done.append(f"The permission mode is {file.mode}.")
        if before.rules != file.rules:
            kept = {id(rule) for rule in self._rules}
            others = [rule for rule in box.rules if id(rule) not in kept]
            self._rules = add_rules(file, None)
            box.rules.replace([*others, *self._rules])
            done.append(f"There are {len(self._rules)} rules.")
        if before.limits != file.limits:
            own, self._limits = self._limits, read_limits(file)
            programs = [limit for limit in box.call_limits if limit not in own]
            # A limit that both files have keeps what it has counted.
            box.call_limits.replace([*programs, *self._limits])
            done.append(f"There are {len(self._limits)} limits on calls.")
        if before.views != file.views or before.callers != file.callers:
            self._offer.change_views(file)
            self.callers.clear()
            self.callers.update(file.callers)
            # Clients are told to look at their tools again.
            box.rules.count_change()
            done.append("Views and callers have changed.")
        return done

    async def _remove_server(self, name: str) -> str | None:
        """Take a server out; gives what was done, for people."""
        self.people.drop(name)
        if name not in self.found.toolbox.mcp:
            return None
        await self.found.toolbox.remove_mcp(name)
        return f"The server {name} was disconnected."


async def load_file(path: Path, locked: bool = True) -> LoadedSources:
    """The tools of a gateway's file with its store, rules and limits, for other commands."""
    return (await LiveGateway.open(path, locked)).found


def _read_marks(path: Path) -> tuple[int, int, int] | None:
    """A value that changes whenever the file is written; None while there is no file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
