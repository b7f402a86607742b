"""A tool as a class: its parameters, and what it gives."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from wieldy.core.active_call import ActiveCall
from wieldy.core.arguments.intake import Intake
from wieldy.core.call import Call
from wieldy.core.errors import InvalidArguments
from wieldy.core.schema.schema_defaults import Defaults, read_defaults
from wieldy.core.tool import Tool

from .sent_call import current_errand

_SOURCE = "artifactflow"
_TYPES = {
    "string": "string",
    "str": "string",
    "integer": "integer",
    "int": "integer",
    "number": "number",
    "float": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "array": "array",
    "list": "array",
    "object": "object",
    "dict": "object",
}


class ToolPermission(Enum):
    """Whether a tool runs at once or needs a person's approval."""

    AUTO = "auto"
    CONFIRM = "confirm"


@dataclass
class ToolParameter:
    """One parameter of a tool."""

    name: str
    type: str
    description: str
    required: bool = True
    default: Any = None

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict."""
        return asdict(self)


@dataclass
class ToolResult:
    """What a tool gave, or why it gave nothing."""

    success: bool
    data: Any = None
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict."""
        return {name: getattr(self, name) for name in ("success", "data", "error", "metadata")}


class ToolError(Exception):
    """An unsuccessful result on its way through the engine."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.error or "the tool was not successful")
        self.result = result


class BaseTool(ABC):
    """A tool: derive from it, say what it takes, and do it in `execute`."""

    # Whether a call that a crash cut off goes on where it was if it is run again.
    resumable = False
    # Whether the results come from outside.
    _untrusted: bool | None = None

    def __init__(
        self,
        name: str,
        description: str,
        permission: ToolPermission = ToolPermission.AUTO,
        **kwargs: Any,
    ) -> None:
        self.name = name
        self.description = description
        self.permission = permission
        self.config = kwargs

    @abstractmethod
    def get_parameters(self) -> list[ToolParameter]:
        """What the tool takes."""

    if TYPE_CHECKING:
        # With `Any` parameters, type checkers allow a subclass to name its own.
        @abstractmethod
        async def execute(self, *args: Any, **params: Any) -> ToolResult: ...
    else:

        @abstractmethod
        async def execute(self, **params):
            """Do it."""

    def validate_params(self, params: dict[str, Any]) -> str | None:
        """Say what is wrong with the parameters; None if nothing is."""
        declared = self._declared_parameters
        for name, parameter in declared.items():
            if parameter.required and name not in params:
                return f"Missing required parameter: {name}"
        if params.keys() <= declared.keys():
            return None
        unknown = next(name for name in params if name not in declared)
        return f"Unknown parameter: {unknown}"

    async def __call__(self, **params: Any) -> ToolResult:
        """Check the parameters and execute; whatever goes wrong is a result."""
        filled = self._with_defaults(params)
        wrong = self.validate_params(filled)
        if wrong is not None:
            return ToolResult(False, error=wrong)
        try:
            accepted = self._accept_params(filled)
        except InvalidArguments as error:
            return ToolResult(False, error="; ".join(error.problems))
        try:
            return as_result(await _await_given(self.execute(**accepted)))
        except Exception as error:
            # ArtifactFlow promises a result, whatever the tool raises.
            return ToolResult(False, error=f"Tool execution failed: {error}")

    async def _checked(self, **params: Any) -> Any:
        """Execute with defaults filled in; the types have been checked."""
        filled = self._with_defaults(params)
        wrong = self.validate_params(filled)
        if wrong is not None:
            return ToolResult(False, error=wrong)
        return await _await_given(self.execute(**filled))

    @cached_property
    def _declared_parameters(self) -> dict[str, ToolParameter]:
        return {parameter.name: parameter for parameter in self.get_parameters()}

    @cached_property
    def _read_own_defaults(self) -> Defaults | None:
        return read_defaults(schema_of(self))

    def _with_defaults(self, params: dict[str, Any]) -> dict[str, Any]:
        filled: dict[str, Any] = (
            params if self._read_own_defaults is None else self._read_own_defaults.fill(params)
        )
        return filled

    @cached_property
    def _checked_tool(self) -> tuple[Tool, Intake]:
        tool = engine_tool(self)
        return tool, Intake(tool)

    def _accept_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters with their declared types, or raise `InvalidArguments`."""
        tool, intake = self._checked_tool
        try:
            return intake.values(params)[1]
        except ValueError:
            active = ActiveCall(Call(tool.name, params), None)
            active.tool = tool
            return intake.accept(active)

    @cached_property
    def body(self) -> Callable[..., Any]:
        """What the engine calls, with parameters that it has checked."""
        kind = type(self)
        if kind.__call__ is not BaseTool.__call__:
            # A tool that overrides `__call__` is called through it.
            return self.__call__
        if self._read_own_defaults or kind.validate_params is not BaseTool.validate_params:
            return self._checked
        return self.execute


