"""The function of a tool that a server runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from wieldy.core.active_call import ActiveCall
from wieldy.core.arguments.argument_errors import plain_message
from wieldy.core.bounded_json import dump_json
from wieldy.core.call import Outcome, Status
from wieldy.core.context import Context
from wieldy.core.errors import CallUnknown, InputNeeded, RemoteFailure
from wieldy.core.secrets.credential import preset_secrets
from wieldy.core.secrets.secret import redact_data, redact_text
from wieldy.core.short_text import cut_counted

from .remote_tasks import CreatedTask, RemoteTask
from .request_extras import (
    AnswerLost,
    AskClient,
    CallingClient,
    Hear,
    RequestExtras,
    calling_client,
)
from .result_content import (
    blocks_of,
    meta_of,
    raise_if_failed,
    structured_value,
    unstructured_value,
)
from .server_source import Headers, call_headers
from .tool_listing import read_listing

Result = types.CallToolResult | types.InputRequiredResult | CreatedTask
_RESULT: TypeAdapter[Result] = TypeAdapter(Result)
_ANSWERS: TypeAdapter[types.InputResponses] = TypeAdapter(types.InputResponses)
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 1.0
# The log messages that a server may send for one call, so that observers are not flooded.
_MAX_MESSAGES, _MAX_MESSAGE = 1000, 4000
_MAX_PROGRESS = 2000


class Asks(Protocol):
    """Sends requests to the server."""

    name: str

    async def reach(self, context: Context | None) -> "Asks":
        """The server as the caller of a call reaches it."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret strings that the server was given."""

    async def ask(
        self, send: Callable[[Client], Awaitable[Any]], errand: RequestExtras, safe: bool
    ) -> Any:
        """Send a request from any loop, and return the answer on the caller's loop."""


class Proxy:
    """Calls one tool of a server.

    `safe` says that a call may run twice; `output` is the declared output schema.
    """

    def __init__(
        self,
        server: Asks,
        name: str,
        safe: bool,
        output: Mapping[str, Any] | None,
        headers: Headers | None,
    ) -> None:
        self._server = server
        self._name = name
        self._safe = safe
        self._output = output
        self._headers = headers

    def function(self) -> Callable[..., Awaitable[Any]]:
        """The function of the tool. Its only parameter has a name that no server will use."""

        async def call(wieldy_context_: Context, **arguments: Any) -> Any:
            return await self._call_tool(wieldy_context_, arguments)

        return call

    async def _call_tool(self, context: Context, arguments: dict[str, Any]) -> Any:
        answers, state = _read_answers(context.answers), context.state
        # Not the current run: of a call that is tried again, this is the attempt. A proxy needs
        # its connection, so it runs nowhere but where the engine is.
        run = cast(ActiveCall, context._run)

        async def ask(send: Callable[[ClientSession], Awaitable[Any]]) -> Any:
            server = await self._reach_server(context, run)
            extras = await self._make_extras(server, context, run)
            return await server.ask(lambda client: send(client.session), extras, True)

        task = RemoteTask.from_state(ask, state)
        if task is not None:
            return self._result_value(run, await self._follow(task, context, run, answers))
        pause = _FIRST_PAUSE
        while True:
            result = await self._ask_server(context, run, arguments, answers, state)
            if isinstance(result, CreatedTask):
                task = RemoteTask(ask, result.task_id)
                return self._result_value(run, await self._follow(task, context, run))
            if isinstance(result, types.CallToolResult):
                return self._result_value(run, result)
            if result.input_requests:
                raise InputNeeded(_plain_requests(result), result.request_state)
            # The server has not finished, and only needs to be asked again.
            answers, state = None, result.request_state
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE)

    async def _reach_server(self, context: Context, active: ActiveCall) -> Asks:
        """The server for one request; a caller's own connection may be closed in between.

        The caller is the call's own, also where somebody else has approved it.
        """
        server = await self._server.reach(context)
        if server.secrets:
            active.keep_secret(server.secrets)
        return server

    async def _ask_server(
        self,
        context: Context,
        active: ActiveCall,
        arguments: dict[str, Any],
        answers: types.InputResponses | None,
        state: str | None,
    ) -> Result:
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(
                name=self._name, arguments=arguments, input_responses=answers, request_state=state
            )
        )
        progressed = None
        client = calling_client.get()
        # Metadata of the client's call is not for the calls that its tool makes.
        meta = dict(client.meta) if client is not None and context.scope.parent is None else {}
        if active.sink is not None:
            progressed = _shown_by(context)
            # Servers of 2026-07-28 send messages only about requests that ask for them.
            meta[types.LOG_LEVEL_META_KEY] = (client and client.log_level) or "info"
        if meta:
            request.params.meta = cast(types.RequestParamsMeta, meta)

        async def send(client: Client) -> Result:
            try:
                return await client.session.send_request(
                    request, _RESULT, progress_callback=progressed
                )
            except MCPError as error:
                if error.code != types.HEADER_MISMATCH:
                    raise
                # The server reads some arguments from headers, which its list of tools names.
                await read_listing(client)
                return await client.session.send_request(
                    request, _RESULT, progress_callback=progressed
                )

        server = await self._reach_server(context, active)
        try:
            extras = await self._make_extras(server, context, active)
            result: Result = await server.ask(send, extras, self._safe)
        except AnswerLost as lost:
            raise self._lost_error(context, lost) from lost
        return result

    async def _make_extras(
        self, server: Asks, context: Context, active: ActiveCall
    ) -> RequestExtras:
        """What a request of this call has beside the protocol's own."""
        headers = await call_headers(self._headers, context)
        if headers:
            active.keep_secret(tuple(preset_secrets(headers)))
        client = calling_client.get()
        ask = None if client is None else _asked_by(client, server.name)
        hear = None if active.sink is None else _heard_by(context, active)
        return RequestExtras(headers, hear, ask)

    async def _follow(
        self,
        task: RemoteTask,
        context: Context,
        active: ActiveCall,
        answers: types.InputResponses | None = None,
    ) -> types.CallToolResult:
        """The result of a call that its server goes on with as a task."""
        numbers = iter(range(1, _MAX_PROGRESS))

        def tell(said: str) -> None:
            number = next(numbers, None)
            if active.sink is not None and number is not None:
                context.progress(number, None, said)

        try:
            if answers:
                await task.answer(answers)
            return await task.follow(tell)
        except AnswerLost as lost:
            raise self._lost_error(context, lost) from lost

    def _lost_error(self, context: Context, lost: AnswerLost) -> Exception:
        if self._safe:
            return RemoteFailure(f"no answer came: {lost}")
        return CallUnknown(context.tool, str(lost))

    def _result_value(self, active: ActiveCall, result: types.CallToolResult) -> Any:
        blocks = blocks_of(result)
        noted = meta_of(result)
        if noted is not None:
            active.note("mcp", redact_data(noted, active.secrets))
        raise_if_failed(result, blocks)
        structured = "structured_content" in result.model_fields_set
        if not structured or result.structured_content is None:
            return unstructured_value(blocks)
        value, wrapped = structured_value(result, self._output)
        if wrapped:
            active.note("wrapped", True)
        if not blocks:
            return value
        # The blocks are the content for the model; the structured data is the value.
        return Outcome(active.call, Status.OK, value, content=tuple(blocks))


