"""Why code did not run, or did not run to its end."""

from wieldy.core.errors import WieldyError

# How much of the output an error repeats.
_MAX_REPEATED = 4_000


class SandboxUnavailable(WieldyError):
    """There is no sandbox on this machine: install what the message says."""


class CodeStopped(WieldyError):
    """A program was ended because it used more than it may.

    Attributes:
        reason: The limit: "timeout", "memory", "processes", "cpu", "disk" or "output".
        output: What the program had printed.
    """

    # Nobody knows how far the program got, so it is not tried again.
    killed = True

    def __init__(self, reason: str, limit: str, output: str = "") -> None:
        message = f"The program was ended: {limit}."
        if output:
            shown = output[-_MAX_REPEATED:]
            cut = "…" if len(shown) < len(output) else ""
            message += f" It had printed:\n{cut}{shown}"
        super().__init__(message)
        self.reason = reason
        self.output = output
