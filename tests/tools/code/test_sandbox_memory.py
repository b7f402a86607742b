"""Memory that no process is seen to hold, where cgroups hold it and where it is counted."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

from tests.child_process import ChildProcess
from tests.machine import require
from tests.tools.code.conftest import PATIENCE, await_none
from tests.tools.code.groups import DelegatedGroup, delegated_group, find_own_parents, list_groups
from tests.tools.code.places import USER, run_in_place
from wieldy.execution.process_tree import find_descendants
from wieldy.tools.code import Sandbox, SandboxUnavailable
from wieldy.tools.code.memory_group import find_parents, remove_orphans

LIMIT = 128_000_000
# Each tells how much it holds, if it gets so far. Of some, several processes do so at once.
BEGIN = """
import os, time
def print(said): os.write(1, f"{said}\\n".encode())
"""
ATTACKS = {
    "shared memory whose pages are given away": """
import mmap
held = []
for _ in range(45):
    held.append(mmap.mmap(-1, 10_000_000))
    for at in range(0, 10_000_000, 4096): held[-1][at] = 1
    held[-1].madvise(mmap.MADV_DONTNEED)
time.sleep(1); print(450_000_000)
""",
    "shared memory of children that end": """
import mmap, os
held = []
for _ in range(45):
    held.append(mmap.mmap(-1, 10_000_000))
    if not os.fork():
        for at in range(0, 10_000_000, 4096): held[-1][at] = 1
        os._exit(0)
    os.wait()
time.sleep(1); print(450_000_000)
""",
    "shared memory of which one page is kept": """
import ctypes
libc, size = ctypes.CDLL(None), 2_500 * 4096
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for _ in range(45):
    start = libc.mmap(None, size, 3, 0x21, -1, 0)
    libc.memset(start, 1, size)
    libc.munmap(start + 4096, size - 4096)
time.sleep(1); print(45 * size)
""",
    "pages that are given to pipes": """
import ctypes, mmap, os
class Piece(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
libc, held, total = ctypes.CDLL(None), [], 0
for _ in range(4):
    if not os.fork(): break
for _ in range(100):
    read, write = os.pipe(); held.append((read, write))
    room = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room[:] = b"x" * (1 << 20)
    piece = Piece(ctypes.addressof(ctypes.c_char.from_buffer(room)), 1 << 20)
    libc.fcntl(write, 1031, 1 << 20)
    total += max(0, libc.vmsplice(write, ctypes.byref(piece), 1, 2))
time.sleep(2); print(total)
""",
    "pipes that nobody reads": """
import os
held, total = [], 0
for _ in range(4): os.fork()
for _ in range(110):
    held.append(os.pipe()); os.set_blocking(held[-1][1], False)
    try:
        while True: total += os.write(held[-1][1], b"x" * 4096)
    except BlockingIOError: pass
time.sleep(2); print(total)
""",
    "connections that nobody reads": """
import os, socket
for _ in range(3): os.fork()
server, held, total = socket.create_server(("127.0.0.1", 0)), [], 0
for _ in range(100):
    one = socket.create_connection(server.getsockname()); held += [one, server.accept()[0]]
    one.setblocking(False)
    try:
        while True: total += one.send(b"x" * 65536)
    except BlockingIOError: pass
time.sleep(2); print(total)
""",
    "messages to somebody who accepts nobody": """
import socket
server, total = socket.socket(socket.AF_UNIX), 0
server.bind("\\0here"); server.listen(4096)
for _ in range(1_000):
    one = socket.socket(socket.AF_UNIX); one.setblocking(False)
    try:
        one.connect("\\0here")
        while True: total += one.send(b"x" * 32768)
    except BlockingIOError: one.close()
time.sleep(2); print(total)
""",
    "notes of what is mapped": """
import ctypes, os
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
for _ in range(4): os.fork()
start = libc.mmap(None, 60_000 * 4096, 0, 0x22, -1, 0)
for n in range(0, 60_000, 2): libc.mprotect(start + n * 4096, 4096, 1)
time.sleep(40); print(60_000 * 200)
""",
    "connections that nobody has accepted": """
import os, socket
for _ in range(3): os.fork()
server, held, total = socket.create_server(("127.0.0.1", 0), backlog=200), [], 0
for _ in range(200):
    held.append(socket.create_connection(server.getsockname()))
    held[-1].setblocking(False)
    try:
        while True: total += held[-1].send(b"x" * 65536)
    except BlockingIOError: pass
time.sleep(2); print(total)
""",
}
# Only root can ask for the size of what is mapped in part.
HIDDEN_FROM_USERS = "shared memory of which one page is kept"
# A program that only names much memory is ended where memory is counted by size, and only there.
UNTOUCHED = "import mmap\nheld = mmap.mmap(-1, 400_000_000); time.sleep(1); print('fine')"
HARMLESS = """
import mmap, os
held = mmap.mmap(-1, 30_000_000)
held[:] = b"x" * 30_000_000
for _ in range(4):
    if not os.fork(): sum(held[::4096]); time.sleep(0.5); os._exit(0)
for _ in range(4): os.wait()
print("fine")
"""
PROGRAM = """
import asyncio, json, os, sys, tempfile
from wieldy.tools.code import Sandbox, SandboxLimits

async def main():
    found = {}
    for name, code in CODES.items():
        with tempfile.TemporaryDirectory() as folder:
            sandbox = Sandbox(SandboxLimits(memory=LIMIT, timeout=60))
            end = await sandbox.run(["python", "-c", BEGIN + code], folder)
            found[name] = [end.stopped, end.stdout.split(), end.peak_bytes]
    print(json.dumps([os.getuid(), found]))

asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["a cgroup", "counting"])
@pytest.mark.parametrize("ordinary", [False, True], ids=["root", "ordinary"])
def test_no_more_memory_is_held_than_allowed(way: str, ordinary: bool) -> None:
    codes = {**ATTACKS, "untouched": UNTOUCHED, "harmless": HARMLESS}
    program = PROGRAM
    for name, value in (("CODES", codes), ("LIMIT", LIMIT), ("BEGIN", BEGIN)):
        program = program.replace(name, repr(value))
    with _group(way, USER if ordinary else 0) as group:
        done = run_in_place("/opt", "wieldy", program, ordinary, group)

    assert done.stderr == ""
    user, found = json.loads(done.stdout)
    assert user == (USER if ordinary else 0) or os.geteuid() != 0
    for name in ATTACKS:
        stopped, printed, _ = found[name]
        if name == HIDDEN_FROM_USERS and way == "counting" and user:
            continue
        assert stopped == "memory" or printed, (name, found[name])
        assert stopped == "memory" or sum(map(int, printed)) <= LIMIT, (name, found[name])
    assert found["harmless"][:2] == [None, ["fine"]]
    assert found["harmless"][2] > 30_000_000
    in_group = (None, ["fine"])
    assert (tuple(found["untouched"][:2]) == in_group) == (way == "a cgroup")


