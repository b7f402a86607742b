"""Attempts to get out of a real sandbox, or to use it up."""

import os
import socket
from ast import literal_eval
from pathlib import Path
from textwrap import dedent

import pytest

from tests.tools.code.conftest import CodeBox
from wieldy.tools.files import add_file_tools

SECRET = "kraken-5521-under-the-ice"
OWN = os.getpid()

# Each raises an error of the system if the sandbox holds.
FORBIDDEN = {
    "the shadow file": "open('/etc/shadow').read()",
    "another file of /etc": "open('/etc/hostname').read()",
    "a home folder": "os.listdir('/home')",
    "the folders of other sessions": "os.listdir(HOST_FOLDER)",
    "a named secret file": "open(HOST_FOLDER + '/secret.txt').read()",
    "logs and state": "os.listdir('/var')",
    "sysfs": "os.listdir('/sys')",
    "a process of the host": "os.kill(OWN, 0)",
    "what a process of the host holds": "os.listdir(f'/proc/{OWN}/fd')",
    "the memory of the first process": "open('/proc/1/mem', 'rb').read(1)",
    "settings of the kernel": "open('/proc/sys/kernel/hostname', 'w').write('x')",
    "the magic keys": "open('/proc/sysrq-trigger', 'w').write('h')",
    "memory of the kernel": "open('/proc/kcore', 'rb').read(1)",
    "a loopback port": "socket.create_connection(('127.0.0.1', PORT), 3)",
    "an address outside": "socket.create_connection(('192.0.2.1', 80), 3)",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect('\\0' + ABSTRACT)",
    "a socket in a folder": "socket.socket(socket.AF_UNIX).connect(HOST_FOLDER + '/s')",
    "a socket to the hypervisor": "socket.socket(40, socket.SOCK_STREAM)",
    "a raw packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "the interpreter": "open(os.__file__, 'a')",
    "the programs": "open('/usr/bin/wieldy-was-here', 'w')",
    "the settings": "open('/etc/wieldy-was-here', 'w')",
    "the root": "open('/wieldy-was-here', 'w')",
    "the devices": "open('/dev/wieldy-was-here', 'w')",
    "the script that runs": "open('/run/wieldy/code.py', 'w')",
    "a device": "os.mknod('d', 0o600 | stat.S_IFCHR, os.makedev(1, 3))",
    "another root": "os.chroot('/workspace')",
    "another user": "os.setuid(0)",
    "a file that runs as its owner": "open('f', 'w').close(), os.chmod('f', 0o4755)",
    "a new file that runs as its owner": "os.open('g', os.O_CREAT | os.O_WRONLY, 0o4755)",
    "a higher priority": "os.nice(-10)",
    "more processes": "limits.setrlimit(limits.RLIMIT_NPROC, (500, 500))",
    "a mount": "check(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
    "an unmount": "check(libc.umount2(b'/proc', 2))",
    "a user namespace": "check(libc.unshare(0x10000000))",
    "a network namespace": "check(libc.unshare(0x40000000))",
    "a namespace of the first process": "check(libc.setns(os.open('/proc/1/ns/mnt', 0), 0))",
    "a namespace by clone": "check(libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0))",
    "another process's memory": "check(libc.ptrace(16, 1, 0, 0))",
    "the keys of the session": "check(libc.syscall(250, 0, -3, 0))",
    "memory without a name": "os.memfd_create('m')",
    "shared memory of System V": "check(libc.shmget(0, 1 << 20, 0o1600))",
    "semaphores of System V": "check(libc.semget(0, 32_000, 0o600))",
    "a thread with open files of its own": "check(libc.syscall(56, 0x10900, 0, 0, 0, 0))",
    "programs in the kernel": "check(libc.syscall(321, 0, 0, 0))",
    "rings in the kernel": "check(libc.syscall(425, 8, 0))",
    "input for a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
}  # fmt: skip

PREPARED = """
import ctypes, fcntl, os, resource as limits, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def check(answer):
    if answer == -1:
        raise OSError(ctypes.get_errno(), "refused")
OWN, PORT, ABSTRACT, HOST_FOLDER = {own}, {port}, {abstract!r}, {folder!r}
held = []
"""
ATTEMPT = """
try:
    {attempt}
except (OSError, ValueError):
    held.append({name!r})
else:
    print("ESCAPED:", {name!r})
"""


async def test_no_attempt_reaches_anything_outside(code_box: CodeBox, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    abstract = f"wieldy-{os.urandom(8).hex()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{abstract}")
        unix.listen()
        port = server.getsockname()[1]
        code = PREPARED.format(own=OWN, port=port, abstract=abstract, folder=str(tmp_path))
        for name, attempt in FORBIDDEN.items():
            code += ATTEMPT.format(name=name, attempt=attempt)

        outcome = await code_box.python(code + "len(held)")

    assert outcome.text == f"{len(FORBIDDEN)}\n"


