"""Our tools as an MCP server: one server object over a box, for every client and transport."""

import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, TypedDict, TypeVar, cast

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    CallToolRequestParams,
    CompleteRequestParams,
    EmptyResult,
    GetPromptRequestParams,
    InputRequiredResult,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ServerCapabilities,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from typing_extensions import Unpack

from wieldy.core.call import Call, Outcome, Scope, Status
from wieldy.core.discovery.session_listing import client_listing
from wieldy.core.names import check_options
from wieldy.core.permission.waiting_calls import RESUME_CALL
from wieldy.core.tool import Tool
from wieldy.mcp.client.request_extras import calling_client
from wieldy.mcp.tasks_extension import TASKS, TaskParams, UpdateTaskParams
from wieldy.wire.definitions import lowered_schema, tool_definitions

from .approved_runner import Pickup
from .body_values import MAX_VALUES
from .call_results import Answer, call_answer, complete_result
from .callers import caller_name, current_identity
from .denied_tools import hide_denied_tool
from .elicitation import Elicitation
from .list_changes import ListChanges
from .offer import Offer, ServedBox
from .pages import page_after
from .passing.calling_client import LOG_LEVEL, ServedClient
from .passing.catalogue import Catalogues
from .passing.joined_instructions import add_instructions, has_instructions
from .passing.passed_extensions import add_extensions
from .passing.passed_requests import PassedRequests
from .progress import Teller
from .questions import Question
from .resources import ServedResources, artifacts_of
from .returning_clients import find_outcome_so_far
from .tasks.background_calls import TaskTeller, Tell
from .tasks.served_tasks import ServedTasks
from .tasks.task_news import TaskNews
from .tasks.task_settings import Tasks, is_task_id, make_task_id
from .traffic import Traffic

Request = ServerRequestContext[Any, Any]
N = TypeVar("N", int | None, float | None)
_DAY = 24 * 3600.0
_STALE = CacheHint(ttl_ms=0, scope="private")
_request: ContextVar[Request | None] = ContextVar("wieldy_mcp_request", default=None)


class ServerOptions(TypedDict, total=False):
    """The options of `server`.

    Attributes:
        view: a view to serve instead of the whole box, which still takes decisions.
        views: for the name of a token, or of the view that a token names, a view to serve
            instead of that.
        self_approval: whether somebody may approve calls of their own, over the API.
        elicitation: whether a client may put the question about its call to its own user.
        patience: how many seconds the user of an older client has to answer a question.
        secret: the key that seals the state of questions, of at least 32 bytes. Processes
            that serve the same clients need the same one.
        check_output: whether a result that does not fit its output schema is an error.
        tasks: when a call becomes a task, for clients that know tasks; None for never.
        max_values: how many values the JSON of one request may have, by default 50,000: each of
            them is judged, stored and shown to a person. None means no limit.
    """

    name: str
    instructions: str | None
    view: Offer | None
    views: Mapping[str, Offer] | None
    self_approval: bool
    elicitation: bool
    patience: float
    secret: str | bytes | None
    check_output: bool
    tasks: Tasks | None
    max_values: int | None


def server(box: "ServedBox | BoxServer", **options: Unpack[ServerOptions]) -> "BoxServer":
    """Create an MCP server for a box. It is a server of the SDK, so you can add handlers.

    Args:
        box: the toolbox or view to serve. A server object is returned unchanged.
        **options: the settings of `ServerOptions`.

    Returns:
        The server, for `serve`, `wieldy.server.app` or the SDK's `Client`.

    Raises:
        ValueError: there are options for a server that exists already.

    Example:
        `async with Client(server(box)) as client: ...`
    """
    check_options(server, options, ServerOptions.__annotations__)
    if not isinstance(box, BoxServer):
        return BoxServer(box, **options)
    if options:
        given = ", ".join(sorted(options))
        raise ValueError(f"The server is made already: pass {given} to server().")
    return box


def current_request() -> Request:
    """The request that the running tool serves, with its session and the client's capabilities.

    A tool can use the session to send log messages, and to ask a client of an older protocol.

    Raises:
        LookupError: the call was not made by an MCP client.
    """
    request = _request.get()
    if request is None:
        raise LookupError("This call was not made by an MCP client.")
    return request


def above_zero(option: str, given: N) -> N:
    """A limit as it is given; `ValueError` unless it is above 0, or None for no limit."""
    if given is not None and not given > 0:
        raise ValueError(f"{option} must be above 0, or None for no limit, not {given!r}")
    return given


