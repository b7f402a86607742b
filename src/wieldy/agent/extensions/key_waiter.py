"""Values of an answer as soon as they are there, while the rest still comes."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from typing import Any, Self

from wieldy.agent.agent import BaseAgent
from wieldy.agent.output_form import OutputForm
from wieldy.agent.request import PATH_STYLE
from wieldy.agent.response import Response
from wieldy.agent.response_stream import blocking_items
from wieldy.core.sync import border

KeyHandler = Callable[[Any], Any]


class KeyWaiterExtension(BaseAgent):
    """Waits for keys of the `output()`. A key is a path: `name`, `l[0].title`, `l[*].title`.

    Without an output, and with `must_in_prompt=True` for a key that the output does not
    have, these methods raise `NotImplementedError` and nothing is asked.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._key_handlers: list[tuple[str, KeyHandler]] = []

    async def async_get_key_result(self, key: str, *, must_in_prompt: bool = False) -> Any:
        """Ask, wait for one key, and give its value; None if it never came.

        The rest of the answer is not read.
        """
        response = self._respond_with([key], must_in_prompt)
        async for _, value in _completed(response, [key]):
            response.cancel()
            return value
        return None

    def get_key_result(self, key: str, *, must_in_prompt: bool = False) -> Any:
        """The same from blocking code."""
        start = self.async_get_key_result
        return border().wait(lambda home: start(key, must_in_prompt=must_in_prompt))

    def async_wait_keys(
        self, keys: Iterable[str] | str, *, must_in_prompt: bool = False
    ) -> AsyncGenerator[tuple[str, Any]]:
        """Ask, and give `(path, value)` of these keys in the order in which they come."""
        listed = [keys] if isinstance(keys, str) else list(keys)
        return _completed(self._respond_with(listed, must_in_prompt), listed)

    def wait_keys(
        self, keys: Iterable[str] | str, *, must_in_prompt: bool = False
    ) -> Generator[tuple[str, Any]]:
        """The same for blocking code."""
        return blocking_items(self.async_wait_keys(keys, must_in_prompt=must_in_prompt))

    def when_key(self, key: str, handler: KeyHandler) -> Self:
        """Call a function, sync or async, with the value of a key as soon as it is there."""
        if not callable(handler):
            raise TypeError(f"A handler is a function, not {handler!r:.200}")
        self._key_handlers.append((key, handler))
        return self

    def on_key(self, key: str, handler: KeyHandler) -> Self:
        """The same as `when_key`."""
        return self.when_key(key, handler)

    async def async_start_waiter(self, *, must_in_prompt: bool = False) -> list[tuple[Any, ...]]:
        """Ask, and call the handlers; gives `(path, value, what the handler gave)` of each."""
        if not self._key_handlers:
            raise NotImplementedError("Nobody waits for a key: call when_key(key, handler) first.")
        keys = [key for key, _ in self._key_handlers]
        response = self._respond_with(keys, must_in_prompt)
        handlers, self._key_handlers = self._key_handlers, []
        # Blocking handlers run one after the other, in the order in which their keys come.
        turn = asyncio.Lock()
        async with asyncio.TaskGroup() as group:
            tasks = []
            async for event in response.get_async_generator("instant"):
                if event.is_complete:
                    wanted = [each for key, each in handlers if _fits(event, key)]
                    for handler in wanted:
                        told = _tell(event.path, event.value, handler, turn)
                        tasks.append(group.create_task(told))
        return [task.result() for task in tasks]

    def start_waiter(self, *, must_in_prompt: bool = False) -> list[tuple[Any, ...]]:
        """The same from blocking code."""
        start = self.async_start_waiter
        return border().wait(lambda home: start(must_in_prompt=must_in_prompt))

    def _respond_with(self, keys: list[str], must_in_prompt: bool) -> Response:
        """Start the request, if its output has the keys."""
        prompt = self.request_prompt
        form = OutputForm(prompt.get("output"), prompt.get("output_format"))
        if not form.wants_object:
            raise NotImplementedError("There are no keys to wait for: define an output() first.")
        style = self.settings.get(PATH_STYLE, "dot")
        unknown = [key for key in keys if not form.has_path(key, style)] if must_in_prompt else []
        if unknown:
            raise NotImplementedError(f"The output() has no {', '.join(map(repr, unknown))}.")
        return self.get_response()


async def _completed(response: Response, keys: list[str]) -> AsyncGenerator[tuple[str, Any]]:
    async for event in response.get_async_generator("instant"):
        if event.is_complete and any(_fits(event, key) for key in keys):
            yield event.path, event.value


def _fits(event: Any, key: str) -> bool:
    return key in (event.path, event.wildcard_path)


async def _tell(
    path: str, value: Any, handler: KeyHandler, turn: asyncio.Lock
) -> tuple[str, Any, Any]:
    if inspect.iscoroutinefunction(handler):
        return path, value, await handler(value)
    async with turn:
        given = await asyncio.to_thread(handler, value)
    return path, value, await given if inspect.isawaitable(given) else given