def need_tool(tool: Any) -> None:
    """Raise `TypeError` for what is no tool."""
    if not isinstance(tool, BaseTool):
        raise TypeError(f"a tool is an object of a class derived from BaseTool, not {tool!r:.80}")


def engine_tool(tool: BaseTool) -> Tool:
    """The tool as the engine runs it: an unsuccessful result is an error there."""
    name, registered = tool.name, tool

    async def execute(**params: Any) -> Any:
        errand = current_errand.get()
        if errand is None or errand.running or errand.tool != name:
            result = as_result(await _await_given(registered.body(**params)))
        else:
            errand.running = True
            try:
                given = (errand.own or registered).body(**params)
                # Almost always a plain coroutine, for which the fast check is enough.
                given = await given if type(given) is CoroutineType else await _await_given(given)
                result = given if type(given) is ToolResult else as_result(given)
                errand.result = result
            finally:
                errand.running = False
        if not result.success:
            raise ToolError(result)
        return result.data

    execute.__dict__["base_tool"] = tool
    execute.__dict__["said"] = (tool.permission, tool.description)
    return Tool(
        execute,
        name=tool.name,
        description=tool.description,
        input_schema=schema_of(tool),
        permission=tool.permission.value,
        # Declared types are checked here whatever other tools of the toolbox do.
        validation="repair",
        source=_SOURCE,
        resumable=tool.resumable,
        untrusted=tool._untrusted,
    )


def renewed_tool(known: Tool | None, tool: BaseTool) -> Tool | None:
    """The engine's tool if this one is new or has changed; None if it has not changed.

    Tags, a group or a stricter permission that others have set on the engine's tool are kept,
    unless the tool itself now declares something else.
    """
    facts = {} if known is None else known.function.__dict__
    if known is None or facts.get("base_tool") is not tool:
        return engine_tool(tool)
    permission, description = facts["said"]
    if permission is tool.permission and description is tool.description:
        return None
    facts["said"] = (tool.permission, tool.description)
    return known.replace(permission=tool.permission.value, description=tool.description)


async def _await_given(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


def as_result(given: Any) -> ToolResult:
    """What a tool gave; a plain value is the data of a result."""
    return given if isinstance(given, ToolResult) else ToolResult(True, data=given)


def schema_of(tool: BaseTool) -> dict[str, Any]:
    """The parameters as a JSON schema."""
    parameters = tool.get_parameters()
    needed = [each.name for each in parameters if each.required and each.default is None]
    schema = {
        "type": "object",
        "properties": {parameter.name: _property_schema(parameter) for parameter in parameters},
        "additionalProperties": False,
    }
    return {**schema, "required": needed} if needed else schema


def _property_schema(parameter: ToolParameter) -> dict[str, Any]:
    kind = _TYPES.get(parameter.type.lower())
    found: dict[str, Any] = {} if kind is None else {"type": kind}
    if parameter.description:
        found["description"] = parameter.description
    if parameter.default is not None:
        found["default"] = parameter.default
    return found