@contextlib.contextmanager
def _group(way: str, user: int) -> Iterator[DelegatedGroup | None]:
    if way == "counting":
        yield None
        return
    require("memory cgroups")
    with delegated_group(user if os.geteuid() == 0 else os.geteuid()) as group:
        yield group


ENDLESS = ["sh", "-c", "echo begun; sleep 1000"]
WANTING = f"""
import asyncio, sys
from wieldy.tools.code import Sandbox

async def show(text):
    print(text, end="", flush=True)

asyncio.run(Sandbox().run({ENDLESS!r}, sys.argv[1], on_output=show))
"""


def groups_of(keeper: int) -> set[str]:
    """The groups that a keeper has made. Other tests run sandboxes at the same time."""
    return {
        name
        for parent, _ in find_own_parents()
        for name in list_groups(parent)
        if name.startswith(f"wieldy-{keeper}-")
    }


def keeper_of(pid: int, before: Set[int] = frozenset()) -> int:
    found = find_descendants([pid]).items()
    [keeper] = [each for each, facts in found if each not in before and facts.parent == pid]
    return keeper


@pytest.mark.needs("the sandbox", "memory cgroups")
async def test_a_keeper_that_is_killed_leaves_no_group(tmp_path: Path) -> None:
    before = set(find_descendants([os.getpid()]))
    begun = asyncio.Event()

    async def show(text: str) -> None:
        begun.set()

    task = asyncio.create_task(Sandbox().run(ENDLESS, tmp_path, on_output=show))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    keeper = keeper_of(os.getpid(), before)
    assert len(groups_of(keeper)) == 1

    os.kill(keeper, signal.SIGKILL)

    with pytest.raises(SandboxUnavailable, match="was killed"):
        await task
    assert groups_of(keeper) == set()


@pytest.mark.needs("the sandbox", "memory cgroups")
@pytest.mark.parametrize("keeper_too", [False, True])
async def test_a_program_that_is_killed_leaves_no_group(tmp_path: Path, keeper_too: bool) -> None:
    words = [sys.executable, "-c", WANTING, str(tmp_path)]
    with ChildProcess(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        keeper = keeper_of(process.pid)
        assert len(groups_of(keeper)) == 1
        killed = [process.pid, *([keeper] if keeper_too else [])]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        process.wait(PATIENCE)

    if keeper_too:
        # Nobody was left to remove it, so whoever makes the next one does.
        await_none(lambda: {pid for pid in killed if os.path.exists(f"/proc/{pid}")})
        end = await Sandbox().run(["true"], tmp_path)
        assert end.exit_code == 0
        await_none(lambda: _remove_orphans(keeper))
    await_none(lambda: set(map(hash, groups_of(keeper))))


def _remove_orphans(keeper: int) -> set[int]:
    # What was in the group may be gone only now.
    for parent, _ in find_own_parents():
        remove_orphans(parent)
    return set(map(hash, groups_of(keeper)))


V1 = "12:cpu:/a\n4:memory,hugetlb:/docker/x\n0::/docker/x\n"
V2 = "0::/user.slice/a b.scope\n"
MOUNTS = (
    "30 1 0:1 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "31 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "32 1 0:3 / /sys/fs/uni\\040fied rw shared:1 - cgroup2 cgroup2 rw\n"
)


@pytest.mark.parametrize(
    ("own", "found"),
    [
        (
            V1,
            [
                ("/sys/fs/cgroup/memory", False),
                ("/sys/fs/uni fied/docker/x", True),
                ("/sys/fs/uni fied/docker", True),
            ],
        ),
        (
            V2,
            [
                ("/sys/fs/uni fied/user.slice/a b.scope", True),
                ("/sys/fs/uni fied/user.slice", True),
            ],
        ),
        ("0::/\n", [("/sys/fs/uni fied", True)]),
        ("4:memory:/elsewhere\n", []),
        ("", []),
    ],
)
def test_groups_are_looked_for_where_the_system_shows_them(
    own: str, found: list[tuple[str, bool]]
) -> None:
    assert [(str(path), is_v2) for path, is_v2 in find_parents(own, MOUNTS)] == found
