"""What a server offers besides tools: its resources, templates and prompts, read on first need."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, Literal, TypeVar

import mcp_types as types
from mcp.client import Client
from mcp.shared.uri_template import UriTemplate
from pydantic import AnyUrl, BaseModel, TypeAdapter, ValidationError

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.errors import WieldyError, describe_exception
from wieldy.core.secrets.secret import redact_data, redact_text
from wieldy.core.task import time_limit
from wieldy.core.visible_text import visible_line

from .raw_requests import ask_raw, first_error

Kind = Literal["resources", "templates", "prompts"]
Offered = tuple[dict[str, Any], ...]
T = TypeVar("T")
Ask = Callable[[Callable[[Client], Awaitable[Any]]], Awaitable[Any]]
KINDS: tuple[Kind, ...] = ("resources", "templates", "prompts")
MAX_ITEMS = 10_000
_MAX_PAGES = 200
# The definition of one thing, and of all of one kind, in characters of JSON.
_MAX_ITEM, _MAX_LIST = 65_536, 8_388_608
_MAX_NAME = 2048
_SECONDS = 10.0
# A list that could not be read is asked for again after this time.
_REST_SECONDS = 5.0
_MAX_ERRORS = 100
_METHODS: dict[Kind, tuple[str, str, type[BaseModel], str]] = {
    "resources": ("resources/list", "resources", types.Resource, "uri"),
    "templates": (
        "resources/templates/list",
        "resourceTemplates",
        types.ResourceTemplate,
        "uriTemplate",
    ),
    "prompts": ("prompts/list", "prompts", types.Prompt, "name"),
}
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+")
_URL: TypeAdapter[AnyUrl] = TypeAdapter(AnyUrl)
_log = logging.getLogger("wieldy.mcp")


class Offerings:
    """The lists of one server. All methods but `current` run on the connection's loop.

    A list is read when somebody needs it, and kept until the server says that it has changed or
    a new session begins. What can't be read is left out, and `errors` says why.
    """

    def __init__(self, name: str, ask: Ask) -> None:
        # Changes with each list that is dropped.
        self.version = 0
        self.errors: dict[str, str] = {}
        self.secrets: tuple[str, ...] = ()
        self._name = name
        self._ask = ask
        self._lists: dict[Kind, Offered] = {}
        self._reading: dict[Kind, asyncio.Task[Offered]] = {}
        self._rests: dict[Kind, float] = {}

    def current(self, kind: Kind) -> Offered | None:
        """The list as it is known, from any thread."""
        return self._lists.get(kind)

    def drop(self, *kinds: Kind) -> None:
        """Read these lists again when they are next needed."""
        self.version += 1
        for kind in kinds:
            self._lists.pop(kind, None)
            self._reading.pop(kind, None)
            self._rests.pop(kind, None)

    async def read(self, kind: Kind) -> Offered:
        """The list, asked for once for all who wait; empty if the server can't be asked."""
        known = self._lists.get(kind)
        loop = asyncio.get_running_loop()
        if known is not None or loop.time() < self._rests.get(kind, 0.0):
            return known or ()
        task = self._reading.get(kind)
        if task is None or task.done():
            # An empty context, because the list belongs to no caller.
            task = loop.create_task(self._fetch(kind), context=Context())
            self._reading[kind] = task
        return await asyncio.shield(task)

    async def _fetch(self, kind: Kind) -> Offered:
        version = self.version
        self.errors = {k: why for k, why in self.errors.items() if not k.startswith(kind)}
        try:
            async with time_limit(_SECONDS):
                found: Offered = await self._ask(lambda client: self._read_all(client, kind))
        except Exception as error:
            why = (
                "it did not answer in time"
                if isinstance(error, TimeoutError)
                else _error_reason(error)
            )
            self._note(kind, redact_text(why, self.secrets))
            self._rests[kind] = asyncio.get_running_loop().time() + _REST_SECONDS
            return ()
        if version == self.version:
            self._lists[kind] = found
            self.version += 1
        return found

    async def _read_all(self, client: Client, kind: Kind) -> Offered:
        method, key, model, name_key = _METHODS[kind]
        capabilities = client.server_capabilities
        if (capabilities.prompts if kind == "prompts" else capabilities.resources) is None:
            return ()
        items: dict[str, dict[str, Any]] = {}
        cursor, seen, size = None, set[str](), 0
        for _ in range(_MAX_PAGES):
            page = await ask_raw(client, method, {} if cursor is None else {"cursor": cursor})
            listed = page.get(key)
            if not isinstance(listed, list):
                raise ValueError(f"its answer has no list of {key}")
            for item in listed:
                size += self._keep(kind, model, name_key, item, items)
                if len(items) >= MAX_ITEMS or size > _MAX_LIST:
                    self._note(kind, f"the list is too long; the first {len(items)} are offered")
                    return tuple(items.values())
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return tuple(items.values())
            if cursor in seen:
                break
            seen.add(cursor)
        self._note(kind, "the list never ends; the rest was not read")
        return tuple(items.values())

    def _keep(
        self, kind: Kind, model: type[BaseModel], key: str, item: Any, kept: dict[str, Any]
    ) -> int:
        """Keep an item that can be read, and return its size."""
        try:
            shape = model.model_validate(item, by_name=False)
            found = shape.model_dump(by_alias=True, mode="json", exclude_none=True)
            size = len(dump_json(found, MAX_WRAPPED))
            _check_item(kind, found, found[key], size)
        except (ValueError, TypeError) as error:
            self._note(f"{kind}: {_label_item(item, key, len(kept))}", _error_reason(error))
            return 0
        if found[key] in kept:
            self._note(f"{kind}: {_label_item(item, key, len(kept))}", "it is listed twice")
            return 0
        kept[found[key]] = redact_data(found, self.secrets)
        return size

    def _note(self, place: str, why: str) -> None:
        if len(self.errors) < _MAX_ERRORS:
            _log.warning("%s: %s: %s", self._name, place, why)
            self.errors[place] = why


def _check_item(kind: Kind, found: dict[str, Any], name: str, size: int) -> None:
    if size > _MAX_ITEM:
        raise ValueError(f"its definition is longer than {_MAX_ITEM:,} characters")
    if not name or len(name) > _MAX_NAME:
        raise ValueError(f"its name has no character, or more than {_MAX_NAME:,}")
    if kind == "prompts":
        if not name.isprintable():
            raise ValueError("its name has characters that can't be shown")
    elif not _URI.fullmatch(name):
        raise ValueError("its URI is not one")
    if kind == "templates":
        UriTemplate.parse(name)
    if kind == "resources":
        # Clients with stricter types would refuse the whole list.
        _URL.validate_python(name)


def _label_item(item: Any, key: str, number: int) -> str:
    name = item.get(key) if isinstance(item, dict) else None
    return visible_line(name, 80) if isinstance(name, str) and name else f"number {number + 1}"


def _error_reason(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return first_error(error)
    said = str(error) if isinstance(error, WieldyError | ValueError) else describe_exception(error)
    return said[:300]
