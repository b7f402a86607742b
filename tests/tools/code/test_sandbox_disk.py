"""The limit of the working folder: what hides from those who look, and folders that are full."""

import os
from pathlib import Path
from textwrap import dedent

import pytest

from tests.tools.code.conftest import CodeBox
from wieldy import Outcome, Status, Text
from wieldy.tools.code.folder_watch import FolderWatch

FILES = "import os\ndef write(name, size):\n    with open(name, 'wb') as f: f.write(b'x' * size)\n"


def fill(folder: Path, *sizes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(sizes):
        (folder / f"old-{number}").write_bytes(b"x" * size)


def is_full(outcome: Outcome) -> bool:
    """Whether a call ended as an error that names the disk."""
    stopped = outcome.metadata["meta"].get("stopped")
    return outcome.status is Status.ERROR and stopped == "disk" and "disk" in outcome.text


async def test_what_is_written_in_the_last_moment_is_measured_and_stays(code_box: CodeBox) -> None:
    code = FILES + "for n in range(10): write(f'new-{n}', 15_000_000)\nos._exit(0)"

    outcome = await code_box.python(code, disk="20MB")

    assert is_full(outcome)
    assert (code_box.folder / "new-0").stat().st_size == 15_000_000
    # It can be emptied, file by file, and is as good as new then.
    assert (await code_box.shell("rm new-0; echo done", disk="20MB")).text == "done\n"
    assert is_full(await code_box.python(FILES + "write('more', 15_000_000)", disk="20MB"))
    assert (await code_box.shell("rm -rf *; echo done", disk="20MB")).ok
    assert (await code_box.python(FILES + "write('more', 15_000_000)", disk="20MB")).ok


async def test_files_that_are_moved_about_all_the_time_are_measured(code_box: CodeBox) -> None:
    code = """
        for name in ("a", "z"): os.mkdir(name)
        for n in range(30): write(f"a/{n}", 3_000_000)
        for turn in range(3_000):
            one, other = ("a", "z") if turn % 2 else ("z", "a")
            for n in os.listdir(other): os.rename(f"{other}/{n}", f"{one}/{n}")
        print("hidden")
    """

    assert is_full(await code_box.python(FILES + dedent(code), disk="40MB"))


async def test_nobody_is_told_when_the_folder_is_looked_at(code_box: CodeBox) -> None:
    code = """
        import ctypes, errno, fcntl, os
        libc = ctypes.CDLL(None, use_errno=True)
        for call in (lambda: libc.inotify_init(), lambda: libc.inotify_init1(0),
                     lambda: libc.inotify_add_watch(0, b".", 1), lambda: libc.fanotify_init(0, 0)):
            print(call(), errno.errorcode[ctypes.get_errno()])
        folder = os.open(".", os.O_RDONLY)
        for name in ("F_NOTIFY", "F_SETLEASE"):
            try: print(fcntl.fcntl(folder, getattr(fcntl, name), 0))
            except OSError as error: print(-1, errno.errorcode[error.errno])
    """

    assert (await code_box.python(dedent(code))).text == "-1 EPERM\n" * 6


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        (
            "cat old-0 | wc -c; ls > /tmp/list; head -c 9000000 /dev/zero > /dev/shm/x; sleep 0.3",
            False,
        ),
        ("rm old-1; sleep 0.3", False),
        ("rm old-1; mkdir d; mv old-* d; sleep 0.3", False),
        ("head -c 1000000 /dev/zero > more; sleep 100", True),
        ("head -c 1000000 /dev/zero > more", True),
        ("rm old-1; head -c 31000000 /dev/zero | split -b 10000000", True),
    ],
)
async def test_a_folder_that_was_too_large_before_may_become_smaller(
    code_box: CodeBox, command: str, ends: bool
) -> None:
    fill(code_box.folder, 30_000_000, 30_000_000)

    outcome = await code_box.shell(f"{command}; echo done", disk="20MB")

    assert is_full(outcome) == ends
    assert outcome.ok != ends, outcome


async def test_a_deep_folder_hides_nothing_and_opens_no_door(code_box: CodeBox) -> None:
    enter = "for n in range(300): os.chdir('d')\n"
    make = enter.replace("os.chdir", "os.mkdir('d'); os.chdir")

    assert (await code_box.python(FILES + make + "write('x', 1_000)", disk="20MB")).ok
    assert is_full(await code_box.python(FILES + enter + "write('y', 19_500_000)", disk="20MB"))
    # It was too full before, and so it may not take more than that.
    assert is_full(
        await code_box.shell(
            "rm -rf d; for n in 1 2 3; do head -c 19000000 /dev/zero > $n; done", disk="20MB"
        )
    )
    assert (await code_box.shell("rm -rf *; echo done", disk="20MB")).text == "done\n"
    assert (await code_box.python(FILES + "write('x', 15_000_000)", disk="20MB")).ok


def test_free_space_that_shrinks_calls_for_a_look_before_the_next_one_is_due(
    tmp_path: Path,
) -> None:
    watch = FolderWatch(os.fspath(tmp_path), 10_000_000)
    assert watch.most == 10_000_000

    for number in range(50):
        if watch.is_in_doubt:
            break
        # Others may delete files on the same disk meanwhile.
        (tmp_path / str(number)).write_bytes(b"x" * 15_000_000)

    assert watch.is_in_doubt
    assert watch.measure_still() > watch.most


async def test_a_program_goes_on_if_others_fill_the_disk(code_box: CodeBox, tmp_path: Path) -> None:
    box = code_box.make(disk="4MB")
    written: int | None = None
    async for item in box.stream("run_shell", {"command": "echo ready; sleep 2; echo done"}):
        if isinstance(item, Outcome):
            assert item.text == "ready\ndone\n"
        elif isinstance(item, Text) and "ready" in item.text:
            written = (tmp_path / "others").write_bytes(b"x" * 50_000_000)

    assert written is not None


async def test_a_file_of_many_names_counts_once(code_box: CodeBox) -> None:
    fill(code_box.folder, 15_000_000)
    for number in range(20):
        os.link(code_box.folder / "old-0", code_box.folder / f"name-{number}")

    assert (await code_box.shell("ls | wc -l; sleep 0.3", disk="20MB")).text == "21\n"


async def test_the_keys_of_the_host_are_not_seen(code_box: CodeBox) -> None:
    outcome = await code_box.shell("cat /proc/keys /proc/key-users; echo $?")

    assert outcome.text == "0\n"
