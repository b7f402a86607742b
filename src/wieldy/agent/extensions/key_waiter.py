"""Give the values of an answer as soon as they are complete, while the rest still arrives."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from typing import Any, Self

from wieldy.agent.agent import Asked, BaseAgent
from wieldy.agent.nested_data import write_slash_path
from wieldy.agent.output.output_form import OutputForm
from wieldy.agent.request import PATH_STYLE
from wieldy.agent.response import Response
from wieldy.agent.response_stream import blocking_items
from wieldy.core.names import listed_names
from wieldy.core.sync import blocking_border

KeyHandler = Callable[[Any], Any]
Told = tuple[str, Any, Any]


class KeyWaiterExtension(BaseAgent):
    """Waits for keys of the `output()`. A key is a path: `name`, `l[0].title`, `l[*].title`.

    Without an output, and with `must_in_prompt=True` for a key that the output does not
    have, these methods raise `NotImplementedError` and nothing is asked.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._key_handlers: list[tuple[str, KeyHandler]] = []

    def async_get_key_result(self, key: str, *, must_in_prompt: bool = False) -> Asked[Any]:
        """Ask, wait for one key, and return its value. The rest of the answer is not read.

        Args:
            key: The path of the key.
            must_in_prompt: Whether a key that the output does not have is an error.

        Returns:
            The value, or None if the key never came.

        Raises:
            NotImplementedError: There is no `output()`, or it does not have the key.
        """
        return _first_value(self._respond_with([key], must_in_prompt), key)

    def get_key_result(self, key: str, *, must_in_prompt: bool = False) -> Any:
        """Ask, wait for one key, and return its value, from blocking code.

        Args:
            key: The path of the key.
            must_in_prompt: Whether a key that the output does not have is an error.

        Returns:
            The value, or None if the key never came.

        Example:
            `agent.input("Who wrote Emma?").output({"author": (str,)}).get_key_result("author")`
        """
        asked = self.async_get_key_result(key, must_in_prompt=must_in_prompt)
        return blocking_border().wait(lambda home: asked)

    def async_wait_keys(
        self, keys: Iterable[str] | str, *, must_in_prompt: bool = False
    ) -> AsyncGenerator[tuple[str, Any]]:
        """Ask, and iterate over the values of keys in the order in which they come.

        Args:
            keys: The paths of the keys.
            must_in_prompt: Whether a key that the output does not have is an error.

        Returns:
            Pairs of a path and a value.

        Raises:
            NotImplementedError: There is no `output()`, or it does not have a key.
        """
        listed = list(listed_names(keys))
        return _completed_keys(self._respond_with(listed, must_in_prompt), listed)

    def wait_keys(
        self, keys: Iterable[str] | str, *, must_in_prompt: bool = False
    ) -> Generator[tuple[str, Any]]:
        """Ask, and iterate over the values of keys, from blocking code.

        Args:
            keys: The paths of the keys.
            must_in_prompt: Whether a key that the output does not have is an error.

        Returns:
            Pairs of a path and a value.
        """
        return blocking_items(self.async_wait_keys(keys, must_in_prompt=must_in_prompt))

    def when_key(self, key: str, handler: KeyHandler) -> Self:
        """Have a function called with the value of a key as soon as it is complete.

        Args:
            key: The path of the key.
            handler: A function, sync or async, that gets the value.

        Returns:
            The agent. `start_waiter` asks, and calls the handlers.

        Example:
            `agent.when_key("title", print).start_waiter()`
        """
        if not callable(handler):
            raise TypeError(f"A handler is a function, not {handler!r:.200}")
        self._key_handlers.append((key, handler))
        return self

    def on_key(self, key: str, handler: KeyHandler) -> Self:
        """Do the same as `when_key`.

        Args:
            key: The path of the key.
            handler: A function, sync or async, that gets the value.

        Returns:
            The agent.
        """
        return self.when_key(key, handler)

    def async_start_waiter(self, *, must_in_prompt: bool = False) -> Asked[list[Told]]:
        """Ask, and call the handlers of `when_key`.

        Args:
            must_in_prompt: Whether a key that the output does not have is an error.

        Returns:
            A path, its value and what the handler returned, for each call of a handler.

        Raises:
            NotImplementedError: There is no handler or no `output()`, or it does not have a key.
        """
        if not self._key_handlers:
            raise NotImplementedError("Nobody waits for a key: call when_key(key, handler) first.")
        keys = [key for key, _ in self._key_handlers]
        response = self._respond_with(keys, must_in_prompt)
        handlers, self._key_handlers = self._key_handlers, []
        return _tell_all(response, handlers)

    def start_waiter(self, *, must_in_prompt: bool = False) -> list[Told]:
        """Ask, and call the handlers of `when_key`, from blocking code.

        Args:
            must_in_prompt: Whether a key that the output does not have is an error.

        Returns:
            A path, its value and what the handler returned, for each call of a handler.
        """
        asked = self.async_start_waiter(must_in_prompt=must_in_prompt)
        return blocking_border().wait(lambda home: asked)

    def _respond_with(self, keys: list[str], must_in_prompt: bool) -> Response:
        """Start the request, after checking that its output has the keys."""
        prompt = self.request_prompt
        form = OutputForm(prompt.get("output"), prompt.get("output_format"))
        if not form.wants_object:
            raise NotImplementedError("There are no keys to wait for: define an output() first.")
        style = self.settings.get(PATH_STYLE, "dot")
        unknown = [key for key in keys if not form.has_path(key, style)] if must_in_prompt else []
        if unknown:
            raise NotImplementedError(f"The output() has no {', '.join(map(repr, unknown))}.")
        return self.get_response()


async def _completed_keys(response: Response, keys: list[str]) -> AsyncGenerator[tuple[str, Any]]:
    async for event in response.get_async_generator("instant"):
        if event.is_complete and any(_fits_key(event, key) for key in keys):
            yield event.path, event.value


async def _first_value(response: Response, key: str) -> Any:
    async for _, value in _completed_keys(response, [key]):
        response.cancel()
        return value
    return None


async def _tell_all(response: Response, handlers: list[tuple[str, KeyHandler]]) -> list[Told]:
    # Blocking handlers run one after the other, in the order in which their keys complete.
    turn = asyncio.Lock()
    tasks: list[asyncio.Task[Told]] = []
    try:
        async for event in response.get_async_generator("instant"):
            wanted = [each for key, each in handlers if event.is_complete and _fits_key(event, key)]
            for handler in wanted:
                told = _tell_handler(event.path, event.value, handler, turn)
                tasks.append(asyncio.create_task(told))
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        raise


def _fits_key(event: Any, key: str) -> bool:
    places = (event.path, event.wildcard_path)
    # A slash path may be written with its indexes in brackets or without.
    return key in places or (event.path.startswith("/") and write_slash_path(key) in places)


async def _tell_handler(path: str, value: Any, handler: KeyHandler, turn: asyncio.Lock) -> Told:
    if inspect.iscoroutinefunction(handler):
        return path, value, await handler(value)
    async with turn:
        given = await asyncio.to_thread(handler, value)
    return path, value, await given if inspect.isawaitable(given) else given
