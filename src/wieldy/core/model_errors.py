"""What goes wrong with a model: the branch `ModelError` of the tree in `errors`."""

from .errors import WieldyError


class ModelError(WieldyError):
    """A model gave no answer that can be used; `model` is its name."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"{model}: {reason}")
        self.model = model
        self.reason = reason


class UnknownModel(ModelError, ValueError):
    """No model can be made of this name."""


class ModelUnavailable(ModelError, ConnectionError):
    """The model can't be reached, is overloaded, fell silent or broke off.

    `retry_after` is how many seconds the provider wants to be left alone, where it said.
    `began` says that a part of the answer had come, so that nothing was tried again.
    """

    def __init__(
        self,
        model: str,
        reason: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        began: bool = False,
    ) -> None:
        super().__init__(model, reason)
        self.status = status
        self.retry_after = retry_after
        self.began = began


class ModelRefused(ModelError):
    """The provider won't answer this request, and asking again would not help."""

    def __init__(self, model: str, reason: str, status: int | None = None) -> None:
        super().__init__(model, reason)
        self.status = status


class ContextTooLong(ModelError, ValueError):
    """The messages don't fit the model's context; `tokens` is an estimate of them.

    `tokens` and `window` are None where the provider noticed it and did not say.
    """

    def __init__(
        self, model: str, tokens: int | None, window: int | None, reason: str = ""
    ) -> None:
        self.tokens = tokens
        self.window = window
        self.excess = None if tokens is None or window is None else tokens - window
        if not reason:
            reason = (
                f"the request has about {tokens:,} tokens (an estimate), which is about "
                f"{self.excess:,} more than the {window:,} of its context. Nothing was sent. "
                "Send fewer or shorter messages, or fewer tools."
            )
        super().__init__(model, reason)


class ModelAnswerTooLarge(ModelError):
    """The answer outgrew `limit` bytes; the rest was not read."""

    def __init__(self, model: str, limit: int) -> None:
        super().__init__(
            model, f"the answer is larger than {limit:,} bytes. Pass max_answer= to allow more."
        )
        self.limit = limit
