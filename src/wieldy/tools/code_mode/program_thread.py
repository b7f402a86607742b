"""The thread that talks to a program in the sandbox, and its conversation with the loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class NobodyListens(Exception):
    """Raised on the thread if the loop gives no more answers."""


class ProgramThread(Generic[Question, Answer]):
    """Runs a blocking function, which asks the loop one question after the other.

    The program waits for every exchange, so each is as short as it can be: a question wakes the
    loop once, an answer wakes the thread once, and the thread may work between the two.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._asked: asyncio.Future[Question | None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._answers: SimpleQueue[Answer | None] = SimpleQueue()
        self._unheard = False
        self._result: Any = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], Any]) -> None:
        """Start the function."""
        # A process must be able to end although a program waits for the answer of a dropped loop.
        threading.Thread(
            target=self._work, args=(work,), name="wieldy-program", daemon=True
        ).start()

    def ask(self, question: Question) -> None:
        """Ask the loop something, from the thread; `hear` gives the answer."""
        if not self._tell(self._take_question, question):
            raise NobodyListens
        self._unheard = True

    def hear(self) -> Answer:
        """Wait for the answer to the last question, on the thread."""
        answer = self._answers.get()
        self._unheard = False
        if answer is None:
            raise NobodyListens
        return answer

    async def next_question(self) -> Question | None:
        """Wait for the next question; None says that the function has ended."""
        return await self._asked

    def answer(self, answer: Answer) -> None:
        """Answer the last question."""
        self._asked = self._loop.create_future()
        self._answers.put(answer)

    @property
    def busy(self) -> bool:
        """Whether the function has an answer to go on with, and has asked nothing since."""
        return not self._ended.done() and (self._asked.cancelled() or not self._asked.done())

    def result(self) -> Any:
        """What the function gave or raised, once it has ended."""
        if self._error is not None:
            raise self._error
        return self._result

    async def close(self) -> None:
        """Answer no more, and wait until the function has ended."""
        self._answers.put(None)
        await self._ended

    def _work(self, work: Callable[[], Any]) -> None:
        try:
            self._result = work()
        except BaseException as error:
            self._error = error
        if self._unheard:
            # The loop is told of the end when it has answered, and not in between.
            self._answers.get()
        self._tell(self._take_end)

    def _tell(self, take: Callable[..., None], *said: Any) -> bool:
        """Have the loop take what is said; returns False if the loop was closed."""
        try:
            self._loop.call_soon_threadsafe(take, *said)
        except RuntimeError:
            return False
        return True

    def _take_question(self, question: Question | None) -> None:
        if not self._asked.done():
            self._asked.set_result(question)

    def _take_end(self) -> None:
        self._take_question(None)
        if not self._ended.done():
            self._ended.set_result(None)
