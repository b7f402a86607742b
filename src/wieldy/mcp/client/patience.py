"""How long an MCP server may take for what is not a call."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds that a server, or the person it asks, is given.

    Attributes:
        connect: From starting a server to its list of tools. The first start of a package
            runner may download a lot.
        answer: For the answer to a question that a server of an older version asks while
            its call waits.
        sign_of_life: For any answer at all, after a call was given up. A server that is
            silent so long is replaced.
        close: For leaving by itself when it is closed, before it is made to.
    """

    connect: float = 60.0
    answer: float = 300.0
    sign_of_life: float = 5.0
    close: float = 2.0
