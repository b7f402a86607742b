"""A program whose calls are decided one by one, each in a process of its own."""

from collections import Counter
from pathlib import Path

from tests.forking.forked_program import run_program
from tests.tools.code_mode.deciding_program import make_box
from wieldy import Status

PROGRAM = Path(__file__).with_name("deciding_program.py")


def do_elsewhere(work: str, url: str, folder: Path) -> None:
    """Do something in another process, and wait for its end."""
    ended = run_program([str(PROGRAM), url, str(folder), work])
    assert ended.returncode == 0, ended.stderr


async def test_each_process_that_decides_does_its_part_and_nothing_runs_twice(
    url: str, tmp_path: Path
) -> None:
    for work in ("run", "approve", "approve", "approve"):
        do_elsewhere(work, url, tmp_path)
    async with make_box(url, tmp_path) as box:
        (entry,) = await box.ledger.list(tool="run_code")
        assert (entry.status, entry.value) == (Status.OK, [1, 1, 2, 2, 3, True])
        assert await box.recover() == []
    ran = [line.split(" by ") for line in (tmp_path / "effects").read_text().splitlines()]
    expected = ("look 1", "look 2", "pay 1", "pay 2", "pay 3")
    assert Counter(each for each, _ in ran) == dict.fromkeys(expected, 1)
    by = dict((each, process) for each, process in ran)
    assert by["look 1"] == by["look 2"]
    assert len({by[each] for each in expected}) == 4, "three decided, and one began"
