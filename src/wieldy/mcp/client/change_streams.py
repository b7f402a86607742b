"""Hear of changes from a server: of its lists, and of resources that somebody follows."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, Literal

import mcp_types as types
from mcp.client.subscriptions import ListenNotSupportedError
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)

from wieldy.core.errors import RemoteFailure

from .live_session import LiveSession

Change = Literal["tools", "resources", "prompts", "updated"]
# Told what has changed; of a resource that was updated also its URI.
Tell = Callable[[Change, str | None], None]
MAX_FOLLOWED = 1000
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 30.0
_log = logging.getLogger("wieldy.mcp")


class ChangeStreams:
    """Listens to the changes of one server, over all its sessions.

    Servers of the older protocol send notifications by themselves, and are asked once for each
    followed resource. Newer ones are listened to: one stream for the lists, one for the
    resources, which is replaced without a gap when others are followed.
    """

    def __init__(self, name: Callable[[], str], tell: Tell) -> None:
        self._name = name
        self._tell = tell
        self._link: LiveSession | None = None
        self._followed: Counter[str] = Counter()
        self._again = asyncio.Event()

    async def listen(self, link: LiveSession) -> None:
        """Listen while a session lasts."""
        self._link = link
        if not link.modern:
            for uri in list(self._followed):
                with suppress(MCPError):
                    await _subscribe(link, uri)
            return
        following = _start(self._follow_all(link))
        try:
            await self._hear_lists(link)
            await following
        finally:
            following.cancel()

    async def follow(self, uri: str) -> None:
        """Hear of updates of a resource; each call needs an `unfollow`."""
        if uri not in self._followed and len(self._followed) >= MAX_FOLLOWED:
            raise RemoteFailure(f"more than {MAX_FOLLOWED:,} of its resources are followed")
        self._followed[uri] += 1
        link = self._link
        if self._followed[uri] > 1 or link is None or link.lost is not None:
            return
        self._again.set()
        if not link.modern:
            try:
                await _subscribe(link, uri)
            except MCPError as error:
                self._followed.pop(uri, None)
                raise RemoteFailure(error.message, code=error.code) from error

    async def unfollow(self, uri: str) -> None:
        """Stop hearing of updates, when the last who followed has stopped."""
        self._followed[uri] -= 1
        if self._followed[uri] > 0:
            return
        self._followed.pop(uri, None)
        self._again.set()
        link = self._link
        if link is not None and link.lost is None and not link.modern:
            params = types.UnsubscribeRequestParams(uri=uri)
            with suppress(MCPError):
                await link.client.session.send_request(
                    types.UnsubscribeRequest(params=params), types.EmptyResult
                )

    @property
    def has_followers(self) -> bool:
        """Whether somebody follows a resource."""
        return bool(self._followed)

    def hear(self, message: Any) -> None:
        """Receive a notification of a server of the older protocol."""
        match message:
            case types.ToolListChangedNotification():
                self._tell("tools", None)
            case types.ResourceListChangedNotification():
                self._tell("resources", None)
            case types.PromptListChangedNotification():
                self._tell("prompts", None)
            case types.ResourceUpdatedNotification(params=params):
                self._tell_updated(str(params.uri))

    async def _hear_lists(self, link: LiveSession) -> None:
        """Keep a stream of list changes open, if the server has one."""
        offered = link.client.server_capabilities
        told = {
            "tools": bool(offered.tools and offered.tools.list_changed),
            "resources": bool(offered.resources and offered.resources.list_changed),
            "prompts": bool(offered.prompts and offered.prompts.list_changed),
        }
        pause = _FIRST_PAUSE
        while link.lost is None and any(told.values()):
            try:
                async with link.client.listen(
                    tools_list_changed=told["tools"],
                    resources_list_changed=told["resources"],
                    prompts_list_changed=told["prompts"],
                ) as events:
                    pause = _FIRST_PAUSE
                    async for event in events:
                        self._hear_event(event)
            except (ListenNotSupportedError, MCPError) as error:
                _log.debug("%s tells of no changes: %s", self._name(), error)
                return
            except Exception as error:
                _log.debug("%s stopped telling of changes: %s", self._name(), error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE)
            # Changes may have been missed while the stream was closed.
            for kind, is_told in told.items():
                if is_told:
                    self._hear_event(_EVENTS[kind])

    async def _follow_all(self, link: LiveSession) -> None:
        """Keep a stream for the followed resources open."""
        current: asyncio.Task[None] | None = None
        if self._followed:
            self._again.set()
        try:
            while link.lost is None:
                await self._again.wait()
                self._again.clear()
                uris, ready = sorted(self._followed), asyncio.Event()
                fresh = _start(self._hear_updates(link, uris, ready)) if uris else None
                if fresh is not None:
                    # The old stream ends when the new one is heard, so that nothing is missed.
                    await ready.wait()
                if current is not None:
                    current.cancel()
                current = fresh
        finally:
            if current is not None:
                current.cancel()

    async def _hear_updates(self, link: LiveSession, uris: list[str], ready: asyncio.Event) -> None:
        try:
            async with link.client.listen(resource_subscriptions=uris) as events:
                ready.set()
                async for event in events:
                    self._hear_event(event)
        except (ListenNotSupportedError, MCPError) as error:
            _log.debug("%s tells of no updates: %s", self._name(), error)
            return
        except Exception as error:
            _log.debug("%s stopped telling of updates: %s", self._name(), error)
        finally:
            ready.set()
        await asyncio.sleep(_FIRST_PAUSE)
        self._again.set()

    def _hear_event(self, event: object) -> None:
        match event:
            case ToolsListChanged():
                self._tell("tools", None)
            case ResourcesListChanged():
                self._tell("resources", None)
            case PromptsListChanged():
                self._tell("prompts", None)
            case ResourceUpdated(uri=uri):
                self._tell_updated(uri)

    def _tell_updated(self, uri: str) -> None:
        # A server may tell of resources that nobody asked about.
        if uri in self._followed:
            self._tell("updated", uri)


_EVENTS = {
    "tools": ToolsListChanged(),
    "resources": ResourcesListChanged(),
    "prompts": PromptsListChanged(),
}


async def _subscribe(link: LiveSession, uri: str) -> None:
    params = types.SubscribeRequestParams(uri=uri)
    await link.client.session.send_request(types.SubscribeRequest(params=params), types.EmptyResult)


def _start(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work, context=Context())
