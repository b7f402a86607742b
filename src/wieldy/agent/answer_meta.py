"""Facts about an answer besides its text: the model, its tokens, and why it ended."""

from collections.abc import Mapping
from typing import Any

from .run_state import RunState

_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "thinking_tokens")


def make_meta(model: str, state: RunState, limit: str | None = None) -> dict[str, Any]:
    """The facts about a run; the tokens are the sum over all its requests.

    `limit` is the limit that ended it, if one did.
    """
    last = state.reply
    return {
        "model": model,
        "role": "assistant",
        "finish_reason": "" if last is None else last.finish_reason,
        "limit": limit,
        "usage": dict(state.usage),
        "requests": state.requests,
        "rounds": state.round,
        "reasoning": "" if last is None else last.thinking,
    }


def add_usage(total: Mapping[str, int], usage: Any) -> Mapping[str, int]:
    """The sum with the tokens of one more request, as far as its provider counted them."""
    counts = {name: getattr(usage, name, None) for name in _COUNTS}
    counted = {name: count for name, count in counts.items() if count is not None}
    summed = {name: total.get(name, 0) + count for name, count in counted.items()}
    return {**total, **summed} if summed else total
