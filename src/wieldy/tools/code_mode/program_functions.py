"""The functions of a program: the tools of a view under names that Python accepts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from wieldy.core.names import find_near_names
from wieldy.core.tool import Tool
from wieldy.core.visible_text import visible_line
from wieldy.view import View
from wieldy.wire.cost import estimate_text_tokens
from wieldy.wire.python_names import RESERVED, python_names
from wieldy.wire.python_stubs import parameter_names, tool_outline, tool_stub

from .program_values import plain_value, replace_surrogates

FIND, DESCRIBE = "find_functions", "describe_function"
_OWN = frozenset((FIND, DESCRIBE, "asyncio"))
_MAX_FOUND = 20


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A call that the program wants to be made."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """What the program asked for and is told without a call."""

    value: Any


class ProgramFunctions:
    """The functions that one program has, as the tools of its view are when it begins.

    Args:
        view: The view.
        own_name: The name of the tool that runs the program, which is no function of it.
        budget: How many tokens their descriptions may take.
    """

    def __init__(self, view: View, own_name: str, budget: int) -> None:
        self._view = view
        self._budget = budget
        tools = [tool for tool in view.all_visible() if tool.name != own_name]
        self._names = python_names((tool.name for tool in tools), RESERVED | _OWN)
        self._tools = {self._names[tool.name]: tool for tool in tools}

    def describe(self) -> str:
        """What a model reads of the functions: all stubs, all names, or how to find them."""
        if not self._tools:
            return "There are no functions now."
        left, stubs = self._budget, []
        for name, tool in self._tools.items():
            stubs.append(tool_stub(tool, name))
            left -= estimate_text_tokens(stubs[-1])
            if left < 0:
                return self._describe_briefly()
        return "The functions:\n\n" + "\n\n".join(stubs)

    def _describe_briefly(self) -> str:
        found = (
            f'There are {len(self._tools):,} functions. `await {FIND}("words")` outlines those '
            f'that fit best, `await {DESCRIBE}("name")` gives the signature of one.'
        )
        names = ", ".join(self._tools)
        if estimate_text_tokens(names) > self._budget:
            return f"{found} Print what they give, and write the program that uses it next."
        return f"{found} They are: {names}"

    def find(self, name: str) -> Callable[..., WantedCall | KnownAnswer] | None:
        """What a call of this function wants, going by its arguments; None if there is none."""
        tool = self._tools.get(name)
        if tool is not None:
            return partial(_want_call, name, tool)
        own: dict[str, Callable[..., KnownAnswer]] = {
            FIND: self._find_functions,
            DESCRIBE: self._describe_function,
        }
        return own.get(name)

    def explain_unknown(self, name: str) -> str:
        """What a program is told that calls a function which is not there."""
        near = find_near_names(name, self._tools)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        return f"name {visible_line(name)!r} is not defined.{meant}"

    def _find_functions(self, words: Any, limit: Any = 5) -> KnownAnswer:
        if not isinstance(words, str) or type(limit) is not int or not 0 < limit <= _MAX_FOUND:
            raise TypeError(f"{FIND}(words, limit=5) takes text, and a limit up to {_MAX_FOUND}")
        found = (self._names.get(tool.name) for tool in self._view.search_all(words))
        names = [name for name in found if name is not None][:limit]
        return KnownAnswer(
            [replace_surrogates(tool_outline(self._tools[name], name)) for name in names]
        )

    def _describe_function(self, name: Any) -> KnownAnswer:
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise TypeError(self.explain_unknown(str(name)))
        return KnownAnswer(replace_surrogates(tool_stub(tool, name)))


def _want_call(name: str, tool: Tool, /, *args: Any, **named: Any) -> WantedCall:
    """The call of a tool; arguments without a name are those of the signature, in order."""
    own = {shown: original for original, shown in parameter_names(tool).items()}
    if len(args) > len(own):
        raise TypeError(f"{name}() takes {len(own)} arguments, and got {len(args)}")
    given = dict(zip(own, args, strict=False))
    twice = given.keys() & named.keys()
    if twice:
        raise TypeError(f"{name}() got more than one value for {', '.join(sorted(twice))}")
    try:
        values = {own.get(key, key): plain_value(value) for key, value in (given | named).items()}
    except ValueError as error:
        raise ValueError(f"{name}() got a value that can't be sent: {error}") from None
    return WantedCall(tool.name, values)