def _asked_by(client: CallingClient, server: str) -> AskClient:
    """Pass questions of the server from any loop to the client of this call."""
    home = asyncio.get_running_loop()

    async def ask(request: dict[str, Any]) -> Mapping[str, Any] | None:
        asked = asyncio.run_coroutine_threadsafe(client.ask(server, request), home)
        return await asyncio.wrap_future(asked)

    return ask


def _shown_by(context: Context) -> ProgressFnT:
    """Pass progress from the connection's loop to the call's loop, within the limit above."""
    home = asyncio.get_running_loop()
    numbers = iter(range(_MAX_PROGRESS))

    async def show(progress: float, total: float | None, message: str | None) -> None:
        if not home.is_closed() and next(numbers, None) is not None:
            home.call_soon_threadsafe(context.progress, progress, total, message)

    return show


def _heard_by(context: Context, active: ActiveCall) -> Hear:
    """Pass the server's log messages to the call's loop, within the limits above."""
    home = asyncio.get_running_loop()
    numbers = iter(range(_MAX_MESSAGES))

    def hear(said: types.LoggingMessageNotificationParams) -> None:
        if home.is_closed() or next(numbers, None) is None:
            return
        data = said.data
        text = data if isinstance(data, str) else dump_json(data, ensure_ascii=False)
        # Secrets are masked before the text is cut, because half a secret is not recognised.
        text = cut_counted(redact_text(text, active.secrets), _MAX_MESSAGE)
        home.call_soon_threadsafe(context.notice, text, said.level, said.logger)

    return hear


def _read_answers(given: Mapping[str, Any] | None) -> types.InputResponses | None:
    if given is None:
        return None
    try:
        return _ANSWERS.validate_python(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"The answers can't be sent: {place}: {plain_message(first['msg'])}"
        ) from None


def _plain_requests(result: types.InputRequiredResult) -> dict[str, Any]:
    asked = result.input_requests or {}
    return {
        key: request.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, request in asked.items()
    }
