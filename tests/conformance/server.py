"""The server that MCP's conformance suite is run against: `server.py --port N`.

Its tools are a toolbox's; what else the suite asks for (resources, prompts,
completion, logging) is added to the server object by this program.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.subscriptions import PromptsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    GetPromptRequestParams,
    JSONRPCMessage,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from wieldy import Audio, Context, Image, InputNeeded, Resource, Text, Toolbox
from wieldy.mcp import BoxServer, current_request, serve, server

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlE"
    "QVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
Json = dict[str, Any]


box = Toolbox()


# Content of every kind.


@box.tool
async def test_simple_text() -> str:
    """Give plain text."""
    return "This is a simple text response for testing."


@box.tool
async def test_image_content() -> Image:
    """Give a picture."""
    return Image(PIXEL)


@box.tool
async def test_audio_content() -> Audio:
    """Give sound."""
    return Audio(SILENCE)


@box.tool
async def test_embedded_resource() -> Resource:
    """Give a resource."""
    return Resource(
        "test://embedded-resource",
        text="This is an embedded resource content.",
        mime_type="text/plain",
    )


@box.tool
async def test_multiple_content_types() -> list[Any]:
    """Give text, a picture and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    return [
        Text("Multiple content types test:"),
        Image(PIXEL),
        Resource("test://mixed-content-resource", text=data, mime_type="application/json"),
    ]


@box.tool
async def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@box.tool
async def test_tool_with_progress(context: Context) -> str:
    """Say how far it has come."""
    for done in (0, 50, 100):
        await context.progress(done, 100)
        await asyncio.sleep(0.05)
    return "Progress was reported."


SCHEMA_2020_12: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@box.tool(input_schema=SCHEMA_2020_12)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Tool with JSON Schema 2020-12 features."""
    return json.dumps(arguments)


@box.tool(
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    }
)
async def test_headers(region: str) -> str:
    """Take an argument that also travels as a header."""
    return region


# The client's session, from inside a tool.


async def log(text: str) -> None:
    """Log to the client, if it wants that."""
    request = current_request()
    params = LoggingMessageNotificationParams(level="info", data=text)
    if request.protocol_version < "2026" or LOG_LEVEL in (request.meta or {}):
        await request.session.send_notification(
            LoggingMessageNotification(params=params), related_request_id=request.request_id
        )


LOG_LEVEL = "io.modelcontextprotocol/logLevel"


@box.tool
async def test_tool_with_logging() -> str:
    """Log three times."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(text)
        await asyncio.sleep(0.05)
    return "Logged."


@box.tool
async def test_logging_tool() -> str:
    """Log once."""
    await log("Tool is at work")
    return "Logged."


@box.tool
async def test_reconnection() -> str:
    """Close the stream in the middle and go on."""
    close = current_request().close_sse_stream
    if close is not None:
        await close()
    await asyncio.sleep(0.2)
    return "Reconnected."


# Questions to the client's user. An older client is asked while the call runs, a newer one by
# the result; the tool is the same.


def form(message: str, properties: Json, required: list[str] | None = None) -> Json:
    """A request that asks the user to fill in a form."""
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {
        "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": schema},
    }


def sampled(prompt: str, tokens: int = 100) -> Json:
    """A request that asks the client's model."""
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {
        "method": "sampling/createMessage",
        "params": {"messages": [message], "maxTokens": tokens},
    }


ROOTS: Json = {"method": "roots/list", "params": {}}
NAME = form("What is your name?", {"name": {"type": "string"}}, ["name"])


def ask(context: Context, **requests: Json) -> Json:
    """The answers to some requests; the tool pauses until they are there."""
    if context.answers is None:
        raise InputNeeded(requests)
    return dict(context.answers)


@box.tool
async def test_sampling(prompt: str, context: Context) -> str:
    """Ask the client's model."""
    said = ask(context, answer=sampled(prompt))["answer"]
    return f"LLM response: {said['content']['text']}"


@box.tool
async def test_elicitation(message: str, context: Context) -> str:
    """Ask the user."""
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    said = ask(context, user=form(message, fields, ["username", "email"]))["user"]
    return f"User response: action={said['action']}, content={said.get('content')}"


