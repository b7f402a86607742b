"""A client made with this library, for the MCP conformance suite to judge.

Usage: client.py URL. The suite names the scenario in `MCP_CONFORMANCE_SCENARIO` and may
give what it needs as JSON in `MCP_CONFORMANCE_CONTEXT`. Exit code 0 means that the
client did what it set out to do; some scenarios want it to refuse.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

from wieldy import Status, Tool, Toolbox
from wieldy.mcp import OAuth

_STUBS = {"string": "x", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
_CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
_TRIES = 100
_PAUSE = 0.05


def browse(url: str) -> None:
    """Sign in without a person, as a browser beside the program would."""
    threading.Thread(target=_follow, args=(url,), daemon=True).start()


def _follow(url: str) -> None:
    """Go from the sign-in page to where the way back leads."""
    with httpx2.Client() as http:
        page = http.get(url)
        for _ in range(_TRIES):
            try:
                http.get(page.headers["location"])
                return
            except httpx2.ConnectError:
                # The program begins to wait there after it has opened the browser.
                time.sleep(_PAUSE)


def accept(question: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a form with its defaults, and yes where it has none."""
    asked = question["params"].get("requestedSchema", {}).get("properties", {})
    filled = {name: field["default"] for name, field in asked.items() if "default" in field}
    return {"action": "accept", "content": filled or dict.fromkeys(asked, True)}


def sample(question: Mapping[str, Any]) -> dict[str, Any]:
    """Answer as a model that has nothing to say."""
    return {"role": "assistant", "content": {"type": "text", "text": ""}, "model": "none"}


def stubs(tool: Tool) -> dict[str, Any]:
    """Arguments that fit what a tool requires."""
    fields = tool.input_schema["properties"]
    return {
        name: _STUBS.get(fields.get(name, {}).get("type"), "x")
        for name in tool.input_schema.get("required", ())
    }


async def settled(box: Toolbox, name: str) -> None:
    """Call a tool to its end, and answer whatever it asks on the way."""
    outcome = await box.call(name)
    while outcome.status is Status.PENDING:
        asked = outcome.metadata["input"]
        answers = {key: accept(question) for key, question in asked.items()}
        outcome = await box.answer(outcome.call.id, answers)
    outcome.unwrap()


async def call_every_tool(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Call each tool that is offered, once."""
    for tool in box:
        await box.call(tool.name, stubs(tool))


async def call_first_tool(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Call the first tool, if there is one."""
    for tool in list(box)[:1]:
        await box.call(tool.name)


async def add_numbers(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Add two numbers."""
    (await box.call("add_numbers", {"a": 5, "b": 3})).unwrap()


async def reconnect(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Call a tool whose answer comes over a second connection."""
    (await box.call("test_reconnection")).unwrap()


async def fill_in_defaults(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Call a tool that asks something with defaults."""
    (await box.call("test_client_elicitation_defaults")).unwrap()


async def touch_everything(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Use a tool, a resource and a prompt."""
    await call_every_tool(box, context)
    for server in box.mcp.values():
        for resource in (await server.resources())[:1]:
            await server.read_resource(resource["uri"])
        for prompt in (await server.prompts())[:1]:
            await server.get_prompt(prompt["name"])


async def replay_calls(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Make the calls that the suite lists, of tools that are offered."""
    for call in context.get("toolCalls", ()):
        if call["name"] in box:
            await box.call(call["name"], call.get("arguments") or {})


async def echo_schema(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Send a tool's schema back as it is known here."""
    described = box.get("json_schema_2020_12_tool")
    assert described is not None
    (await box.call("json_schema_echo", {"schema": described.input_schema})).unwrap()


async def answer_in_rounds(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Call tools that ask back before they answer, and others between."""
    for name in ("echo_state", "unrelated", "no_state"):
        await settled(box, f"test_mrtr_{name}")
    # The SDK refuses the answer to this one. What is judged is that it is not sent again.
    await box.call("test_mrtr_no_result_type")


async def only_connect(box: Toolbox, context: Mapping[str, Any]) -> None:
    """Connecting lists the tools; that is all."""


Scenario = Callable[[Toolbox, Mapping[str, Any]], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    "initialize": only_connect,
    "json-schema-ref-no-deref": only_connect,
    "tools_call": add_numbers,
    "request-metadata": call_every_tool,
    "sse-retry": reconnect,
    "elicitation-sep1034-client-defaults": fill_in_defaults,
    "http-standard-headers": touch_everything,
    "http-invalid-tool-headers": call_every_tool,
    "http-custom-headers": replay_calls,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2322-client-request-state": answer_in_rounds,
}


def sign_in(context: Mapping[str, Any]) -> OAuth:
    """How the client signs in: as it was registered, or by registering itself."""
    return OAuth(
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        client_metadata_url=_CLIENT_METADATA,
        open_url=browse,
    )


async def run(url: str, name: str, context: Mapping[str, Any]) -> None:
    """Connect and do what the scenario is about."""
    signs_in = name.startswith("auth/")
    scenario = call_first_tool if signs_in else SCENARIOS[name]
    # What is sent is the suite's business, so arguments pass as they are.
    async with Toolbox(validation="describe") as box:
        await box.add_mcp(
            url,
            on_elicit=accept,
            on_sample=sample,
            auth=sign_in(context) if signs_in else None,
        )
        await scenario(box, context)


def main() -> int:
    """Run the scenario that the environment names."""
    [url] = sys.argv[1:]
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "initialize")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if not name.startswith("auth/") and name not in SCENARIOS:
        sys.stderr.write(f"There is no scenario {name!r} here.\n")
        return 2
    asyncio.run(run(url, name, context))
    return 0


if __name__ == "__main__":
    sys.exit(main())
