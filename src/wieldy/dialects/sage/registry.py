"""Tool objects with a name and a `call`, kept in a toolbox and called through it."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import CallDenied, CallPending, CallTimeout, InvalidArguments, ToolNotFound
from wieldy.core.limits.limits import Limits
from wieldy.core.names import listed_names
from wieldy.core.schema.schema_defaults import read_defaults, without_required_defaults
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox, own_box

from .handed_out import expect_generator, forget_generator, put_in, taken_out
from .turns import Turns

_SOURCE = "sage"
_NEEDED = "Tool must have `name` and `call(arguments)`"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
# The key beside the names: the whole, or the pairs whose keys are no text.
_ASIDE = "$aside"


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
        self.toolbox = own_box() if toolbox is None else toolbox
        self.records: list[dict[str, Any]] = []
        self._validate = validate
        self._limits = (timeout, retries)
        self._allow = None if allow is None else listed_names(allow)
        self._deny = listed_names(deny)
        self._restricted = allow is not None or bool(self._deny)
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
            raise TypeError(
                f"Tool must have `name` and `call(arguments)`: {tool_obj!r:.80} has no name"
            )
        if not callable(getattr(tool_obj, "call", None)):
            raise TypeError(f"{_NEEDED}: {name!r} has no `call`")
        checked = self._validate if validate is None else validate
        seconds = self._limits[0] if timeout is None else timeout
        again = self._limits[1] if retries is None else retries
        schema = _schema_of(tool_obj)
        self.toolbox.add(
            Tool(
                _make_entrance(tool_obj, _with_defaults(schema) if checked else _unpack_whole),
                name=name,
                description=_description_of(tool_obj),
                input_schema=without_required_defaults(schema),
                validation="strict" if checked else "describe",
                limits=Limits(timeout=seconds, retries=again, retry_unsafe=True),
                source=_SOURCE,
            ),
            on_conflict="override",
        )

    def describe(self) -> dict[str, dict[str, Any]]:
        """`{name: {description, input_schema}}` of the tools that may be called, in order."""
        return {
            tool.name: _describe_tool(tool)
            for tool in self.toolbox
            if self._permits_name(tool.name)
        }

    def call(self, name: str, arguments: Any = _NOTHING) -> Any:
        """Call a tool and give what it returns; what it raises is raised."""
        sent = self._sent_arguments(name, arguments)
        if isinstance(sent, Outcome):
            return self._tell_outcome(sent)
        token = expect_generator()
        try:
            if self._turns.free:
                return self._tell_outcome(self.toolbox.call_sync(name, sent))
            with self._turns.taken():
                outcome = self.toolbox.call_sync(name, sent)
        finally:
            forget_generator(token)
        return self._tell_outcome(outcome)

    async def acall(self, name: str, arguments: Any = _NOTHING) -> Any:
        """The same without blocking the event loop."""
        sent = self._sent_arguments(name, arguments)
        if isinstance(sent, Outcome):
            return self._tell_outcome(sent)
        token = expect_generator()
        try:
            if self._turns.free:
                return self._tell_outcome(await self.toolbox.call(name, sent))
            async with self._turns.awaited():
                outcome = await self.toolbox.call(name, sent)
        finally:
            forget_generator(token)
        return self._tell_outcome(outcome)

    def execute(self, data: Any = None) -> Any:
        """Describe, or call what the data says: `{"name": …, "arguments": {…}}`."""
        if data is None or data == "describe":
            return self.describe()
        if not isinstance(data, Mapping):
            raise TypeError(
                "MCPRegistry.execute expects None/'describe' or a dict such as "
                f"{{'name': 'echo', 'arguments': {{}}}}, not {type(data).__name__}"
            )
        op = data.get("op")
        if op == "describe" or (op is None and not data.keys() & {"op", "name"}):
            return self.describe()
        if op not in (None, "call"):
            raise ValueError(f"Unsupported op: {op!r}. It is 'describe' or 'call'.")
        name = data.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError("Missing or invalid 'name': a call needs the name of a tool")
        arguments = data.get("arguments", _NOTHING)
        if not isinstance(arguments, Mapping):
            raise TypeError(f"'arguments' must be a dict, not {type(arguments).__name__}")
        return self.call(name, arguments)

    def _sent_arguments(self, name: str, arguments: Any) -> dict[str, Any] | Outcome:
        """The call for the engine, or the outcome of a call that does not get there."""
        if self._restricted and not self._permits_name(name) and name in self.toolbox:
            reason = "this registry does not allow it"
            return Outcome(Call(name), Status.DENIED, error=CallDenied(name, reason))
        if _are_named(arguments):
            return arguments if type(arguments) is dict else dict(arguments)
        tool = self.toolbox.get(name) if isinstance(name, str) else None
        if tool is not None and tool.validation != "describe":
            came = f"arguments: expected a dict with text for keys, got {arguments!r:.80}"
            return Outcome(Call(name), Status.ERROR, error=InvalidArguments(name, [came]))
        return _pack_whole(arguments)

    def _permits_name(self, name: str) -> bool:
        if not isinstance(name, str):
            return True
        allowed = self._allow is None or _any_matches(self._allow, name)
        return allowed and not _any_matches(self._deny, name)

    def _tell_outcome(self, outcome: Outcome) -> Any:
        if self._record:
            self.records.append(_record_outcome(outcome))
        if outcome.status is Status.OK:
            return taken_out(outcome.value)
        if outcome.status is Status.PENDING:
            raise PermissionError(str(CallPending(outcome.call.tool, outcome.call.id)))
        match outcome.error:
            case ToolNotFound() as error:
                raise KeyError(f"Tool not found: {error.name}. {error}") from error
            case InvalidArguments() as error:
                raise ValueError(str(error)) from error
            case CallDenied() as error:
                raise PermissionError(str(error)) from error
            case CallTimeout() as error:
                raise TimeoutError(str(error)) from error
        return outcome.unwrap()


def _make_entrance(tool_obj: Any, receive: Callable[[Any], Any]) -> Callable[..., Any]:
    """The tool's `call` as a function of its arguments, which it receives as it should."""
    if inspect.iscoroutinefunction(tool_obj.call):

        async def call_async(**arguments: Any) -> Any:
            return put_in(await tool_obj.call(receive(arguments)))

        entrance: Callable[..., Any] = call_async
    else:

        def call(**arguments: Any) -> Any:
            return put_in(tool_obj.call(receive(arguments)))

        entrance = call
    entrance.__dict__["tool_obj"] = tool_obj
    return entrance


