"""Estimate how many tokens the definitions of tools take in a request."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from wieldy.core.tool import Tool

from .definitions import tool_definitions

__all__ = ["Cost", "Counter", "estimate_text_tokens", "rendering", "stable_json", "tool_cost"]

Counter = Callable[[str], int]
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens per tool and per group, in order, and in total."""

    provider: str
    tools: dict[str, int]
    groups: dict[str, int]
    total: int


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
    counter = count or estimate_text_tokens
    listed = list(tools)
    by_tool: dict[str, int] = {}
    by_group: dict[str, int] = {}
    for tool, definition in zip(listed, tool_definitions(listed, provider, strict), strict=True):
        tokens = counter(stable_json(definition))
        by_tool[tool.name] = tokens
        by_group[tool.group] = by_group.get(tool.group, 0) + tokens
    return Cost(provider, by_tool, by_group, sum(by_tool.values()))


def estimate_text_tokens(text: str) -> int:
    """A rough count of tokens: four ASCII characters, or one other character, are one token.

    Use it to compare tools and to notice growth. Real tokenizers differ from it, and from
    each other, by about a quarter on JSON.
    """
    ascii_characters = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    return math.ceil(ascii_characters / _CHARACTERS_PER_TOKEN) + len(text) - ascii_characters


def stable_json(value: Any) -> str:
    """JSON whose bytes depend only on the value and its order, so that prompt caches work."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def rendering(tools: Iterable[Tool], provider: str, strict: bool = False) -> str:
    """The definitions as text. Its beginning stays the same when tools are appended."""
    return stable_json(tool_definitions(tools, provider, strict))
