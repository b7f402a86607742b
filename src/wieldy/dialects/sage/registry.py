"""Tool objects with a name and a `call`, kept in a toolbox and called through it."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from wieldy.core.call import Outcome, Status
from wieldy.core.errors import (
    CallDenied,
    CallPending,
    CallTimeout,
    InvalidArguments,
    ToolNotFound,
)
from wieldy.core.limits import Limits
from wieldy.core.schema import fill_defaults
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox

from .turns import Turns

_SOURCE = "sage"


class MCPRegistry:
    """Registers tool objects, describes them to a planner and calls them by name.

    Everything beside `toolbox` is off unless given: `validate` holds arguments to
    the tool's `input_schema` and fills in its defaults, `allow` and `deny` are names
    or patterns, `timeout` is in seconds, `retries` are attempts after the first,
    `record` fills `records`, `max_concurrency` bounds the calls that run at once and
    `max_queue` those that wait for their turn.
    """

    def __init__(
        self,
        validate: bool = False,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        timeout: float | None = None,
        retries: int = 0,
        record: bool = False,
        max_concurrency: int | None = None,
        max_queue: int | None = None,
        toolbox: Toolbox | None = None,
    ) -> None:
        self.toolbox = Toolbox() if toolbox is None else toolbox
        self.records: list[dict[str, Any]] = []
        self._validate = validate
        self._limits = (timeout, retries)
        self._allow = None if allow is None else _names(allow)
        self._deny = _names(deny or ())
        self._record = record
        self._turns = Turns(max_concurrency, max_queue)

    def register(
        self,
        tool_obj: Any,
        validate: bool | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> None:
        """Register a tool object; one of the same name is replaced."""
        name = getattr(tool_obj, "name", None)
        if not isinstance(name, str) or not name:
            raise TypeError("a tool needs a `name`")
        if not callable(getattr(tool_obj, "call", None)):
            raise TypeError(f"the tool {name!r} needs a method `call(arguments)`")
        checked = self._validate if validate is None else validate
        seconds = self._limits[0] if timeout is None else timeout
        again = self._limits[1] if retries is None else retries
        schema = _schema_of(tool_obj)
        self.toolbox.add(
            Tool(
                _entrance(tool_obj, schema if checked else None),
                name=name,
                description=_description_of(tool_obj),
                input_schema=_without_needless(schema),
                validation="strict" if checked else "describe",
                limits=Limits(timeout=seconds, retries=again, retry_unsafe=True),
                source=_SOURCE,
            ),
            on_conflict="override",
        )

    def describe(self) -> dict[str, dict[str, Any]]:
        """`{name: {description, input_schema}}` of the tools that may be called, in order."""
        return {tool.name: _described(tool) for tool in self.toolbox if self._permits(tool.name)}

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a tool and give what it returns; what it raises is raised."""
        sent = self._checked(name, arguments)
        with self._turns.taken():
            outcome = self.toolbox.call_sync(name, sent)
        return self._told(outcome)

    async def acall(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The same without blocking the event loop."""
        sent = self._checked(name, arguments)
        if self._turns.free:
            return self._told(await self.toolbox.call(name, sent))
        async with self._turns.awaited():
            outcome = await self.toolbox.call(name, sent)
        return self._told(outcome)

    def execute(self, data: Any = None) -> Any:
        """Describe, or call what the data says: `{"name": …, "arguments": {…}}`."""
        if data is None or data == "describe" or data == {}:
            return self.describe()
        if not isinstance(data, Mapping):
            raise TypeError(f"execute takes a mapping, not {type(data).__name__}")
        op = data.get("op", "call")
        if op == "describe":
            return self.describe()
        name = data.get("name")
        if op != "call":
            raise ValueError(f"op must be 'describe' or 'call', not {op!r}")
        if not isinstance(name, str) or not name:
            raise ValueError("a call needs the name of a tool")
        return self.call(name, data.get("arguments"))

    def _checked(self, name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        if arguments is not None and not isinstance(arguments, Mapping):
            raise TypeError(f"arguments must be a mapping, not {type(arguments).__name__}")
        if not self._permits(name) and name in self.toolbox:
            raise PermissionError(f"the tool {name!r} may not be called through this registry")
        return dict(arguments or {})

    def _permits(self, name: str) -> bool:
        if self._allow is None and not self._deny:
            return True
        allowed = self._allow is None or _any_matches(self._allow, name)
        return allowed and not _any_matches(self._deny, name)

    def _told(self, outcome: Outcome) -> Any:
        if self._record:
            self.records.append(_recorded(outcome))
        if outcome.ok:
            return outcome.value
        if outcome.status is Status.PENDING:
            raise PermissionError(str(CallPending(outcome.call.tool, outcome.call.id)))
        match outcome.error:
            case ToolNotFound() as error:
                raise KeyError(str(error)) from error
            case InvalidArguments() as error:
                raise ValueError(str(error)) from error
            case CallDenied() as error:
                raise PermissionError(str(error)) from error
            case CallTimeout() as error:
                raise TimeoutError(str(error)) from error
        return outcome.unwrap()


def _entrance(tool_obj: Any, schema: Mapping[str, Any] | None) -> Callable[..., Any]:
    """The tool's `call` as a function of its arguments; with a schema, its defaults filled in."""
    if inspect.iscoroutinefunction(tool_obj.call):

        async def call_async(**arguments: Any) -> Any:
            return await tool_obj.call(fill_defaults(schema, arguments))

        entrance: Callable[..., Any] = call_async
    else:

        def call(**arguments: Any) -> Any:
            return tool_obj.call(fill_defaults(schema, arguments))

        entrance = call
    entrance.__dict__["tool_obj"] = tool_obj
    return entrance


def _described(tool: Tool) -> dict[str, Any]:
    """A tool as a planner sees it; one of ours as its object says now."""
    tool_obj = getattr(tool.function, "tool_obj", None)
    if tool_obj is None:
        return {"description": tool.description, "input_schema": tool.input_schema}
    return {"description": _description_of(tool_obj), "input_schema": _schema_of(tool_obj)}


def _description_of(tool_obj: Any) -> str:
    return str(getattr(tool_obj, "description", None) or "")


def _schema_of(tool_obj: Any) -> dict[str, Any]:
    return dict(getattr(tool_obj, "input_schema", None) or {})


def _without_needless(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with only those arguments required that have no default."""
    declared = {"type": "object", "properties": {}, **schema}
    properties = declared["properties"]
    if "required" in declared:
        declared["required"] = [
            name for name in declared["required"] if "default" not in _part(properties, name)
        ]
    return declared


def _part(properties: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = properties.get(name)
    return part if isinstance(part, Mapping) else {}


def _recorded(outcome: Outcome) -> dict[str, Any]:
    value = outcome.value
    structured = isinstance(value, Mapping) and "output" in value and "meta" in value
    return {
        "name": outcome.call.tool,
        "ok": outcome.ok,
        "ms": (outcome.seconds or 0.0) * 1000,
        "error": None if outcome.ok else outcome.text,
        "meta": value["meta"] if structured else None,
    }


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
