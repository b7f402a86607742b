"""Errors of models: the branch `ModelError` of the tree in `errors`."""

from wieldy.core.errors import WieldyError


class ModelError(WieldyError):
    """A model gave no answer that can be used.

    Attributes:
        model: The model's name.
        reason: Why.
    """

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"{model}: {reason}")
        self.model = model
        self.reason = reason


class UnknownModel(ModelError, ValueError):
    """No model has this name: change it."""


class ModelUnavailable(ModelError, ConnectionError):
    """The model can't be reached, is overloaded, fell silent or broke off: try again later.

    Attributes:
        status: The HTTP status, if there was an answer.
        retry_after: How many seconds the provider asks to wait, if it said so.
        began: Whether part of the answer had come, so that the request was not repeated.
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
    """The provider won't answer this request, and repeating it would not help: change it.

    Attributes:
        status: The HTTP status, if there was an answer.
    """

    def __init__(self, model: str, reason: str, status: int | None = None) -> None:
        super().__init__(model, reason)
        self.status = status


class ContextTooLong(ModelError, ValueError):
    """The messages don't fit the model's context: send less.

    Attributes:
        tokens: An estimate of the request's tokens, or None if the provider noticed it.
        window: How many tokens the context has, or None if that is not known.
        excess: How many tokens are too many, or None.
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
    """The answer outgrew its limit, and the rest was not read: pass a larger `max_answer`.

    Attributes:
        limit: The limit in bytes.
    """

    def __init__(self, model: str, limit: int) -> None:
        super().__init__(
            model, f"the answer is larger than {limit:,} bytes. Pass max_answer= to allow more."
        )
        self.limit = limit
