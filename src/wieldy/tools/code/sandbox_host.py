"""What the host must have for a sandbox, and as whom a program runs there."""

import json
import os
import platform
import shutil
import subprocess
import sys
import zlib
from functools import cache

from .sandbox_errors import SandboxUnavailable

# Above the users that systemd and containers give out, and below those that some systems misread.
_FIRST_USER, _MAX_USERS = 0x70000000, 0x0FFFFFF0


def check_system() -> None:
    """Refuse to go on where there is no Linux."""
    if sys.platform != "linux":
        raise SandboxUnavailable(
            "Code runs in a sandbox of Linux (bubblewrap and user namespaces), and this is "
            f"{platform.system() or sys.platform}. Run the toolbox on Linux, in a virtual "
            "machine or a container."
        )


def find_bubblewrap() -> str:
    """The path of bubblewrap; `SandboxUnavailable` says how to get it."""
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable(
            "Code runs in bubblewrap, and there is no bwrap on the PATH. Install it: "
            "`apt-get install bubblewrap` (Debian, Ubuntu), `dnf install bubblewrap` (Fedora), "
            "`apk add bubblewrap` (Alpine). "
            'sandbox="unprotected" runs code without any protection instead.'
        )
    return os.path.realpath(found)


def explain_failed_start(said: str, errors: str) -> str:
    """Why bubblewrap could not start a program, and what to do about it."""
    failed = next((line for line in said.splitlines() if '"failed"' in line), "")
    reason = json.loads(failed)["failed"] if failed else errors.strip()[-500:]
    return (
        f"The sandbox could not be made: {reason or 'bubblewrap ended without a word'}. "
        "Bubblewrap needs user namespaces. Where the system forbids them, allow them: "
        "`sysctl -w kernel.unprivileged_userns_clone=1` (Debian), "
        "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu), "
        "`sysctl -w user.max_user_namespaces=10000` (others); in a container, start it with "
        "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined` and, as root, "
        "`--cap-add SYS_ADMIN`."
    )


def choose_user(folder: str) -> int | None:
    """The user that a program runs as where this process is root; None where it is not.

    The limits of root are not held, and files of root are open to it. Each folder has a user of
    its own, who owns nothing else.
    """
    if os.geteuid() != 0:
        return None
    with open("/proc/self/uid_map") as lines:
        ranges = [tuple(map(int, line.split())) for line in lines]
    return pick_user(zlib.crc32(os.fsencode(folder)), max(start + n for start, _, n in ranges))


def pick_user(number: int, end: int) -> int | None:
    """One of the users below `end` by a number; None where there is none but root."""
    if end > _FIRST_USER + _MAX_USERS:
        return _FIRST_USER + number % _MAX_USERS
    # In a container, which has fewer users: one of its last.
    return end - 2 - number % min(4096, end // 4) if end >= 4 else None


@cache
def can_forbid_namespaces(program: str) -> bool:
    """Whether this bubblewrap can forbid user namespaces inside, as it can since 0.8."""
    said = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return "--disable-userns" in said.stdout


def counts_by_namespace() -> bool:
    """Whether processes are counted for each user namespace, as Linux does since 5.14."""
    major, minor = (int(part) for part in platform.release().split(".")[:2])
    return (major, minor) >= (5, 14)
