"""A server over real HTTP, on a loop and a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wieldy.mcp import serve


@contextmanager
def served(box: Any, run: Callable[..., Any] = serve, **options: Any) -> Iterator[str]:
    """The address of a box while it is served."""
    ready = threading.Event()
    found: list[Any] = []

    async def main() -> None:
        def told(url: str) -> None:
            found.append(url)
            ready.set()

        found.append((asyncio.get_running_loop(), asyncio.current_task()))
        await run(box, port=0, ready=told, **options)

    def work() -> None:
        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            found.append(error)
            ready.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(120), "the server did not start"
        if isinstance(found[-1], BaseException):
            raise found[-1]
        yield found[-1]
    finally:
        loop, task = found[0]
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        thread.join(120)
        assert not thread.is_alive(), "the server did not end"