async def test_nothing_of_the_environment_or_of_open_files_comes_along(
    code_box: CodeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", SECRET)
    (tmp_path / "secret.txt").write_text(SECRET)
    with (tmp_path / "secret.txt").open() as file:
        os.set_inheritable(file.fileno(), True)
        outcome = await code_box.shell(
            "env; ls /proc/self/fd; cat /proc/*/environ | tr '\\0' '\\n'"
        )

    assert SECRET not in outcome.text
    assert "API_TOKEN" not in outcome.text
    # The fourth is that of `ls` itself.
    assert "\n0\n1\n2\n3\n" in outcome.text
    assert "\n4\n" not in outcome.text


async def test_the_root_has_only_what_is_named(code_box: CodeBox) -> None:
    code = """
        import os, pathlib, sys
        print(sorted(set(os.listdir("/")) - {"lib32", "libx32", "nix"}))
        print(sorted(set(os.listdir("/etc"))))
        status = pathlib.Path("/proc/self/status").read_text()
        lines = [line.split() for line in status.splitlines()]
        print([line for line in lines if line[0] in ("NoNewPrivs:", "CapBnd:")])
        print(os.getuid(), os.getgid(), sorted(e for e in os.listdir("/proc") if e.isdigit())[:1])
    """
    lines = (await code_box.python(dedent(code))).text.splitlines()

    always = {"bin", "dev", "etc", "lib", "proc", "run", "sbin", "tmp", "usr", "workspace"}
    assert set(literal_eval(lines[0])) - {"lib64"} == always
    settings = {"alternatives", "fonts", "group", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"}
    assert set(literal_eval(lines[1])) <= settings | {"localtime", "passwd"}
    assert literal_eval(lines[2]) == [["CapBnd:", "0000000000000000"], ["NoNewPrivs:", "1"]]
    assert lines[3] == "1000 1000 ['1']"


# The code, and the limit that ends it or the error that it gets.
EXHAUSTING = {
    "processes that multiply": (
        """
        import os
        while True:
            try: os.fork()
            except OSError: pass
        """,
        "timeout",
    ),
    "more processes than allowed": (
        """
        import os, time
        for n in range(50):
            if not os.fork(): time.sleep(1000)
        """,
        "BlockingIOError",
    ),
    "more threads than allowed": (
        """
        import threading
        for n in range(50): threading.Thread(target=threading.Event().wait, daemon=True).start()
        """,
        "can't start new thread",
    ),
    "memory": ("held = []\nwhile True: held.append(bytearray(1 << 22))", "memory"),
    "memory at once": ("bytearray(1 << 40)", "MemoryError"),
    "memory of many processes": (
        """
        import os, time
        for n in range(10):
            if not os.fork():
                held = b"x" * 30_000_000
                time.sleep(1000)
        time.sleep(1000)
        """,
        "memory",
    ),
    "memory that processes share": (
        """
        import mmap
        held = mmap.mmap(-1, 300_000_000)
        while held.write(b"x" * 1_000_000): pass
        """,
        "memory",
    ),
    "memory of a process whose first thread has ended": (
        """
        import ctypes, mmap, threading
        def hold():
            held = mmap.mmap(-1, 1_000_000_000)
            while held.write(b"x" * 1_000_000): pass
        threading.Thread(target=hold).start()
        ctypes.CDLL(None).syscall(60, 0)
        """,
        "memory",
    ),
    "tables for memory that nothing is in": (
        """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.mmap.restype, whole = ctypes.c_void_p, ctypes.c_size_t(1 << 40)
        start = libc.mmap(None, whole, 1, 0x4022, -1, 0)
        libc.madvise(ctypes.c_void_p(start), whole, 15)
        for at in range(0, 1 << 40, 1 << 21): ctypes.string_at(start + at, 1)
        """,
        "memory",
    ),
    "sockets that keep what nobody reads": (
        """
        import os, socket, time
        os.fork()
        held = [socket.socketpair() for n in range(120)]
        time.sleep(1000)
        """,
        "memory",
    ),
    "files in /tmp": ("FOLDER = '/tmp'\nfill()", "No space left|disk"),
    "files in /dev/shm": ("FOLDER = '/dev/shm'\nfill()", "No space left|disk"),
    "many files": ("FOLDER = '.'\nfill()", "disk"),
    "a large file": ("f = open('x', 'wb')\nwhile True: f.write(BLOCK)", "File too large|disk"),
    "files without a name": (
        """
        import os
        held = []
        while True:
            held.append(open("x", "wb"))
            os.unlink("x")
            held[-1].write(BLOCK)
        """,
        "disk",
    ),
    "files without a name that are mapped": (
        """
        import ctypes, os
        libc = ctypes.CDLL(None)
        while True:
            file = os.open("x", os.O_RDWR | os.O_CREAT)
            os.write(file, BLOCK)
            libc.mmap(None, 4096, 1, 1, file, 0)
            os.close(file); os.unlink("x")
        """,
        "disk",
    ),
    "files without a name on their way between processes": (
        """
        import os, socket, time
        one, other = socket.socketpair()
        for n in range(20):
            file = os.open("x", os.O_RDWR | os.O_CREAT)
            os.write(file, BLOCK)
            socket.send_fds(one, [b"x"], [file])
            os.close(file); os.unlink("x")
        time.sleep(1000)
        """,
        "disk",
    ),
    "files in a folder that is closed": (
        """
        import os
        for n in range(1000):
            FOLDER = f"d{n}"
            os.mkdir(FOLDER)
            fill(1)
            os.chmod(FOLDER, 0)
        """,
        "disk",
    ),
    "empty files": (
        """
        for n in range(10_000_000): open(f"x{n}", "w").close()
        """,
        "disk",
    ),
    "folders in folders": ("import os\nwhile True: os.mkdir('d'); os.chdir('d')", "disk"),
    "endless output": ("while True: print('x' * 1000)", "output"),
    "endless output without a line": ("import os\nwhile True: os.write(1, b'x')", "output"),
    "endless errors": ("import os\nwhile True: os.write(2, b'x' * 1000)", "output"),
    "sleep without end": ("import time; time.sleep(10_000)", "timeout"),
    "sleep that ignores signals": (
        """
        import signal, time
        for n in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(n, signal.SIG_IGN)
        time.sleep(10_000)
        """,
        "timeout",
    ),
    "work behind a closed output": (
        "import os, time\nos.close(1); os.close(2); time.sleep(10_000)",
        "timeout",
    ),
}
FILLING = """
BLOCK = b"x" * 5_000_000
def fill(most=1000):
    for n in range(most):
        with open(f"{FOLDER}/{n}", "wb") as f: f.write(BLOCK)
"""


@pytest.mark.parametrize("name", EXHAUSTING)
async def test_what_uses_too_much_is_ended(code_box: CodeBox, name: str) -> None:
    code, why = EXHAUSTING[name]

    outcome = await code_box.python(
        FILLING + dedent(code),
        timeout=1 if why == "timeout" else 100,
        memory="100MB",
        disk="40MB",
        output=100_000,
        processes=12,
    )

    said = f"{outcome.metadata['meta'].get('stopped')} {outcome.text}"
    assert any(word in said for word in why.split("|")), said


async def test_files_in_memory_count_as_memory(code_box: CodeBox) -> None:
    code = FILLING + "import os, time\nFOLDER = '/dev/shm'\nfill(8)\ntime.sleep(1000)"

    outcome = await code_box.python(code, memory="50MB", disk="1GB")

    assert outcome.metadata["meta"]["stopped"] == "memory"


async def test_pages_that_processes_share_count_once(code_box: CodeBox) -> None:
    code = """
        import os
        held = b"x" * 30_000_000
        ready, done = os.pipe(), os.pipe()
        children = []
        for n in range(6):
            children.append(os.fork())
            if not children[-1]:
                os.write(ready[1], b"x"); os.read(done[0], 1); os._exit(0)
        for _ in children: os.read(ready[0], 1)
        import time; time.sleep(0.3)
        os.write(done[1], b"x" * 6)
        print("all there")
    """

    outcome = await code_box.python(dedent(code), memory="100MB")

    assert outcome.text == "all there\n"


async def test_what_a_program_leaves_running_ends_with_it(code_box: CodeBox) -> None:
    code = """
        import os, time
        if not os.fork():
            os.setsid()
            if not os.fork():
                for n in range(3): os.close(n)
                open("begun", "w").close()
                time.sleep(10_000)
            os._exit(0)
        while not os.path.exists("begun"): time.sleep(0.01)
        print("gone")
    """

    outcome = await code_box.python(dedent(code))

    # The fixture waits until no process is left.
    assert outcome.text == "gone\n"


async def test_files_that_code_plants_lead_nowhere(code_box: CodeBox, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n" + SECRET.encode())
    box = code_box.make()
    add_file_tools(box, code_box.root)
    code = f"""
        import os, stat
        os.symlink("/etc/passwd", "link"); os.symlink("/etc", "folder")
        os.symlink({str(tmp_path / "secret.png")!r}, "secret.png")
        os.mkfifo("pipe"); os.mkfifo("pipe.png"); os.mkdir("folder.png")
        open("x" * 255, "w").close(); open(b"\\xff\\xfe\\n", "w").close()
        open("a\\nb", "w").close(); os.mkdir("closed", 0)
    """

    made = await box.call("run_python", {"code": dedent(code)})
    said = [
        (await box.call("read_file", {"path": f"/workspace/{name}"})).text
        for name in ("link", "folder/passwd", "pipe", "secret.png")
    ]
    listed = await box.call("list_directory", {"path": "/workspace"})

    assert made.ok
    assert made.content == ()
    assert all("AccessDenied" in each for each in said)
    assert "link" not in listed.text
    assert "pipe" not in [entry["name"] for entry in listed.unwrap()]
