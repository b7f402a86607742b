"""How many tokens the descriptions of tools take, estimated from the bytes that are sent."""

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
    """What the tools cost in every request. `count` may be a provider's own tokenizer."""
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
    """Tokens by rule of thumb: four ASCII characters are one, any other character is one.

    It is meant for comparing tools and for noticing growth. Real tokenizers
    differ from it by a quarter or so on JSON, and from each other as well.
    """
    ascii_characters = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    return math.ceil(ascii_characters / _CHARACTERS_PER_TOKEN) + len(text) - ascii_characters


def stable_json(value: Any) -> str:
    """JSON whose bytes depend on the value and its order alone, so that prompt caches hold."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def rendering(tools: Iterable[Tool], provider: str, strict: bool = False) -> str:
    """The definitions as the text whose beginning stays the same when tools are appended."""
    return stable_json(tool_definitions(tools, provider, strict))