def _with_defaults(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    defaults = read_defaults(schema)
    return dict if defaults is None else defaults.fill


def _describe_tool(tool: Tool) -> dict[str, Any]:
    """A tool as a planner sees it; one of ours as its object says now."""
    tool_obj = getattr(tool.function, "tool_obj", None)
    if tool_obj is None:
        return {"description": tool.description, "input_schema": tool.input_schema}
    return {"description": _description_of(tool_obj), "input_schema": _schema_of(tool_obj)}


def _description_of(tool_obj: Any) -> str:
    return str(getattr(tool_obj, "description", None) or "")


def _schema_of(tool_obj: Any) -> dict[str, Any]:
    return dict(getattr(tool_obj, "input_schema", None) or {})


def _record_outcome(outcome: Outcome) -> dict[str, Any]:
    value = outcome.value
    structured = isinstance(value, Mapping) and "output" in value and "meta" in value
    return {
        "name": outcome.call.tool,
        "ok": outcome.ok,
        "ms": (outcome.seconds or 0.0) * 1000,
        "error": None if outcome.ok else outcome.text,
        "meta": value["meta"] if structured else None,
    }


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _are_named(arguments: Any) -> bool:
    """Whether the arguments are a dict with text for keys, which goes as it is."""
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        return False
    for key in arguments:  # noqa: SIM110 - every call comes here, and a generator costs thrice
        if type(key) is not str or key == _ASIDE:
            return False
    return True


def _pack_whole(arguments: Any) -> dict[str, Any]:
    """The arguments under names."""
    if not isinstance(arguments, Mapping):
        return {_ASIDE: {"whole": arguments}}
    named = {key: value for key, value in arguments.items() if _has_name(key)}
    return {
        **named,
        _ASIDE: {"pairs": [[key, each] for key, each in arguments.items() if not _has_name(key)]},
    }


def _unpack_whole(arguments: dict[str, Any]) -> Any:
    """What the tool gets; what could hide a named argument from the rules stays packed."""
    if _ASIDE not in arguments:
        return arguments
    match arguments[_ASIDE]:
        case {"whole": whole} if len(arguments) == 1 and not isinstance(whole, Mapping):
            return whole
        case {"pairs": [*pairs]} if all(map(_is_aside, pairs)):
            named = {key: value for key, value in arguments.items() if key != _ASIDE}
            return {**named, **dict(pairs)}
    return arguments


def _has_name(key: Any) -> bool:
    return isinstance(key, str) and key != _ASIDE


def _is_aside(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and not _has_name(pair[0])
