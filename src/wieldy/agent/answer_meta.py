"""Facts about an answer besides its text: the model, its tokens, and why it ended."""

from typing import Any

from .run_state import RunState

_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "thinking_tokens")


def make_meta(model: str, state: RunState) -> dict[str, Any]:
    """The facts about a run; the tokens are the sum over all its requests."""
    last = state.reply
    return {
        "model": model,
        "role": "assistant",
        "finish_reason": "" if last is None else last.finish_reason,
        "usage": dict(state.usage),
        "requests": state.requests,
        "rounds": state.round,
        "reasoning": "" if last is None else last.thinking,
    }


def add_usage(total: dict[str, int], usage: Any) -> None:
    """Add the tokens of one request to the sum."""
    for name in _COUNTS:
        count = getattr(usage, name, None)
        if count is not None:
            total[name] = total.get(name, 0) + count
