"""Record what the official SDKs give for each provider, from a mock model server.

The recordings beside this file were made with it. It is not a test: it needs
the SDKs (openai 3.49, anthropic 2.8, google-genai 3.1) in an environment of
their own and npm's `@copilotkit/aimock` (1.43) on the loopback interface:

    npm install @copilotkit/aimock
    python tests/wire/record.py --fixtures > fixtures.json
    node node_modules/@copilotkit/aimock/dist/cli.js \
        -p 4017 --host 127.0.0.1 --chunk-size 8 -f fixtures.json
    python tests/wire/record.py http://127.0.0.1:4017 tests/wire/recordings

Each file is one answer. A streamed one has a line per chunk, any other one line.
"""

import json
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

PARIS = {"city": "Paris", "days": 3}
COLOGNE = {"city": 'Köln "am Rhein"'}
CALLS = [
    {"name": "get_weather", "arguments": json.dumps(PARIS)},
    {"name": "get_weather", "arguments": json.dumps(COLOGNE, ensure_ascii=False)},
    {"name": "now", "arguments": "{}"},
]
CASES: dict[str, dict[str, Any]] = {
    "text": {"content": "Hello there, how are you today?"},
    "one-call": {"toolCalls": CALLS[:1]},
    "parallel-calls": {"content": "Let me look that up.", "toolCalls": CALLS},
}
TOOLS = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
    "now": {"type": "object", "properties": {}},
}


def fixtures() -> str:
    """What the mock server answers, by what the user says."""
    listed = [{"match": {"userMessage": case}, "response": said} for case, said in CASES.items()]
    return json.dumps({"fixtures": listed}, ensure_ascii=False, indent=1)


def openai(url: str, case: str, stream: bool) -> Iterable[Any]:
    client = import_module("openai").OpenAI(base_url=f"{url}/v1", api_key="none")
    tools: Any = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in TOOLS.items()
    ]
    messages: Any = [{"role": "user", "content": case}]
    answer: Any = client.chat.completions.create(
        model="gpt-4o", messages=messages, tools=tools, stream=stream
    )
    return list(answer) if stream else [answer]


def openai_responses(url: str, case: str, stream: bool) -> Iterable[Any]:
    client = import_module("openai").OpenAI(base_url=f"{url}/v1", api_key="none")
    tools: Any = [
        {"type": "function", "name": name, "parameters": schema, "strict": False}
        for name, schema in TOOLS.items()
    ]
    answer: Any = client.responses.create(model="gpt-4o", input=case, tools=tools, stream=stream)
    return list(answer) if stream else [answer]


def anthropic(url: str, case: str, stream: bool) -> Iterable[Any]:
    client = import_module("anthropic").Anthropic(base_url=url, api_key="none")
    tools: Any = [{"name": name, "input_schema": schema} for name, schema in TOOLS.items()]
    messages: Any = [{"role": "user", "content": case}]
    answer: Any = client.messages.create(
        model="claude-opus-5", max_tokens=500, messages=messages, tools=tools, stream=stream
    )
    return list(answer) if stream else [answer]


def gemini(url: str, case: str, stream: bool) -> Iterable[Any]:
    options: Any = {"base_url": url, "api_version": "v1beta"}
    client = import_module("google.genai").Client(api_key="none", http_options=options)
    declared = [{"name": name, "parametersJsonSchema": schema} for name, schema in TOOLS.items()]
    config: Any = {
        "tools": [{"functionDeclarations": declared}],
        "automaticFunctionCalling": {"disable": True},
    }
    ask = client.models.generate_content_stream if stream else client.models.generate_content
    answer: Any = ask(model="gemini-2.5-flash", contents=case, config=config)
    return list(answer) if stream else [answer]


PROVIDERS: dict[str, Callable[[str, str, bool], Iterable[Any]]] = {
    "openai": openai,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}


def plain(chunk: Any) -> str:
    """A chunk as one line of JSON, as the SDK's own dump has it."""
    dumped = chunk.model_dump(mode="json", exclude_none=True)
    # The SDK of Gemini keeps the HTTP headers, which say when and where.
    dumped.pop("sdk_http_response", None)
    return json.dumps(dumped, ensure_ascii=False)


def record(url: str, folder: Path) -> None:
    """Write one file per provider, case and way of answering."""
    for provider, ask in PROVIDERS.items():
        for case in CASES:
            for stream in (False, True):
                name = f"{provider}-{case}-{'stream' if stream else 'whole'}.jsonl"
                lines = "".join(f"{plain(chunk)}\n" for chunk in ask(url, case, stream))
                (folder / name).write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--fixtures"]:
        sys.stdout.write(fixtures())
    else:
        record(sys.argv[1], Path(sys.argv[2]))
