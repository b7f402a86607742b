"""Functions whose body is the model: signature in, docstring as instruction, annotation out."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from wieldy.agent.agent import BaseAgent
from wieldy.agent.nested_data import merge_values
from wieldy.agent.response import Response
from wieldy.core.schema.annotations import as_written, signature_of

F = TypeVar("F", bound=Callable[..., Any])


class AutoFuncExtension(BaseAgent):
    """Lets the model compute what a function returns."""

    def auto_func(self, func: F) -> F:
        """Make a function that asks the model.

        The arguments, with their defaults, are the input; the docstring is the instruction;
        the return annotation is the output. A function without one returns text.

        Args:
            func: The function, whose body is not run.

        Returns:
            A function of the same signature, to be awaited if `func` is async.

        Raises:
            TypeError: `func` is a generator function of either kind, or no function.

        Example:
            `@agent.auto_func` above `def summarize(text: str) -> str:`
        """
        if not callable(func):
            raise TypeError(f"auto_func takes a function, not {func!r:.200}")
        if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise TypeError(f"auto_func can't stand for a generator: {func.__name__}")
        signature = _read_signature(func)

        @functools.wraps(func)
        def blocking(*args: Any, **kwargs: Any) -> Any:
            response = self._ask_for(func, signature, args, kwargs)
            return response.get_data_object() if _wants_object(signature) else response.get_data()

        @functools.wraps(func)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            response = self._ask_for(func, signature, args, kwargs)
            if _wants_object(signature):
                return await response.async_get_data_object()
            return await response.async_get_data()

        made: Any = awaited if inspect.iscoroutinefunction(func) else blocking
        return made  # type: ignore[no-any-return]

    def _ask_for(
        self,
        func: Callable[..., Any],
        signature: inspect.Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Response:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        # This is a separate request, so that the draft of the next one is left alone.
        slots: dict[str, Any] = {"input": dict(bound.arguments)}
        instruction = inspect.getdoc(func)
        if instruction:
            slots["instruct"] = instruction
        if signature.return_annotation is not inspect.Signature.empty:
            slots["output"] = signature.return_annotation
        return self._respond(merge_values(self.agent_prompt.values(), slots))


def _read_signature(func: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(func, eval_str=True)
    except Exception:
        # An annotation that does not name a type is text that describes the answer.
        found = signature_of(func)
        return found.replace(return_annotation=as_written(found.return_annotation))


def _wants_object(signature: inspect.Signature) -> bool:
    wanted = signature.return_annotation
    return isinstance(wanted, type) and issubclass(wanted, BaseModel)
