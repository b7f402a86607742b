"""What is known about an answer beside its words: the model, its tokens, why it ended."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run_loop import RunLoop

_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "thinking_tokens")


def make_meta(run: "RunLoop") -> dict[str, Any]:
    """The facts of a run; tokens are those of all its requests together."""
    last = run.state.reply
    return {
        "model": run.request.model.name,
        "role": "assistant",
        "finish_reason": "" if last is None else last.finish_reason,
        "usage": _add_usage([reply.usage for reply in run.replies]),
        "requests": len(run.sent),
        "rounds": run.state.round,
        "reasoning": "" if last is None else last.thinking,
    }


def _add_usage(usages: list[Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for usage in usages:
        for name in _COUNTS:
            count = getattr(usage, name, None)
            if count is not None:
                total[name] = total.get(name, 0) + count
    return total
