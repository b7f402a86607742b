"""What an MCP server may take: the timeouts beside calls, and the size of a message."""

from dataclasses import dataclass

MAX_MESSAGE = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Timeouts in seconds, and the size of a message in bytes.

    Attributes:
        connect: From starting a server to its list of tools. The first start of a package
            runner may download a lot.
        answer: For the answer to a question that a server of an older version asks during
            a call.
        sign_of_life: For any answer to a ping after a call was abandoned. A server that does
            not answer is replaced.
        close: For the server to exit by itself when it is closed, before it is killed.
        max_message: The bytes of one message of the server. A larger one is not read: the
            request that it answers ends with an error, and the next one can be made. A server
            object in this process sends no bytes.

    Raises:
        ValueError: `max_message` is not a whole number of 1 or more.

    Example:
        `await box.add_mcp(source, patience=Patience(connect=120))`
    """

    connect: float = 60.0
    answer: float = 300.0
    sign_of_life: float = 5.0
    close: float = 2.0
    max_message: int = MAX_MESSAGE

    def __post_init__(self) -> None:
        most = self.max_message
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(f"max_message is a whole number of 1 or more, not {most!r}.")
