"""The timeouts of an MCP server for everything except calls."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Timeouts in seconds.

    Attributes:
        connect: From starting a server to its list of tools. The first start of a package
            runner may download a lot.
        answer: For the answer to a question that a server of an older version asks during
            a call.
        sign_of_life: For any answer to a ping after a call was abandoned. A server that does
            not answer is replaced.
        close: For the server to exit by itself when it is closed, before it is killed.

    Example:
        `await box.add_mcp(source, patience=Patience(connect=120))`
    """

    connect: float = 60.0
    answer: float = 300.0
    sign_of_life: float = 5.0
    close: float = 2.0
