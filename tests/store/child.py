"""Other processes on the same store, as the tests drive them."""

import asyncio
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.forking.forked_program import ForkedProgram

PROGRAM = Path(__file__).with_name("program.py")
SECONDS = 120.0


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so in another process, which can't tell us; bounded."""
    last = time.monotonic() + SECONDS
    for _ in count():
        if await condition():
            return
        assert time.monotonic() < last, "it did not come to that"
        await asyncio.sleep(0.01)


class Child:
    """One process that runs `program.py`."""

    def __init__(self, url: str, effects: Path, death: str) -> None:
        self._process = ForkedProgram([str(PROGRAM), url, str(effects), death])
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, do: str, **facts: Any) -> None:
        """Give a command."""
        self._process.stdin.write(json.dumps({"do": do, **facts}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next answer; fails if the process ends instead."""
        answer = self._answers.get(timeout=SECONDS)
        assert answer is not None, "the process ended without an answer"
        return answer

    def ask(self, do: str, **facts: Any) -> dict[str, Any]:
        """Give a command and the answer to it."""
        self.send(do, **facts)
        return self.answer()

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait until it has ended."""
        code = self._process.wait()
        self._reader.join(SECONDS)
        return code

    def rest(self) -> list[dict[str, Any]]:
        """The answers of an ended process that nobody has read."""
        answers = []
        while (answer := self._answers.get(timeout=SECONDS)) is not None:
            answers.append(answer)
        return answers

    def close(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._reader.join(SECONDS)
        self._process.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            # A killed process may leave half a line.
            if line.endswith("\n"):
                self._answers.put(json.loads(line))
        self._answers.put(None)


class Children:
    """Starts processes on one store, and ends them all."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._started: list[Child] = []

    def start(self, death: str = "never") -> Child:
        """One more process."""
        child = Child(self._url, self._folder / "effects", death)
        self._started.append(child)
        return child

    def release(self, n: int) -> None:
        """Let the call `hang(n)` end."""
        (self._folder / f"go{n}").touch()

    def effects(self) -> Counter[str]:
        """How often each function was entered with each number."""
        path = self._folder / "effects"
        return Counter(path.read_text().splitlines() if path.exists() else ())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._started:
            child.close()