@box.tool
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask with default values."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    said = ask(context, user=form("Please review", fields))["user"]
    return f"Elicitation completed: action={said['action']}, content={said.get('content')}"


@box.tool
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask with every kind of choice."""
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{number}", "title": f"{word} Option"}
        for number, word in enumerate(("First", "Second", "Third"), start=1)
    ]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    said = ask(context, user=form("Please choose", fields))["user"]
    return f"Elicitation completed: action={said['action']}, content={said.get('content')}"


@box.tool
async def test_input_required_result_elicitation(context: Context) -> str:
    """Ask for a name."""
    said = ask(context, user_name=NAME)["user_name"]
    return f"Hello, {said['content']['name']}!"


@box.tool
async def test_streaming_elicitation(context: Context) -> str:
    """Ask for a name, after some progress."""
    await context.progress(1, 2)
    said = ask(context, user_name=NAME)["user_name"]
    return f"Hello, {said['content']['name']}!"


@box.tool
async def test_input_required_result_sampling(context: Context) -> str:
    """Ask the client's model, and wait."""
    said = ask(context, capital=sampled("What is the capital of France?"))["capital"]
    return str(said["content"]["text"])


@box.tool
async def test_missing_capability(context: Context) -> str:
    """Need a model."""
    return str(ask(context, answer=sampled("Hello?"))["answer"]["content"]["text"])


@box.tool
async def test_input_required_result_list_roots(context: Context) -> str:
    """Ask for the client's folders."""
    return json.dumps(ask(context, client_roots=ROOTS)["client_roots"]["roots"])


@box.tool
async def test_input_required_result_request_state(context: Context) -> str:
    """Ask for a confirmation."""
    ask(context, confirm=form("Please confirm", {"ok": {"type": "boolean"}}, ["ok"]))
    return "state-ok"


@box.tool
async def test_input_required_result_tampered_state(context: Context) -> str:
    """Ask, and take back only what was given out."""
    ask(context, confirm=form("Please confirm", {"ok": {"type": "boolean"}}, ["ok"]))
    return "state-ok"


@box.tool
async def test_input_required_result_multiple_inputs(context: Context) -> str:
    """Ask for three things at once."""
    greeting = sampled("Generate a greeting", 50)
    answers = ask(context, user_name=NAME, greeting=greeting, client_roots=ROOTS)
    return f"{answers['greeting']['content']['text']} {answers['user_name']['content']['name']}"


@box.tool
async def test_input_required_result_capabilities(context: Context) -> str:
    """Ask for what this client can give."""
    can = current_request().session.client_capabilities
    requests = {"greeting": sampled("Generate a greeting")}
    if can is not None and can.elicitation is not None:
        requests["user_name"] = NAME
    return json.dumps(ask(context, **requests))


@box.tool
async def test_input_required_result_multi_round(context: Context) -> str:
    """Ask twice."""
    answers = context.answers or {}
    if "step2" in answers:
        return f"{context.state} likes {answers['step2']['content']['color']}"
    if "step1" not in answers:
        question = form("Step 1: What is your name?", {"name": {"type": "string"}}, ["name"])
        raise InputNeeded({"step1": question})
    colour = {"color": {"type": "string"}}
    question = form("Step 2: What is your favorite color?", colour, ["color"])
    raise InputNeeded({"step2": question}, answers["step1"]["content"]["name"])


@box.tool
async def test_trigger_tool_change() -> str:
    """Add a tool and take it out again."""
    box.add(test_simple_text, "added_for_a_moment")
    box.remove("added_for_a_moment")
    return "Changed."


@box.tool
async def test_trigger_prompt_change() -> str:
    """Say that the prompts have changed."""
    await SERVER.changes.bus.publish(PromptsListChanged())
    return "Changed."


# What is not tools: handlers on the server object, as a program of its own would add them.

RESOURCES: dict[str, Json] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}
TEMPLATE = re.compile(r"test://template/(?P<id>[^/]+)/data\Z")


