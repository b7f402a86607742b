"""What a program in a sandbox may use, and how it ended."""

import math
from dataclasses import dataclass

# Programs of several threads use more processor time than passes on the clock.
_CPU_PER_SECOND = 4


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What a program may use, together with all that it starts.

    Attributes:
        memory: Bytes of memory, with files in `/tmp` and `/dev/shm`.
        timeout: Seconds on the clock.
        processes: How many processes and threads there are at the same time.
        disk: Bytes in the working folder and in `/tmp`.
        output: Bytes that are printed.
    """

    memory: int = 512_000_000
    timeout: float = 60
    processes: int = 32
    disk: int = 256_000_000
    output: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        for name in ("memory", "processes", "disk", "output"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} is a whole number from 1 up, not {value!r}")
        seconds = self.timeout
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise ValueError(f"timeout is a number of seconds, not {seconds!r}")
        if not 0 < seconds < math.inf:
            raise ValueError(f"timeout is a number of seconds above 0, not {seconds!r}")

    def describe(self, reason: str) -> str:
        """What a program did that was ended for this reason."""
        return {
            "timeout": f"it took longer than {self.timeout:g} s",
            "memory": f"it held more than {self.memory:,} bytes of memory",
            "processes": f"it had more than {self.processes} processes at the same time",
            "cpu": f"it used more than {self.cpu:g} s of processor time",
            "disk": f"its files took more disk than {self.disk:,} bytes (a folder that had more "
            "before may only become smaller)",
            "output": f"it printed more than {self.output:,} bytes",
        }.get(reason, reason)

    @property
    def cpu(self) -> float:
        """Seconds of processor time."""
        return self.timeout * _CPU_PER_SECOND


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended.

    Attributes:
        exit_code: Its exit code; 128 and the number of the signal where one ended it.
        stopped: The limit for which it was ended, or None.
        stdout: What it printed.
        stderr: What it printed as errors.
        seconds: How long it took.
        cpu_ms: The processor time, in milliseconds.
        peak_bytes: The most memory that it was seen to hold.
    """

    exit_code: int
    stopped: str | None
    stdout: str
    stderr: str
    seconds: float
    cpu_ms: float
    peak_bytes: int
