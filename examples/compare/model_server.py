"""A server on this machine that speaks OpenAI's chat API and says what it was told to say."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# How many characters of an answer come in one piece.
PIECE = 3
NO_TOOL = {"use_tool": False, "tool_command": {}, "next_action": "response"}


class ModelServer:
    """Answers requests in order, in small pieces, and keeps what was sent.

    A request that asks whether a tool is wanted is answered from a list of its own, because
    the two sides ask that in different words and not equally often.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.questions: list[dict[str, Any]] = []
        self._answers: list[Any] = []
        self._plans: list[Any] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """The base URL of its API."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def say(self, *answers: Any) -> None:
        """Forget what was, and give these answers to the next requests."""
        self.requests, self.questions = [], []
        self._answers, self._plans = list(answers), []

    def use(self, tool: str, purpose: str, **kwargs: Any) -> None:
        """Want a tool when next asked about it; both sides' forms are in one answer."""
        command = {"purpose": purpose, "tool_name": tool, "tool_kwargs": kwargs}
        self._plans.append(
            {
                "use_tool": True,
                "tool_command": command,
                "next_action": "execute",
                "execution_commands": [{**command, "todo_suggestion": "answer"}],
            }
        )

    def answer(self, request: dict[str, Any]) -> Any:
        """What is said to a request, which is kept."""
        asked = json.dumps(request["messages"])
        if "use_tool" in asked or "next_action" in asked:
            self.questions.append(request)
            return self._plans.pop(0) if self._plans else NO_TOOL
        self.requests.append(request)
        return self._answers.pop(0) if self._answers else "I have nothing to say."


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = json.loads(body)
            request["authorization"] = self.headers.get("Authorization")
            answer = server.answer(request)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            # Whoever has read enough closes the connection.
            with contextlib.suppress(ConnectionError):
                for line in _lines(answer):
                    self.wfile.write(f"data: {line}\n\n".encode())

        def log_message(self, *arguments: Any) -> None:
            pass

    return Handler


def _lines(answer: Any) -> Iterator[str]:
    """The events of a streamed answer; a pair is what the model thought and what it says."""
    thought, said = answer if isinstance(answer, tuple) else ("", answer)
    text = said if isinstance(said, str) else json.dumps(said)
    yield _chunk({"role": "assistant", "content": ""})
    for piece in _pieces(thought):
        yield _chunk({"reasoning_content": piece})
    for piece in _pieces(text):
        yield _chunk({"content": piece})
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    yield _chunk({}, finish_reason="stop", usage=usage)
    yield "[DONE]"


def _pieces(text: str) -> Iterator[str]:
    for at in range(0, len(text), PIECE):
        yield text[at : at + PIECE]


def _chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    facts = {"id": "answer-1", "object": "chat.completion.chunk", "model": "scripted"}
    return json.dumps({**facts, "created": 1, "choices": [choice], **more})
