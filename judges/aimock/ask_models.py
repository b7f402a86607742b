"""Ask a mock model server through each of its APIs: text, thinking, calls, rounds and faults.

Usage: ask_models.py NODE, the folder where the server is installed. It is run in a namespace
of its own.
"""

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from processes import node_of, running, wait_for_port

from wieldy import ModelError, ModelRefused, ModelUnavailable, Toolbox
from wieldy.models import Answers, Model, ModelRequest, Reply, Said, close_connections, find_model

PORT = 8767
URL = f"http://127.0.0.1:{PORT}"
KEY = "the-key-of-the-judge"
BASES = {
    "openai": f"{URL}/v1",
    "openai-responses": f"{URL}/v1",
    "anthropic": URL,
    "gemini": URL,
}
TEXT = "Grüße aus Tromsø: 🌞 und „Schnee“."
THOUGHT = "Let me think about it, slowly."
CALLS = [("weather", {"city": "Tromsø 🌞", "days": 2}), ("weather", {"city": 'Köln "am Rhein"'})]
FIXTURES: list[dict[str, Any]] = [
    {"match": {"toolResultContains": "sunny"}, "response": {"content": "Take sun cream."}},
    {"match": {"userMessage": "say text"}, "response": {"content": TEXT}},
    {
        "match": {"userMessage": "say thought"},
        "response": {"content": TEXT, "reasoning": THOUGHT, "reasoningSignature": "s1gn=="},
    },
    {
        "match": {"userMessage": "call tools"},
        "response": {
            "content": "Let me look.",
            "toolCalls": [
                {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
                for name, given in CALLS
            ],
        },
    },
    {
        "match": {"userMessage": "refuse this"},
        "response": {
            "error": {"message": "not like this", "type": "invalid_request_error"},
            "status": 400,
        },
    },
    {
        "match": {"userMessage": "be busy"},
        "response": {
            "error": {"message": "too busy", "type": "rate_limit_error"},
            "status": 429,
            "retryAfter": 0,
        },
    },
    {
        "match": {"userMessage": "break off"},
        "response": {"content": "word " * 200},
        "truncateAfterChunks": 20,
        # What is sent at once with the break does not arrive.
        "latency": 50,
    },
]


def make_box() -> Toolbox:
    """The tools that the models call."""
    box = Toolbox()

    @box.tool
    def weather(city: str, days: int = 1) -> str:
        """The weather in a city."""
        return f"{city}: sunny for {days}"

    return box


async def ask(model: Model, text: str, box: Toolbox | None = None) -> Reply:
    """The reply to one message."""
    return await finish(model, ModelRequest([Said("system", "Hi."), Said("user", text)], box))


async def finish(model: Model, request: ModelRequest) -> Reply:
    """The last event, after all others."""
    events = [event async for event in model.stream(request)]
    reply = events[-1]
    assert isinstance(reply, Reply), f"the last event is {reply}"
    told = "".join(event.text for event in events[:-1] if event.type == "text")
    assert told == reply.text, f"{told!r} is not {reply.text!r}"
    return reply


def expect(found: object, wanted: object) -> None:
    """Fail unless both are the same."""
    assert found == wanted, f"{found!r} is not {wanted!r}"


async def judge_text(model: Model) -> None:
    reply = await ask(model, "say text")
    expect((reply.text, reply.calls), (TEXT, ()))
    assert reply.finish_reason and reply.usage is not None


async def judge_thinking(model: Model) -> None:
    reply = await ask(model, "say thought")
    expect((reply.text, reply.thinking), (TEXT, THOUGHT))
    request = ModelRequest([Said("user", "say thought"), reply, Said("user", "say text")])
    expect((await finish(model, request)).text, TEXT)


async def judge_rounds(model: Model) -> None:
    box = make_box()
    first = await ask(model, "call tools", box)
    expect([(call.tool, call.arguments) for call in first.calls], CALLS)
    outcomes = await box.call_many(list(first.calls))
    turns = [Said("user", "call tools"), first, Answers(outcomes, first.calls)]
    expect((await finish(model, ModelRequest(turns, box))).text, "Take sun cream.")


async def judge_refusal(model: Model) -> None:
    await expect_error(ask(model, "refuse this"), ModelRefused, "not like this")


async def judge_busyness(model: Model) -> None:
    before = len(journal())
    await expect_error(ask(model, "be busy"), ModelUnavailable, "too busy")
    expect(len(journal()) - before, 3)


async def judge_break(model: Model) -> None:
    before = len(journal())
    await expect_error(ask(model, "break off"), ModelUnavailable, "")
    expect(len(journal()) - before, 1)


async def judge_crowd(model: Model) -> None:
    replies = await asyncio.gather(*(ask(model, "say text") for _ in range(200)))
    expect({reply.text for reply in replies}, {TEXT})


async def expect_error(work: Awaitable[Reply], kind: type[ModelError], words: str) -> None:
    """Fail unless the work ends in this error."""
    try:
        reply = await work
    except kind as error:
        assert words in str(error), f"{error} does not say {words!r}"
        assert KEY not in str(error)
        return
    raise AssertionError(f"it answered {reply}")


async def judge_key(name: str) -> None:
    stranger = find_model(f"{name}:m", base_url=BASES[name], api_key="another-key")
    await expect_error(ask(stranger, "say text"), ModelRefused, "401")


def journal() -> list[Any]:
    """The requests that the server has seen."""
    request = urllib.request.Request(
        f"{URL}/__aimock/journal?limit=10000", headers={"Authorization": f"Bearer {KEY}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = json.load(answer)
    entries: list[Any] = found if isinstance(found, list) else found["entries"]
    return entries


TRIALS: dict[str, Callable[[Model], Awaitable[None]]] = {
    "text": judge_text,
    "thinking": judge_thinking,
    "calls and rounds": judge_rounds,
    "a refusal": judge_refusal,
    "a busy server": judge_busyness,
    "an answer that breaks off": judge_break,
    "200 at once": judge_crowd,
}


async def judge_api(name: str) -> list[str]:
    """What is wrong with one API."""
    model = find_model(f"{name}:m", base_url=BASES[name], api_key=KEY, retries=2)
    faults = []
    for trial, judge in TRIALS.items():
        try:
            await judge(model)
        except (AssertionError, ModelError) as error:
            faults.append(f"{trial}: {error}")
    try:
        await judge_key(name)
    except (AssertionError, ModelError) as error:
        faults.append(f"another key: {error}")
    return faults


async def judge_all() -> int:
    """Judge every API; gives how many are at fault."""
    at_fault = 0
    for name in BASES:
        faults = await judge_api(name)
        print(f"  {name}: {'; '.join(faults) or 'ok'}")
        at_fault += bool(faults)
    await close_connections()
    return at_fault


def main(node: Path) -> int:
    server = node / "node_modules/@copilotkit/aimock/dist/cli.js"
    os.environ["AIMOCK_API_KEYS"] = KEY
    with tempfile.NamedTemporaryFile("w", suffix=".json") as fixtures:
        json.dump({"fixtures": FIXTURES}, fixtures)
        fixtures.flush()
        options = ["-p", str(PORT), "--host", "127.0.0.1", "--chunk-size", "3", "--strict"]
        options += ["--log-level", "warn", "--journal-max", "0", "-f", fixtures.name]
        with running([str(node_of(node)), str(server), *options]) as process:
            wait_for_port(PORT, process)
            return asyncio.run(judge_all())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