async def list_resources(ctx: Any, params: PaginatedRequestParams) -> Json:
    listed = [
        {"uri": uri, "name": uri.partition("//")[2], "description": "A test resource."}
        | {"mimeType": held["mimeType"]}
        for uri, held in RESOURCES.items()
    ]
    return {"resultType": "complete", "resources": listed}


async def list_templates(ctx: Any, params: PaginatedRequestParams) -> Json:
    template = {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "Data of an id.",
        "mimeType": "application/json",
    }
    return {"resultType": "complete", "resourceTemplates": [template]}


async def read_resource(ctx: Any, params: ReadResourceRequestParams) -> Json:
    uri = str(params.uri)
    held = RESOURCES.get(uri)
    matched = TEMPLATE.match(uri)
    if matched is not None:
        data = {"id": matched["id"], "templateTest": True, "data": f"Data for ID: {matched['id']}"}
        held = {"mimeType": "application/json", "text": json.dumps(data)}
    if held is None:
        raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})
    return {"resultType": "complete", "contents": [{"uri": uri, **held}]}


def said(text: str) -> Json:
    return {"role": "user", "content": {"type": "text", "text": text}}


PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def list_prompts(ctx: Any, params: PaginatedRequestParams) -> Json:
    prompts = [
        {
            "name": name,
            "description": "A test prompt.",
            "arguments": [
                {"name": each, "description": "An argument.", "required": True}
                for each in arguments
            ],
        }
        for name, arguments in PROMPTS.items()
    ]
    return {"resultType": "complete", "prompts": prompts}


async def get_prompt(ctx: Any, params: GetPromptRequestParams) -> Json:
    given = params.arguments or {}
    if params.name == "test_input_required_result_prompt":
        answers: Mapping[str, Any] = params.input_responses or {}
        if "user_context" not in answers:
            question = form(
                "What context should the prompt use?", {"context": {"type": "string"}}, ["context"]
            )
            return {"resultType": "input_required", "inputRequests": {"user_context": question}}
        messages = [said(f"Context: {answers['user_context']}")]
    elif params.name == "test_simple_prompt":
        messages = [said("This is a simple prompt for testing.")]
    elif params.name == "test_prompt_with_arguments":
        text = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
        messages = [said(text)]
    elif params.name == "test_prompt_with_embedded_resource":
        held = {
            "uri": given.get("resourceUri", "test://example-resource"),
            "mimeType": "text/plain",
            "text": "Embedded resource content for testing.",
        }
        embedded = {"role": "user", "content": {"type": "resource", "resource": held}}
        messages = [embedded, said("Please process the embedded resource above.")]
    elif params.name == "test_prompt_with_image":
        picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        messages = [
            {"role": "user", "content": picture},
            said("Please analyze the image above."),
        ]
    else:
        raise MCPError(INVALID_PARAMS, "There is no such prompt.")
    return {"resultType": "complete", "messages": messages}


async def complete(ctx: Any, params: CompleteRequestParams) -> Json:
    words = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return {"resultType": "complete", "completion": {"values": words, "hasMore": False}}


async def accept(ctx: Any, params: Any) -> Json:
    return {}


class Events(EventStore):
    """The events of all streams, for clients that come back."""

    def __init__(self) -> None:
        self._events: list[tuple[StreamId, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Keep an event."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(
        self, last_event_id: EventId, send_callback: EventCallback
    ) -> StreamId | None:
        """Send what came later on the same stream."""
        number = int(last_event_id)
        stream = self._events[number - 1][0]
        for later, (each, message) in enumerate(self._events[number:], start=number + 1):
            if each == stream and message is not None:
                await send_callback(EventMessage(message, str(later)))
        return stream


def extend(made: BoxServer) -> BoxServer:
    """Add what is not tools."""
    made.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    made.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    made.add_request_handler("resources/read", ReadResourceRequestParams, read_resource)
    made.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    made.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)
    made.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    made.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)
    made.add_request_handler("completion/complete", CompleteRequestParams, complete)
    made.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    return made


SERVER = extend(server(box, name="wieldy-conformance"))


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    asyncio.run(serve(SERVER, port=port, events=Events()))


if __name__ == "__main__":
    main()
