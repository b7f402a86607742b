"""A durable agent loop of one's own, over the SDKs of OpenAI and of Anthropic.

The conversation is a session in the store and every call has a key: the loop may be
killed anywhere and started again. Run it without arguments: a stand-in for the model
answers on this machine, the loop is killed in the middle of a tool, started again,
waits for an approval, and goes on. `python durable_loop.py openai "question"` runs the
loop alone, against the model that OPENAI_API_KEY or ANTHROPIC_API_KEY gives access to.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from wieldy import Call, Outcome, Status, Toolbox
from wieldy.wire import anthropic, openai

Message = dict[str, Any]

box = Toolbox(store="sqlite:///durable.db")


@box.tool(read_only=True)
async def forecast(city: str) -> str:
    """Say what the weather will be."""
    if os.environ.get("CRASH"):
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out
    return f"sun in {city}"


@box.tool(permission="confirm")
def book_table(place: str, people: int) -> str:
    """Book a table in a restaurant."""
    with Path("bookings.txt").open("a", encoding="utf-8") as bookings:
        bookings.write(f"{place}, {people}\n")
    return f"a table for {people} at {place}"


async def ask_openai(messages: list[Message]) -> Message:
    """One streamed answer of a model behind OpenAI's chat API."""
    # A loop loads the SDK that it uses, and not the other.
    from openai import AsyncOpenAI  # noqa: PLC0415

    async with AsyncOpenAI(max_retries=2) as client:
        reader = openai.StreamReader(box)
        stream = await client.chat.completions.create(
            model=os.environ.get("MODEL", "gpt-5-mini"),
            messages=cast(Any, messages),
            tools=cast(Any, box.schemas("openai")),
            stream=True,
        )
        async for chunk in stream:
            show(reader.feed(chunk))
        show(reader.close())
        return reader.message


async def ask_anthropic(messages: list[Message]) -> Message:
    """One streamed answer of a model behind Anthropic's messages API."""
    from anthropic import AsyncAnthropic  # noqa: PLC0415

    async with AsyncAnthropic(max_retries=2) as client:
        reader = anthropic.StreamReader(box)
        stream = await client.messages.create(
            model=os.environ.get("MODEL", "claude-opus-5"),
            max_tokens=2000,
            messages=cast(Any, messages),
            tools=cast(Any, box.schemas("anthropic")),
            stream=True,
        )
        async for event in stream:
            show(reader.feed(event))
        show(reader.close())
        return reader.message


def show(events: list[Any]) -> None:
    """Print the text as it streams."""
    for event in events:
        if event.type == "text":
            print(event.text, end="", flush=True)
        elif event.type == "finished":
            print(flush=True)


PROVIDERS: dict[str, tuple[Callable[..., Any], Any]] = {
    "openai": (ask_openai, openai),
    "anthropic": (ask_anthropic, anthropic),
}


async def run_calls(session: str, place: int, calls: list[Call]) -> list[Outcome]:
    """Run the calls of one answer, each once however often this is tried."""
    keyed = [
        call.replace(idempotency_key=f"{session}/{place}/{index}")
        for index, call in enumerate(calls)
    ]
    return await box.call_many(keyed)


async def converse(provider: str, question: str) -> None:
    """Go on with the conversation where it stands, until the model answers or somebody must."""
    ask, wire = PROVIDERS[provider]
    messages = await box.sessions.read(provider)
    if not messages:
        messages = [{"role": "user", "content": question}]
        await box.sessions.append(provider, *messages)
    await box.recover()
    while True:
        if messages[-1]["role"] != "assistant":
            new = [await ask(messages)]
        else:
            calls = wire.parse_calls(messages[-1], box)
            if not calls:
                return
            outcomes = await run_calls(provider, len(messages), calls)
            waiting = [each for each in outcomes if each.status is Status.PENDING]
            for outcome in waiting:
                print(f"{outcome.call.tool} waits for approval", flush=True)
            if waiting:
                return
            new = wire.render(outcomes)
        await box.sessions.append(provider, *new)
        messages += new


async def talk(provider: str, question: str) -> None:
    """Run the loop, and let go of the store."""
    async with box:
        await converse(provider, question)


# From here on: the stand-in for a model, and the guided run.

SAID = "Let me see."
WANTED = [
    ("forecast", {"city": "Oslo"}),
    ("book_table", {"place": "Café", "people": 4}),
]
ANSWER = "It will be sunny, and your table is booked."


def openai_chunks(first: bool) -> list[str]:
    """An answer as the chat API streams it."""
    deltas: list[Message] = [{"role": "assistant", "content": SAID if first else ANSWER}]
    for index, (name, arguments) in enumerate(WANTED if first else []):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        deltas.append({"tool_calls": [call]})
    frame: Message = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    choices: list[Message] = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls" if first else "stop"})
    lines = [f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n" for choice in choices]
    return [*lines, "data: [DONE]\n\n"]


def anthropic_events(first: bool) -> list[str]:
    """An answer as the messages API streams it."""
    begun: Message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "m",
    }
    begun |= {"usage": {"input_tokens": 9, "output_tokens": 1}}
    thinking = {"type": "thinking", "thinking": "Weather first.", "signature": "c2lnbmVk"}
    blocks: list[Message] = [thinking, {"type": "text", "text": SAID if first else ANSWER}]
    for index, (name, arguments) in enumerate(WANTED if first else []):
        blocks.append({"type": "tool_use", "id": f"t{index}", "name": name, "input": arguments})
    events: list[Message] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    why = {"stop_reason": "tool_use" if first else "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": why, "usage": {"output_tokens": 20}})
    events.append({"type": "message_stop"})
    return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]


class StandIn(BaseHTTPRequestHandler):
    """Answers as a model would: first with two calls, then with a sentence."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Stream one answer."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        first = not any(message["role"] == "assistant" for message in sent["messages"])
        stream = openai_chunks if self.path.endswith("/chat/completions") else anthropic_events
        body = "".join(stream(first)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing to stderr."""


def run_loop(provider: str, url: str, **more: str) -> None:
    """Run the loop in a process of its own, and show how it ended."""
    settings = {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
    }
    command = [sys.executable, "-X", "utf8", __file__, provider, "Can we eat outside? Book for 4."]
    ended = subprocess.run(command, env={**os.environ, **settings, **more})
    if ended.returncode:
        print("killed", flush=True)


async def guide(url: str) -> None:
    """Kill each loop, start it again, approve, and start it a third time."""
    for provider in PROVIDERS:
        print(f"-- {provider}", flush=True)
        run_loop(provider, url, CRASH="1")
        run_loop(provider, url)
        for parked in await box.pending():
            outcome = await box.approve(parked.id, by="ann")
            print(f"ann approved: {outcome.text}", flush=True)
        run_loop(provider, url)
        messages = await box.sessions.read(provider)
        print([message["role"] for message in messages], flush=True)
    await box.close()


def main() -> None:
    if len(sys.argv) > 2:
        asyncio.run(talk(*sys.argv[1:3]))
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asyncio.run(guide(f"http://127.0.0.1:{server.server_port}"))
        server.shutdown()
    print(Path("bookings.txt").read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()

# > -- openai
# > Let me see.
# > killed
# > book_table waits for approval
# > ann approved: a table for 4 at Café
# > It will be sunny, and your table is booked.
# > ['user', 'assistant', 'tool', 'tool', 'assistant']
# > -- anthropic
# > Let me see.
# > killed
# > book_table waits for approval
# > ann approved: a table for 4 at Café
# > It will be sunny, and your table is booked.
# > ['user', 'assistant', 'user', 'assistant']
# > ['Café, 4', 'Café, 4']
