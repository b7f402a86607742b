"""A tool as a class: its parameters, and what it gives."""

import copy
import inspect
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wieldy.core.arguments import Intake
from wieldy.core.call import Call
from wieldy.core.errors import InvalidArguments
from wieldy.core.run import Run
from wieldy.core.tool import Tool

from .errand import current_errand

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
    """Whether a tool runs by itself or after a person agreed."""

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
        # Type checkers let a tool name its own parameters only where these may be any.
        @abstractmethod
        async def execute(self, *args: Any, **params: Any) -> ToolResult: ...
    else:

        @abstractmethod
        async def execute(self, **params):
            """Do it."""

    def validate_params(self, params: dict[str, Any]) -> str | None:
        """What is wrong with the parameters, or None."""
        declared = self._declared
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
            accepted = _accepted(engine_tool(self), filled)
        except InvalidArguments as error:
            return ToolResult(False, error="; ".join(error.problems))
        return await self._executed(accepted)

    async def _accepted_already(self, params: dict[str, Any]) -> ToolResult:
        """The same for parameters whose types the engine has checked."""
        filled = self._with_defaults(params)
        wrong = self.validate_params(filled)
        return await self._executed(filled) if wrong is None else ToolResult(False, error=wrong)

    async def _executed(self, params: dict[str, Any]) -> ToolResult:
        try:
            result: Any = self.execute(**params)
            result = await result if inspect.isawaitable(result) else result
        except Exception as error:
            # The document promises a result, whatever the tool raises.
            return ToolResult(False, error=f"Tool execution failed: {error}")
        return result if isinstance(result, ToolResult) else ToolResult(True, data=result)

    @cached_property
    def _declared(self) -> dict[str, ToolParameter]:
        return {parameter.name: parameter for parameter in self.get_parameters()}

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        declared = self._declared.items()
        return {name: each.default for name, each in declared if each.default is not None}

    def _with_defaults(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**copy.deepcopy(self._defaults), **params} if self._defaults else params


def engine_tool(tool: BaseTool) -> Tool:
    """The tool as the engine runs it: an unsuccessful result is an error there."""

    plain = type(tool).__call__ is BaseTool.__call__

    async def execute(**params: Any) -> Any:
        errand = current_errand.get()
        # Calls made inside this one are not this errand's.
        current_errand.set(None)
        if errand is not None:
            await errand.start()
        result = await (tool._accepted_already(params) if plain else tool(**params))
        if errand is not None:
            errand.result = result
        if not result.success:
            raise ToolError(result)
        return result.data

    execute.__dict__["base_tool"] = tool
    return Tool(
        execute,
        name=tool.name,
        description=tool.description,
        input_schema=schema_of(tool),
        permission=tool.permission.value,
        source=_SOURCE,
    )


def is_current(known: Tool, tool: BaseTool) -> bool:
    """Whether the engine's tool is this one, as it is now."""
    same = getattr(known.function, "base_tool", None) is tool
    facts = (known.permission.value, known.description)
    return same and facts == (tool.permission.value, tool.description)


def schema_of(tool: BaseTool) -> dict[str, Any]:
    """The parameters as a JSON schema."""
    parameters = tool.get_parameters()
    needed = [each.name for each in parameters if each.required and each.default is None]
    schema = {
        "type": "object",
        "properties": {parameter.name: _property(parameter) for parameter in parameters},
        "additionalProperties": False,
    }
    return {**schema, "required": needed} if needed else schema


def _property(parameter: ToolParameter) -> dict[str, Any]:
    kind = _TYPES.get(parameter.type.lower())
    found: dict[str, Any] = {} if kind is None else {"type": kind}
    if parameter.description:
        found["description"] = parameter.description
    if parameter.default is not None:
        found["default"] = parameter.default
    return found


def _accepted(tool: Tool, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with their declared types, or raise `InvalidArguments`."""
    run = Run(Call(tool.name, params), None)
    run.tool = tool
    return Intake(tool).accept(run)
