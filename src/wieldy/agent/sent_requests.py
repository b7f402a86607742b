"""The requests to a model, exactly as they are sent."""

from collections.abc import Iterable
from typing import Any

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.models.model import Model, ModelRequest
from wieldy.models.token_estimate import estimate_tokens


class SentRequests:
    """The bodies of requests, exactly as they were or would be sent.

    Attributes:
        sent: Whether they were sent; if not, they would be next.
        model: The name of the model.
        requests: The bodies, in order.
        tokens: About how many tokens each has. These are estimates.
        context_window: How many tokens the model takes, where that is known.
    """

    __slots__ = ("context_window", "model", "requests", "sent", "tokens")

    def __init__(self, model: Model, requests: Iterable[ModelRequest], sent: bool) -> None:
        self.sent = sent
        self.model = model.name
        self.context_window = model.context_window
        self.requests: list[dict[str, Any]] = [model.render(each) for each in requests]
        self.tokens = [estimate_tokens(each) for each in self.requests]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the last request."""
        body = self.requests[-1] if self.requests else {}
        found: list[dict[str, Any]] = body.get("messages", [])
        return found

    def __str__(self) -> str:
        state = "was sent" if self.sent else "would be sent"
        parts = []
        for number, (body, tokens) in enumerate(zip(self.requests, self.tokens, strict=True), 1):
            window = f" of {self.context_window:,}" if self.context_window else ""
            head = (
                f"Request {number} to {self.model} {state}: ~{tokens:,}{window} tokens (estimate)"
            )
            parts.append(
                f"{head}\n{dump_json(body, MAX_WRAPPED, ensure_ascii=False, indent=2, default=str)}"
            )
        return "\n\n".join(parts) or "Nothing was asked yet, and nothing is there to ask."

    def __repr__(self) -> str:
        return f"SentRequests({len(self.requests)} requests to {self.model})"
