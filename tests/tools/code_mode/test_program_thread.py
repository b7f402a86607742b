"""The conversation between the thread of a program and the loop."""

import asyncio
import subprocess
import sys
import threading

import pytest

from wieldy.tools.code_mode.program_thread import NobodyListens, ProgramThread

Numbers = ProgramThread[int, int]


async def converse(thread: Numbers) -> list[int]:
    """Answer every question with its double; returns the questions."""
    heard = []
    while (number := await thread.next_question()) is not None:
        heard.append(number)
        thread.answer(2 * number)
    return heard


async def test_questions_are_answered_one_after_the_other() -> None:
    thread = Numbers()

    def work() -> list[int]:
        given = []
        for number in range(3):
            thread.ask(number)
            given.append(thread.hear())
        return given

    thread.start(work)

    assert await converse(thread) == [0, 1, 2]
    await thread.close()
    assert thread.result() == [0, 2, 4]


async def test_an_error_before_the_answer_is_heard_is_told_after_the_answer() -> None:
    thread = Numbers()
    raised = threading.Event()

    def work() -> None:
        thread.ask(7)
        raised.set()
        raise LookupError("gone")

    thread.start(work)

    assert await thread.next_question() == 7
    await asyncio.to_thread(raised.wait)
    thread.answer(14)
    assert await thread.next_question() is None
    await thread.close()
    with pytest.raises(LookupError, match="gone"):
        thread.result()


async def test_a_function_that_waits_for_an_answer_ends_when_the_thread_is_closed() -> None:
    thread = Numbers()

    def work() -> None:
        thread.ask(1)
        thread.hear()

    thread.start(work)
    await thread.next_question()

    await thread.close()

    with pytest.raises(NobodyListens):
        thread.result()


async def test_a_cancelled_listener_does_not_disturb_what_the_thread_says() -> None:
    thread = Numbers()
    go_on = threading.Event()

    def work() -> int:
        go_on.wait()
        thread.ask(1)
        return 2

    thread.start(work)
    listening = asyncio.ensure_future(thread.next_question())
    await asyncio.sleep(0)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    go_on.set()

    await thread.close()

    assert thread.result() == 2


def test_a_function_ends_although_its_loop_was_closed() -> None:
    ended, closed = threading.Event(), threading.Event()

    async def begin() -> None:
        thread = Numbers()

        def work() -> None:
            closed.wait()
            with pytest.raises(NobodyListens):
                thread.ask(1)
            ended.set()

        thread.start(work)

    asyncio.run(begin())
    closed.set()

    assert ended.wait(5)


_LEAVING = """
import asyncio

from wieldy import Toolbox
from wieldy.tools.code_mode import add_code_mode

box, entered = Toolbox(), asyncio.Event()


@box.tool
async def enter() -> None:
    entered.set()


async def leave() -> None:
    global running
    running = asyncio.ensure_future(box.call("run_code", {"code": CODE}))
    await entered.wait()


add_code_mode(box.view(), seconds=1_000)
asyncio.new_event_loop().run_until_complete(leave())
"""


@pytest.mark.parametrize("rest", ["while True: pass", "await asyncio.sleep(900)"])
def test_a_process_ends_although_a_program_of_it_runs(rest: str) -> None:
    code = f"import asyncio\nawait enter()\n{rest}"
    script = _LEAVING.replace("CODE", repr(code))
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)
