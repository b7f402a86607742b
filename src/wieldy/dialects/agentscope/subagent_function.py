"""Agents as functions of a toolkit: `make_subagent_tool`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from wieldy.agent.agent import BaseAgent
from wieldy.agent.subagents.shared_toolbox import join_toolbox
from wieldy.agent.subagents.subagent import Subagent, SubagentInput
from wieldy.core.active_call import current_call
from wieldy.core.errors import InputNeeded
from wieldy.core.run_errors import RunInterrupted
from wieldy.core.tool import Tool
from wieldy.toolbox import Toolbox

from .function_schema import function_schema
from .tool_response import ToolResponse, text_response, to_response

_MAX_DEPTH = 3
_GROUP = "subagents"


@dataclass
class SubAgentSpec:
    """What a subagent is called, and what it is for.

    Attributes:
        name: Its name.
        description: What its caller is told of it.
        tools: Functions that an `Agent` uses beside its own.
        sys_prompt: What an `Agent` is told before anything else.
    """

    name: str
    description: str | None = None
    tools: tuple[Callable[..., Any], ...] = ()
    sys_prompt: str | None = None


class SubagentFunction:
    """Asks one subagent; whatever goes wrong is a response that says what it was."""

    def __init__(
        self, make: Callable[[], Any], spec: SubAgentSpec, model: type[BaseModel], ephemeral: bool
    ) -> None:
        self._make = make
        self._spec = spec
        self._model = model
        self._ephemeral = ephemeral
        self._made: Any = None

    def attach(self, toolbox: Toolbox) -> None:
        """Let an agent work in the toolbox of the toolkit that calls it."""
        try:
            made = self._find_agent()
        except Exception:
            # An agent that can't be made is told to whoever calls it.
            return
        if isinstance(made, BaseAgent):
            join_toolbox(made, toolbox)

    async def answer(self, arguments: dict[str, Any]) -> ToolResponse:
        """The response of the subagent."""
        try:
            given = self._model.model_validate(arguments)
        except ValidationError as error:
            return self._fail_response("invalid_input", f"the input does not fit: {error}")
        try:
            agent = self._find_agent()
        except Exception as error:
            # AgentScope promises a response, whatever the class raises.
            return self._fail_response("unavailable", f"it could not be made: {error}")
        try:
            response = await self._ask_agent(agent, given, arguments)
        except InputNeeded:
            # The subagent waits for a person, and so does the call.
            raise
        except RunInterrupted as error:
            return self._fail_response("pending", str(error))
        except Exception as error:
            # As above: a response, whatever the agent raises.
            return self._fail_response("failed", str(error))
        response.metadata = {**(response.metadata or {}), **self._response_facts(None)}
        return response

    async def _ask_agent(
        self, agent: Any, given: BaseModel, arguments: dict[str, Any]
    ) -> ToolResponse:
        if not isinstance(agent, BaseAgent):
            return _read_reply(await agent.reply(given))
        ask = Subagent(agent, self._model, "own", _MAX_DEPTH)
        asked = ask.read_input(arguments)
        if current_call.get() is None:
            # The function was called by itself, and not through a toolkit.
            slots = {**agent.agent_prompt.values(), "input": asked}
            said = await agent._respond(slots).async_get_data()
        else:
            said = await ask(**arguments)
        if not self._ephemeral:
            turns = (("user", asked), ("assistant", said))
            agent.add_chat_history([{"role": who, "content": str(what)} for who, what in turns])
        return to_response(said)

    def _find_agent(self) -> Any:
        """The subagent. What is no agent remembers by itself, and is made anew to forget."""
        if self._made is None or (self._ephemeral and not isinstance(self._made, BaseAgent)):
            self._made = self._make()
        return self._made

    def _fail_response(self, error: str, reason: str) -> ToolResponse:
        response = text_response(f"Error: subagent {self._spec.name}: {reason}")
        response.metadata = self._response_facts(error)
        return response

    def _response_facts(self, error: str | None) -> dict[str, Any]:
        return {"subagent": self._spec.name, "success": error is None, "error": error}


async def make_subagent_tool(
    agent_class: type[Any],
    spec: SubAgentSpec,
    *,
    host: Any,
    tool_name: str | None = None,
    ephemeral_memory: bool = True,
    override_model: Any = None,
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Make a function that asks a subagent, and what to register it with.

    Args:
        agent_class: An `Agent` class, or any class with a pydantic `InputModel` and `async reply`.
        spec: What the subagent is called, and what it is for.
        host: The agent that calls it. An `Agent` has its `model`.
        tool_name: The name of the function; by default `<spec.name>_tool`.
        ephemeral_memory: Whether each call begins without what earlier ones said.
        override_model: Another model than the host's.

    Returns:
        The function, and the keywords for `register_tool_function`.

    Raises:
        TypeError: The class has no `InputModel`, or the host no name.

    Example:
        `toolkit.register_tool_function(function, **register_kwargs)`
    """
    model = _find_model(agent_class)
    if not isinstance(getattr(host, "name", None), str):
        raise TypeError("host is the agent that calls the subagent, and has a name")

    def make() -> Any:
        if not issubclass(agent_class, BaseAgent):
            return agent_class()
        return _make_agent(agent_class, spec, override_model or host.model)

    subagent = SubagentFunction(make, spec, model, ephemeral_memory)

    async def call(**arguments: Any) -> ToolResponse:
        return await subagent.answer(arguments)

    call.__name__ = call.__qualname__ = tool_name or f"{spec.name}_tool"
    call.__doc__ = spec.description or f"Ask the agent {spec.name}."
    call.__dict__["subagent"] = subagent
    described = Tool(call, input_schema=model.model_json_schema())
    return call, {"group_name": _GROUP, "json_schema": function_schema(described)}


def attached_tool(tool: Tool, function: Any, toolbox: Toolbox) -> Tool:
    """The tool of a function; where that asks a subagent, made ready to do so in this toolbox."""
    subagent = getattr(function, "subagent", None)
    if not isinstance(subagent, SubagentFunction):
        return tool
    subagent.attach(toolbox)
    # It checks its input itself, so that a response says what was wrong with that.
    return tool.replace(resumable=True, validation="describe")


def _make_agent(agent_class: type[Any], spec: SubAgentSpec, model: Any) -> BaseAgent:
    agent: Any = agent_class(model=model, name=spec.name)
    if spec.sys_prompt is not None:
        agent.system(spec.sys_prompt, always=True)
    if spec.tools:
        agent.use_tools(list(spec.tools))
    made: BaseAgent = agent
    return made


def _find_model(agent_class: Any) -> type[BaseModel]:
    found = getattr(agent_class, "InputModel", None)
    if isinstance(found, type) and issubclass(found, BaseModel):
        return found
    if isinstance(agent_class, type) and issubclass(agent_class, BaseAgent):
        return SubagentInput
    raise TypeError(
        f"a subagent is an Agent class, or one with a pydantic InputModel and an async reply, "
        f"not {agent_class!r:.80}"
    )


def _read_reply(said: Any) -> ToolResponse:
    """What a subagent has replied: a response, a message with content, or a value."""
    if isinstance(said, ToolResponse | str | dict | list):
        return to_response(said)
    content = getattr(said, "content", said)
    return ToolResponse(list(content)) if isinstance(content, list) else to_response(content)
