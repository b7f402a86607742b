"""Estimate how many tokens the definitions of tools take in a request."""

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.tool import Tool
from wieldy.core.visible_text import html_table, visible_line

from .definitions import tool_definitions

__all__ = [
    "Cost",
    "Counter",
    "DefinitionCost",
    "definition_tokens",
    "estimate_text_tokens",
    "measure_texts",
    "rendering",
    "stable_json",
    "tool_cost",
]

Counter = Callable[[str], int]
_CHARACTERS_PER_TOKEN = 4
_MAX_ROWS = 40


@dataclass(frozen=True, slots=True)
class DefinitionCost:
    """The tokens of one definition.

    Attributes:
        name: The tool's name.
        group: Its group.
        tokens: How many tokens it takes.
        bytes: How many bytes it takes in UTF-8.
        digest: A digest of its bytes; it differs as soon as a provider sees another definition.
    """

    name: str
    group: str
    tokens: int
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True, repr=False)
class Cost:
    """The tokens of definitions in each request, in the order in which they are sent.

    Printed, and in a notebook, it is a table.

    Attributes:
        provider: The format, such as "openai".
        definitions: What each of them takes.
    """

    provider: str
    definitions: tuple[DefinitionCost, ...]

    @property
    def tools(self) -> dict[str, int]:
        """The tokens of each tool, in order."""
        return {each.name: each.tokens for each in self.definitions}

    @property
    def groups(self) -> dict[str, int]:
        """The tokens of each group, in order."""
        found: dict[str, int] = {}
        for each in self.definitions:
            found[each.group] = found.get(each.group, 0) + each.tokens
        return found

    @property
    def total(self) -> int:
        """The tokens of all tools."""
        return sum(each.tokens for each in self.definitions)

    @property
    def bytes(self) -> int:
        """The bytes of all tools, as they are rendered in one list."""
        return sum(each.bytes + 1 for each in self.definitions) + 1 if self.definitions else 2

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as plain JSON.

        Returns:
            The provider, the total, the groups, and each definition in order.
        """
        return {
            "provider": self.provider,
            "total": self.total,
            "groups": self.groups,
            "tools": [asdict(each) for each in self.definitions],
        }

    def __str__(self) -> str:
        rows = self._table_rows()
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        return "\n".join(
            f"{name:<{widths[0]}}  {tokens:>{widths[1]}}  {share:>5}"
            for name, tokens, share in rows
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, *rows = self._table_rows()
        return html_table(first, rows)

    def _table_rows(self) -> list[tuple[str, str, str]]:
        """The heading, the largest tools, the groups if there are several, and the total."""
        largest = sorted(self.definitions, key=lambda each: -each.tokens)
        rows = [(f"tool ({self.provider})", "tokens", "share")]
        rows += [self._table_row(visible_line(e.name, 80), e.tokens) for e in largest[:_MAX_ROWS]]
        rest = largest[_MAX_ROWS:]
        if rest:
            rows.append(self._table_row(f"{len(rest):,} more", sum(each.tokens for each in rest)))
        if len(self.groups) > 1:
            groups = self.groups.items()
            rows += [
                self._table_row(f"group {visible_line(n, 80)}", tokens) for n, tokens in groups
            ]
        return [*rows, self._table_row("total", self.total)]

    def _table_row(self, name: str, tokens: int) -> tuple[str, str, str]:
        return name, f"{tokens:,}", f"{tokens / (self.total or 1):.0%}"


def tool_cost(
    tools: Iterable[Tool], provider: str, strict: bool = False, count: Counter | None = None
) -> Cost:
    """The tokens that the tools take in every request.

    Args:
        tools: the tools, such as a `Toolbox`.
        provider: the provider's format.
        strict: count the strict form.
        count: a function that counts the tokens of a text, such as a provider's tokenizer.
            The default is `estimate_text_tokens`.

    Returns:
        The tokens per tool, per group and in total.

    Raises:
        ValueError: the provider is unknown.

    Example:
        `print(tool_cost(box, "anthropic").total)`
    """
    listed = list(tools)
    definitions = tool_definitions(listed, provider, strict)
    texts = (
        (tool.name, tool.group, stable_json(definition))
        for tool, definition in zip(listed, definitions, strict=True)
    )
    return measure_texts(provider, texts, count)


def measure_texts(
    provider: str, texts: Iterable[tuple[str, str, str]], count: Counter | None = None
) -> Cost:
    """The tokens of definitions that are texts already.

    Args:
        provider: the format that they have.
        texts: the name, the group and the text of each.
        count: a function that counts the tokens of a text.

    Returns:
        The tokens per text, per group and in total.
    """
    counter = count or estimate_text_tokens
    return Cost(provider, tuple(_measure_text(*each, counter) for each in texts))


def definition_tokens(tool: Tool, provider: str) -> int:
    """The estimated tokens of one definition, worked out once per tool."""

    def work_out(tool: Tool) -> int:
        return tool_cost([tool], provider).total

    tokens: int = tool.once(("tokens", provider), work_out)
    return tokens


def estimate_text_tokens(text: str) -> int:
    """A rough count of tokens: four ASCII characters, or one other character, are one token.

    Use it to compare tools and to notice growth. Real tokenizers differ from it, and from
    each other, by about a quarter on JSON.
    """
    ascii_characters = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    return math.ceil(ascii_characters / _CHARACTERS_PER_TOKEN) + len(text) - ascii_characters


def stable_json(value: Any) -> str:
    """JSON whose bytes depend only on the value and its order, so that prompt caches work."""
    return dump_json(value, MAX_WRAPPED, ensure_ascii=False, separators=(",", ":"), default=str)


def rendering(tools: Iterable[Tool], provider: str, strict: bool = False) -> str:
    """The definitions as text. Its beginning stays the same when tools are appended."""
    return stable_json(tool_definitions(tools, provider, strict))


def _measure_text(name: str, group: str, text: str, count: Counter) -> DefinitionCost:
    # Names and descriptions from outside may contain lone surrogates.
    sent = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(sent).hexdigest()[:16]
    return DefinitionCost(name, group, count(text), len(sent), digest)
