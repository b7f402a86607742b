"""Answer clients with the resources, prompts and completions of the servers behind."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import mcp_types as types
from mcp.client import Client
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from wieldy.core.block import Block, Resource, Text, read_block
from wieldy.core.call import Call, Outcome, Status
from wieldy.core.errors import RemoteFailure, StoreError, WieldyError
from wieldy.core.limits.model_results import ModelResults
from wieldy.core.secrets.secret import redact_data, redact_text
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line
from wieldy.mcp.client.server_link import Server
from wieldy.mcp.serving.call_results import complete_result
from wieldy.mcp.serving.pages import page_after

from .catalogue import Catalogue, Catalogues, Passed, make_context, make_request_call
from .passed_meta import foreign_meta, mark_untrusted

Request = ServerRequestContext[Any, Any]
A = TypeVar("A")
R = TypeVar("R", bound=BaseModel)
_MAX_ERROR = 1000
# The content of one resource or prompt, in characters.
_MAX_CONTENT = 32 * 1024 * 1024
_MAX_VALUES = 100
Shape = dict[str, Any]
_MAX_DESCRIPTION = 10_000
# The interface of an app is shown to a person, and no model reads it.
_APP = "profile=mcp-app"


class PassedRequests:
    """Sends requests of clients to the server that they are for, and brings back the answers."""

    def __init__(self, box: object, catalogues: Catalogues, results: ModelResults) -> None:
        self._box = getattr(box, "box", box)
        self._results = results
        self.catalogues = catalogues

    async def read_resource(self, uri: str) -> dict[str, Any] | None:
        """The content of a resource, or None if none of the visible servers has it."""
        catalogue = await self.catalogues.current("resources", "templates")
        found = catalogue.find_resource(uri)
        if found is None:
            return None
        server, own = found
        result = await self._ask(server, "resources/read", lambda c: c.read_resource(own))

        def serve(shape: dict[str, Any]) -> dict[str, Any]:
            said = str(shape.get("uri"))
            served = uri if said == own else catalogue.served_uri(server, said)
            return {**shape, "uri": served}

        shape = _shape_of(result, server)
        contents = [serve(each) for each in shape.get("contents", [])]
        call = make_request_call("resources/read")
        bounded = await _bound_contents(self._results, call, contents)
        return await self._answer(shape, contents=bounded)

    async def list_prompts(
        self, ctx: Request, params: types.PaginatedRequestParams
    ) -> dict[str, Any]:
        """The prompts of the visible servers."""
        found = (await self.catalogues.current("prompts")).prompts
        names, cursor = page_after(found, params.cursor, lambda name: name)
        shown = [show_definition(found[name]) for name in names]
        return complete_result({"prompts": shown, **cursor})

    async def get_prompt(
        self, ctx: Request, params: types.GetPromptRequestParams
    ) -> dict[str, Any]:
        """The messages of a prompt."""
        passed = (await self.catalogues.current("prompts")).prompts.get(params.name)
        if passed is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name!r}.")
        own, sent = passed.own, params.arguments
        result = await self._ask(passed.server, "prompts/get", lambda c: c.get_prompt(own, sent))
        shape = _shape_of(result, passed.server)
        catalogue = await self.catalogues.current("resources", "templates")
        messages = [serve_links(each, catalogue, passed.server) for each in shape["messages"]]
        call = make_request_call("prompts/get")
        prompt = await _bound_prompt(self._results, call, {**shape, "messages": messages})
        return await self._answer(shape, **prompt)

    async def complete(self, ctx: Request, params: types.CompleteRequestParams) -> dict[str, Any]:
        """The completions of an argument of a prompt or a template."""
        nothing = complete_result({"completion": {"values": []}})
        found = await self._find_reference(params.ref)
        if found is None:
            return nothing
        server, ref = found
        sent = params.argument.model_dump()
        context = None if params.context is None else params.context.arguments

        async def send(client: Client) -> types.CompleteResult | None:
            if client.server_capabilities.completions is None:
                return None
            return await client.complete(ref, sent, context)

        result = await self._ask(server, "completion/complete", send)
        if result is None:
            return nothing
        completion = dict(_shape_of(result, server)["completion"])
        if len(completion["values"]) > _MAX_VALUES:
            completion = {"values": completion["values"][:_MAX_VALUES], "hasMore": True}
        return complete_result({"completion": completion})

    async def add_meta(
        self, tools: Sequence[Tool], definitions: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Definitions of tools, with what their servers say beside them."""
        found = find_meta(tools, self.catalogues.servers)
        if not any(found):
            return definitions
        catalogue = await self.catalogues.current("resources", "templates")
        servers = self.catalogues.servers
        return [
            {**each, "_meta": serve_interface(meta, catalogue, servers[source_name(tool)])}
            if meta
            else each
            for tool, each, meta in zip(tools, definitions, found, strict=True)
        ]

    async def serve_result(self, answer: A, tool: Tool | None) -> A:
        """The result of a call, with its links as this client can read them."""
        server = None if tool is None else self.catalogues.servers.get(source_name(tool))
        if server is None or not isinstance(answer, dict):
            return answer
        content = answer.get("content", [])
        if not any(each.get("type") in ("resource", "resource_link") for each in content):
            return answer
        catalogue = await self.catalogues.current("resources", "templates")
        return cast(A, {**answer, "content": serve_links(content, catalogue, server)})

    async def _find_reference(
        self, ref: types.ResourceTemplateReference | types.PromptReference
    ) -> tuple[Server, types.ResourceTemplateReference | types.PromptReference] | None:
        catalogue = await self.catalogues.current("templates", "prompts")
        if isinstance(ref, types.PromptReference):
            passed = catalogue.prompts.get(ref.name)
            own: Any = None if passed is None else types.PromptReference(name=passed.own)
        else:
            passed = catalogue.templates.get(ref.uri)
            own = None if passed is None else types.ResourceTemplateReference(uri=passed.own)
        if passed is None:
            raise MCPError(types.INVALID_PARAMS, "There is no such prompt or template.")
        return passed.server, own

    async def _ask(
        self, server: Server, method: str, send: Callable[[Client], Awaitable[R | None]]
    ) -> R | None:
        """Ask a server for the sender of the current request; its error is the answer's error."""
        try:
            return await server.request(send, make_context(method))
        except RemoteFailure as error:
            said = visible_line(redact_text(str(error), server.secrets), _MAX_ERROR)
            code = types.INTERNAL_ERROR if error.code is None else error.code
            raise MCPError(code, f"{visible_line(server.name, 80)}: {said}") from error
        except WieldyError as error:
            # Why a server can't be reached is for whoever runs the gateway.
            name = visible_line(server.name, 80)
            raise MCPError(types.INTERNAL_ERROR, f"{name} can't be reached now.") from error

    async def _answer(self, shape: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
        """A result with content from outside, which is marked, also for the caller's session."""
        made = mark_untrusted(facts, foreign_meta(shape.get("_meta")))
        desk = getattr(self._box, "untrusted", None)
        if desk is not None:
            try:
                await desk.mark(make_request_call("resources/read"))
            except StoreError as error:
                raise MCPError(types.INTERNAL_ERROR, "The store can't be written now.") from error
        return complete_result(made)


def show_definition(passed: Passed) -> dict[str, Any]:
    """A definition as clients see it, with what it says beside it."""
    shown = {key: value for key, value in passed.definition.items() if key != "_meta"}
    meta = foreign_meta(passed.definition.get("_meta"))
    return {**shown, "_meta": meta} if meta else shown


def source_name(tool: Tool) -> str:
    """The name of the server that a tool comes from, or something that no server is called."""
    return tool.source.removeprefix("mcp:") if tool.source.startswith("mcp:") else ""


def find_meta(tools: Iterable[Tool], servers: Mapping[str, Server]) -> list[dict[str, Any]]:
    """The `_meta` of each tool's definition, as far as it may be passed on."""
    known: dict[str, dict[str, Any]] = {}
    found: list[dict[str, Any]] = []
    for tool in tools:
        server = servers.get(source_name(tool))
        if server is None:
            found.append({})
            continue
        if server.name not in known:
            known[server.name] = server.tool_meta()
        meta = foreign_meta(known[server.name].get(tool.name))
        found.append(cast("dict[str, Any]", redact_data(meta, server.secrets)))
    return found


def serve_interface(meta: dict[str, Any], catalogue: Catalogue, server: Server) -> dict[str, Any]:
    """The `_meta` of a tool, whose user interface has a URI that this client can read."""
    made, ui = dict(meta), meta.get("ui")
    if isinstance(ui, Mapping) and isinstance(ui.get("resourceUri"), str):
        made["ui"] = {**ui, "resourceUri": catalogue.served_uri(server, ui["resourceUri"])}
    if isinstance(meta.get("ui/resourceUri"), str):
        made["ui/resourceUri"] = catalogue.served_uri(server, meta["ui/resourceUri"])
    return made


def serve_links(message: Any, catalogue: Catalogue, server: Server) -> Any:
    """A message or block, with the URIs in it as this client can read them."""
    if isinstance(message, list):
        return [serve_links(each, catalogue, server) for each in message]
    if not isinstance(message, Mapping):
        return message
    made = dict(message)
    if "content" in made:
        made["content"] = serve_links(made["content"], catalogue, server)
    if made.get("type") == "resource_link" and isinstance(made.get("uri"), str):
        made["uri"] = catalogue.served_uri(server, made["uri"])
    inner = made.get("resource")
    if made.get("type") == "resource" and isinstance(inner, Mapping):
        made["resource"] = {**inner, "uri": catalogue.served_uri(server, str(inner.get("uri")))}
    return made


def _shape_of(result: BaseModel | None, server: Server) -> dict[str, Any]:
    """An answer in MCP's JSON shape, with the server's secrets covered."""
    if result is None:
        return {}
    shape = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    if len(repr(shape)) > _MAX_CONTENT:
        raise MCPError(types.INTERNAL_ERROR, "The answer is too large to be passed on.")
    covered: dict[str, Any] = redact_data(shape, server.secrets)
    return covered


async def _bound_contents(
    results: ModelResults, call: Call, contents: Sequence[Shape]
) -> list[Shape]:
    """The contents of a resource as a client reads them at once; the rest is kept."""
    kept = [_bound_meta(each) for each in contents]
    apps = [each for each in kept if _APP in str(each.get("mimeType"))]
    read = [each for each in kept if each not in apps]
    cut = await _cut_blocks(results, call, map(_read_content, read))
    if cut is None:
        return kept
    return [*apps, *(_write_content(each, str(read[0].get("uri"))) for each in cut)]


async def _bound_prompt(results: ModelResults, call: Call, shape: Shape) -> Shape:
    """The description and the messages of a prompt, of which the rest is kept."""
    described = shape.get("description")
    facts = {"description": described[:_MAX_DESCRIPTION]} if described else {}
    messages = [{**each, "content": _bound_meta(each["content"])} for each in shape["messages"]]
    cut = await _cut_blocks(results, call, (read_block(each["content"]) for each in messages))
    if cut is None:
        return {**facts, "messages": messages}
    role = messages[0]["role"]
    return {**facts, "messages": [{"role": role, "content": each.to_dict()} for each in cut]}


async def _cut_blocks(
    results: ModelResults, call: Call, blocks: Iterable[Block]
) -> Sequence[Block] | None:
    """The blocks that are read at once, with where the rest is; None if that is all of them."""
    facts = {"untrusted": True}
    whole = Outcome(call, Status.OK, content=tuple(blocks), metadata=facts)
    shown = await results.for_model(whole)
    return None if shown is whole else shown.content


def _bound_meta(shape: Shape) -> Shape:
    return {**shape, "_meta": foreign_meta(shape["_meta"])} if "_meta" in shape else shape


def _read_content(content: Shape) -> Block:
    """The text of a resource, which can be cut anywhere, or its bytes."""
    if isinstance(content.get("text"), str):
        return Text(content["text"])
    return read_block({"type": "resource", "resource": content})


def _write_content(block: Block, uri: str) -> Shape:
    if isinstance(block, Resource):
        return {"uri": block.uri, "mimeType": block.mime_type, "blob": block.data or ""}
    return {"uri": uri, "mimeType": "text/plain", "text": getattr(block, "text", "")}