class BoxServer(Server[Any]):
    """The tools of a box for MCP clients; each call goes through the box's engine."""

    def __init__(self, box: ServedBox, **options: Unpack[ServerOptions]) -> None:
        check_options(BoxServer, options, ServerOptions.__annotations__)
        super().__init__(
            options.get("name", "wieldy"),
            version=version("wieldy"),
            instructions=options.get("instructions"),
            lifespan=_watch_changes,
            cache_hints={
                "tools/list": _STALE,
                "resources/list": _STALE,
                "resources/templates/list": _STALE,
                "resources/read": _STALE,
                "prompts/list": _STALE,
            },
            get_tool_input_schema=self._input_schema,
        )
        self.box = box
        self.traffic = Traffic()
        self.catalogues = Catalogues(box, self._current_offer)
        self.passed = PassedRequests(box, self.catalogues, box.results)
        self.changes = ListChanges(box, self.catalogues)
        self.pickup = Pickup(box, self.traffic)
        self._view = options.get("view") or box
        # Not a copy: whoever gave the views may change them while they are served.
        views = options.get("views")
        self._views: Mapping[str, Offer] = {} if views is None else views
        self._check_output = options.get("check_output", True)
        self.self_approval = options.get("self_approval", False)
        self.max_values = above_zero("max_values", options.get("max_values", MAX_VALUES))
        self._patience = options.get("patience", 300.0)
        asks = options.get("elicitation", True)
        self._asking = Elicitation(box, asks, self._patience, self._check_output)
        self.tasks = ServedTasks(
            box, options.get("tasks", Tasks()), self._asking, self.pickup, self._render_end
        )
        secret = options.get("secret") or os.urandom(32)
        security = RequestStateSecurity(keys=[secret], ttl=_DAY)
        self.middleware.append(RequestStateBoundary(security, default_audience=self.name))
        self._own_handlers: dict[str, Any] = {}
        self._add_handlers()

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """As the SDK's, and says that clients are told of changed tools."""
        behind = self.catalogues.has_servers
        told = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=behind, prompts_changed=behind
        )
        return super().create_initialization_options(told, experimental_capabilities, extensions)

    def _add_handlers(self) -> None:
        self.add_request_handler("tools/list", PaginatedRequestParams, self._list_tools)
        self.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        news = TaskNews(self.tasks, self.changes.listen)
        self.add_request_handler(
            "subscriptions/listen", SubscriptionsListenRequestParams, news.listen
        )
        self.add_notification_handler(
            "notifications/initialized", NotificationParams, self.changes.join
        )
        resources = ServedResources(self.box.results, artifacts_of(self.box), self.passed)
        paged, changes = PaginatedRequestParams, self.changes.passed
        self._add_own("resources/list", paged, resources.list)
        self._add_own("resources/templates/list", paged, resources.list_templates)
        self._add_own("resources/read", ReadResourceRequestParams, resources.read)
        self._add_own("resources/subscribe", SubscribeRequestParams, changes.subscribe)
        self._add_own("resources/unsubscribe", UnsubscribeRequestParams, changes.unsubscribe)
        self._add_own("prompts/list", paged, self.passed.list_prompts)
        self._add_own("prompts/get", GetPromptRequestParams, self.passed.get_prompt)
        self._add_own("completion/complete", CompleteRequestParams, self.passed.complete)
        self.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)
        if self.tasks.settings is not None:
            self.extensions[TASKS] = {}
        self.add_request_handler("tasks/get", TaskParams, self.tasks.get)
        self.add_request_handler("tasks/update", UpdateTaskParams, self.tasks.update)
        self.add_request_handler("tasks/cancel", TaskParams, self.tasks.cancel)
        self.middleware.append(self._describe_servers)

    def _add_own(self, method: str, params: Any, handler: Any) -> None:
        self.add_request_handler(method, params, handler)
        self._own_handlers[method] = handler

    async def _describe_servers(self, ctx: Request, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if not has_instructions(ctx.method) or not self.catalogues.has_servers:
            return result
        servers = await self.catalogues.visible_servers()
        joined = add_instructions(result, servers)
        return cast(HandlerResult, add_extensions(joined, ctx, servers))

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """As the SDK's, without what only servers behind would have if there are none."""
        found = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        if self.catalogues.has_servers:
            return found
        if self._is_own("prompts/list"):
            found.prompts = None
        if self._is_own("completion/complete"):
            found.completions = None
        if self._is_own("resources/list") and artifacts_of(self.box) is None:
            found.resources = None
        elif found.resources is not None and self._is_own("resources/subscribe"):
            found.resources.subscribe = False
        return found

    def _is_own(self, method: str) -> bool:
        """Whether nobody has replaced the handler of a method."""
        entry = self.get_request_handler(method)
        return entry is not None and entry.handler == self._own_handlers[method]

    async def _list_tools(self, ctx: Request, params: PaginatedRequestParams) -> dict[str, Any]:
        caller = caller_name()
        scope, listing = Scope(caller, caller, caller=caller), self.changes.clients.key_of(ctx)
        offered = await self._current_offer().callable_tools(scope, listing=listing)
        shown, cursor = page_after(offered, params.cursor, lambda tool: tool.name)
        definitions = await self.passed.add_meta(shown, tool_definitions(shown, "mcp"))
        return complete_result({"tools": definitions, **cursor})

    async def _call_tool(
        self, ctx: Request, params: CallToolRequestParams
    ) -> Answer | InputRequiredResult:
        caller = caller_name()
        with self.traffic.one():
            before = _request.set(ctx)
            list_before = client_listing.set(self.changes.clients.key_of(ctx))
            client_before = calling_client.set(ServedClient(ctx, self._patience))
            try:
                answer = await self._answer_call(ctx, params, caller)
                return await self.passed.serve_result(
                    answer, self._current_offer().get(params.name)
                )
            finally:
                _request.reset(before)
                client_listing.reset(list_before)
                calling_client.reset(client_before)

    async def _answer_call(
        self, ctx: Request, params: CallToolRequestParams, caller: str | None
    ) -> Answer | InputRequiredResult:
        given = params.input_responses or {}
        self.tasks.check_tool(ctx, params.name)
        state = params.request_state
        task_id = make_task_id() if state is None else Question.from_state(state).asked_by
        if self.tasks.fits(ctx) and is_task_id(task_id):
            return await self._answer_or_task(ctx, params, caller, task_id)
        if state is not None:
            return await self._asking.resume(ctx, caller, state, given)
        outcome, tool = await self._run(ctx, params, caller, Teller(ctx).tell)
        return await self._asking.settle(ctx, caller, outcome, tool, given)

    async def _answer_or_task(
        self, ctx: Request, params: CallToolRequestParams, caller: str | None, task_id: str
    ) -> Answer | InputRequiredResult:
        """The answer to a call if it ends soon, and a task if it takes long or waits."""
        given, state = params.input_responses or {}, params.request_state
        teller = TaskTeller(self.tasks.background, task_id, Teller(ctx).tell)

        async def work() -> Answer | InputRequiredResult | None:
            if state is not None:
                return await self._asking.resume(ctx, caller, state, given)
            outcome, tool = await self._run(ctx, params, caller, teller.tell, task_id)
            if outcome.status is Status.PENDING and outcome.call.id == task_id:
                asks = "input" in outcome.metadata
                if not asks or not (given or self.tasks.asks_first(params.name)):
                    return None
            return await self._asking.settle(ctx, caller, outcome, tool, given)

        answer = await self.tasks.answer_in_time(task_id, work(), teller)
        return await self.tasks.create(ctx, task_id) if answer is None else answer

    async def _set_level(self, ctx: Request, params: SetLevelRequestParams) -> EmptyResult:
        ctx.session._connection.state[LOG_LEVEL] = params.level
        return EmptyResult()

    async def _render_end(self, outcome: Outcome) -> Answer:
        """The end of a call, as its client would have got it if it had waited."""
        tool = self._current_offer().get(outcome.call.tool)
        shown = await self.box.results.for_model(outcome)
        return await self.passed.serve_result(call_answer(shown, tool, self._check_output), tool)

    async def _run(
        self,
        ctx: Request,
        params: CallToolRequestParams,
        caller: str | None,
        tell: Tell,
        call_id: str | None = None,
    ) -> tuple[Outcome, Tool | None]:
        """Run a call to its outcome, and tell the client what it shows on the way."""
        call = Call(
            params.name,
            params.arguments,
            Scope(caller, caller, caller=caller),
            id=call_id,
            provider_id=str(ctx.request_id),
        )
        tool = self._current_offer().get(params.name)
        if tool is not None and tool.resumable and RESUME_CALL in (params.arguments or {}):
            return await find_outcome_so_far(self.box, tool, call, tell), tool
        offer, scope = self._current_offer(), call.scope
        outcome, tool = await offer.call_telling(call, tell, check_output=self._check_output)
        return await hide_denied_tool(offer, outcome, scope), tool

    def check_callers(self, names: Collection[str]) -> None:
        """Refuse views of callers who can't come: everybody else would see the whole box."""
        unknown = sorted(self._views.keys() - set(names))
        if unknown:
            raise ValueError(f"There is a view for {', '.join(unknown)}, and no token.")

    def find_offer(self) -> Offer | None:
        """What the caller of the current request may see and call; None without their view."""
        identity = current_identity()
        if identity is None:
            return self._view
        if identity.view is None:
            return self._views.get(identity.name, self._view)
        return self._views.get(identity.view)

    def _current_offer(self) -> Offer:
        """What the caller of the current request may see and call."""
        offer = self.find_offer()
        if offer is None:
            # Somebody who should see a part must not see the whole.
            raise MCPError(INVALID_REQUEST, "The view of this token is not here.")
        return offer

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._current_offer().get(name)
        return None if tool is None else lowered_schema(tool, "mcp")


@asynccontextmanager
async def _watch_changes(server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
    served = cast(BoxServer, server)
    async with (
        served.changes.watching(),
        served.pickup.looking(),
        served.tasks.serving(),
    ):
        yield {}
