"""The forms in which models write calls into text, and the tags that open them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from wieldy.core.choices import TextDialect
from wieldy.core.names import find_near_names

from .code_fences import IN_TAG, attribute_pattern

# The longest possible tag. Longer ones are text, which keeps the text that is held back small.
TAG_LIMIT = 256

_PREFIX = r"(?:[\w-]{1,20}:)?"
_BODIES = {"xml": r"<(?:name|params|parameters|arguments)(?=[\s>/])", "json": r"[{\[]"}
_BODY_TAGS = ("<name", "<params", "<parameters", "<arguments")
_MAYBE_PREFIX = re.compile(r"</?[\w-]{0,20}:?\Z")
_GIVEN_PREFIX = re.compile(r"(</?)[\w-]{1,20}:")


@dataclass(frozen=True)
class Dialect:
    """The markup that opens a call: wrappers, forms of `<tool_call>`, and tags with a name."""

    name: TextDialect
    wrappers: tuple[str, ...]
    bodies: tuple[str, ...] = ()
    function: bool = False
    invoke: bool = False

    @cached_property
    def opening(self) -> re.Pattern[str]:
        """A tag that may open a call in the middle of prose."""
        return re.compile(f"<(?:{'|'.join(self._opening_patterns())})>", re.IGNORECASE)

    @cached_property
    def inside(self) -> re.Pattern[str]:
        """A tag that may follow where only calls are expected."""
        wrappers = "|".join(self.wrappers)
        parts = [f"<(?:{'|'.join(self._opening_patterns())})>"]
        parts.append(rf"</(?P<end>{self._prefix}(?:{wrappers}))\s{{0,16}}>")
        parts += (f"(?P<{body}>{_BODIES[body]})" for body in self.bodies)
        return re.compile("|".join(parts), re.IGNORECASE)

    def may_open(self, tail: str) -> bool:
        """Whether text that starts with `<` may still become an opening tag."""
        return self._may_become(tail, self._opening_heads)

    def may_go_on(self, tail: str) -> bool:
        """Whether text that starts with `<` may become a tag where only calls are expected."""
        closings = tuple(f"</{wrapper}" for wrapper in self.wrappers)
        bodies = _BODY_TAGS if "xml" in self.bodies else ()
        return self._may_become(tail, (*self._opening_heads, *closings, *bodies))

    @property
    def _prefix(self) -> str:
        return _PREFIX if self.invoke else ""

    @cached_property
    def _opening_heads(self) -> tuple[str, ...]:
        named = ("<function=",) * self.function + ("<invoke",) * self.invoke
        return (*(f"<{wrapper}" for wrapper in self.wrappers), *named)

    def _opening_patterns(self) -> Iterator[str]:
        yield f"(?P<wrapper>{self._prefix}(?:{'|'.join(self.wrappers)})){attribute_pattern(200)}"
        if self.function:
            yield rf"function=(?P<function>{IN_TAG}{{1,200}})"
        if self.invoke:
            yield rf"{self._prefix}invoke(?P<invoke>(?=\s){IN_TAG}{{2,201}})"

    def _may_become(self, tail: str, heads: tuple[str, ...]) -> bool:
        if len(tail) > TAG_LIMIT or ">" in tail:
            return False
        start = tail.lower()
        if self.invoke:
            if _MAYBE_PREFIX.match(start):
                return True
            start = _GIVEN_PREFIX.sub(r"\1", start, count=1)
        return any(head.startswith(start) or start.startswith(head) for head in heads)


_WRAPPERS = ("tool_calls", "tool_call", "function_calls")

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect("xml", ("tool_call",), ("xml",)),
        Dialect("hermes", ("tool_call",), ("json",)),
        Dialect("qwen", ("tool_call",), function=True),
        Dialect("invoke", _WRAPPERS, invoke=True),
        Dialect("auto", _WRAPPERS, ("xml", "json"), function=True, invoke=True),
    )
}


def dialect_named(name: str) -> Dialect:
    """The dialect with this name; `ValueError` with near names if there is none."""
    dialect = DIALECTS.get(name)
    if dialect is None:
        hint = ", ".join(find_near_names(name, DIALECTS) or DIALECTS)
        raise ValueError(f"There is no dialect {name!r}. Did you mean: {hint}?")
    return dialect
