"""`scripts/make-environment` installs a lock as it is, on any day and in anybody's shell."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.child_process import ChildProcess
from tests.scripts.package_index import PackageIndex, pack_uv, serve_index

ROOT = Path(__file__).parents[2]
UV = Path(sys.prefix, ".uv")
SECONDS = 240
_CHANGES = re.compile("PIP_|UV_|PYTHON")
PIPS = {
    "23.0.1": "236bcb61156d76c4b8a05821b988c7b8c35bf0da28a4b614e8d6ab5212c25c6f",
    "26.3": "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13",
}


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    """An index that has newer releases of everything than the lock of the project."""
    with serve_index() as index:
        yield index


@pytest.fixture
def project(tmp_path: Path, index: PackageIndex) -> Path:
    """A project with the script and a lock, in a folder with a space; its index is pip's."""
    folder = tmp_path / "a project"
    (folder / "scripts").mkdir(parents=True)
    (folder / "requirements").mkdir()
    shutil.copy(ROOT / "scripts" / "make-environment", folder / "scripts")
    shutil.copy(ROOT / "requirements" / "uv.txt", folder / "requirements")
    lines = [
        index.add("report", "1.0", "coverage[toml]>=1"),
        index.add("coverage", "1.0", "tomli; extra == 'toml'", extras=["toml"]),
        index.add("tomli", "1.0"),
    ]
    (folder / "lock.txt").write_text("".join(lines))
    # What appeared on the day after.
    index.add("report", "2.0", "coverage[toml]>=2")
    index.add("coverage", "2.0", "tomli>=2; extra == 'toml'", extras=["toml"])
    index.add("tomli", "2.0")
    (folder / "pip.conf").write_text(f"[global]\nindex-url = {index.url}\n")
    return folder


def start(
    project: Path,
    *words: str,
    python: str = sys.executable,
    command: Sequence[str] = (),
    **variables: str,
) -> subprocess.Popen[str]:
    """Start the script, or a command around it, as a person's shell would."""
    words = words or ("env", "lock.txt")
    settings = {
        **{name: each for name, each in os.environ.items() if not _CHANGES.match(name)},
        "PIP_CONFIG_FILE": str(project / "pip.conf"),
        "HOME": str(project / "home"),
        **variables,
    }
    return ChildProcess(
        command or [python, str(project / "scripts" / "make-environment"), *words],
        cwd=project,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The status of the script and all that it printed."""
    said, _ = process.communicate(timeout=SECONDS)
    return process.returncode, said


def make(project: Path, *words: str, python: str = sys.executable, **variables: str) -> str:
    """Run the script, which has to pass; gives what it printed."""
    status, said = finish(start(project, *words, python=python, **variables))
    assert status == 0, said
    return said


def refuse(project: Path, *words: str) -> str:
    """Run the script, which has to fail; gives what it printed."""
    status, said = finish(start(project, *words))
    assert status != 0, said
    assert "Traceback" not in said
    assert not (project / "env" / ".installed").exists()
    return said


def installed(folder: Path) -> set[str]:
    """The packages of an environment, without pip and what came with it."""
    found = {path.name.removesuffix(".dist-info") for path in folder.rglob("*.dist-info")}
    return {name for name in found if not re.match("pip-|setuptools-|uv-", name)}


THE_LOCK = {"report-1.0", "coverage-1.0", "tomli-1.0"}


@pytest.mark.parametrize("version", PIPS)
def test_no_pip_and_no_release_of_tomorrow_changes_what_is_installed(
    version: str, index: PackageIndex, project: Path
) -> None:
    pip = project / "pip.txt"
    pip.write_text(f"pip=={version} --hash=sha256:{PIPS[version]}\n")
    of_the_tests = [sys.executable, str(ROOT / "scripts" / "make-environment")]
    subprocess.run([*of_the_tests, project / "env", pip], check=True, timeout=SECONDS)
    uv = pack_uv(index, UV)
    index.add("uv", "99.0")
    (project / "requirements" / "uv.txt").write_text(uv.replace(" --", " \\\n    --"))

    # The Python below the environment of the tests, which lends no uv.
    said = make(project, python=sys._base_executable)  # type: ignore[attr-defined]

    assert "Installing uv" in said
    assert installed(project / "env") == THE_LOCK
    kept = subprocess.run([project / "env/bin/pip", "--version"], capture_output=True, text=True)
    assert kept.stdout.startswith(f"pip {version} ")
    # Nothing was looked at but what the lock names.
    assert not [path for path in index.asked if "2.0" in path or "99" in path]


def test_an_environment_that_is_current_is_left_alone(index: PackageIndex, project: Path) -> None:
    make(project)
    index.asked.clear()

    assert make(project) == ""

    assert index.asked == []


def test_an_environment_with_a_larger_lock_is_left_alone(
    index: PackageIndex, project: Path
) -> None:
    (project / "small.txt").write_text((project / "lock.txt").read_text().splitlines()[2] + "\n")
    make(project)

    assert make(project, "env", "small.txt", "lock.txt") == ""
    assert installed(project / "env") == THE_LOCK

    make(project, "env", "small.txt")
    assert installed(project / "env") == {"tomli-1.0"}


EDITS = [
    (r"coverage==1\.0", "coverage==2.0"),
    (r"coverage==1\.0", "coverage==3.0"),
    (r"(coverage==1\.0 --hash=sha256:)\w+", r"\g<1>" + "0" * 64),
    (r"(coverage==1\.0) .*", r"\1"),
    (r"coverage==1\.0", "coverage>=1.0"),
    (r"coverage==1\.0", "coverage=1.0"),
    (r"coverage==1\.0 .*", "-e git+https://example.com/coverage"),
]


def test_a_lock_edited_by_hand_is_refused_and_the_package_named(project: Path) -> None:
    make(project)
    lock = project / "lock.txt"
    before = lock.read_text()
    for was, becomes in EDITS:
        text, count = re.subn(was, becomes, before)
        assert count == 1
        lock.write_text(text)
        assert "coverage" in refuse(project), becomes

    lock.write_text(before)
    make(project)
    assert installed(project / "env") == THE_LOCK


def test_a_lock_that_is_missing_is_named(project: Path) -> None:
    assert "gone.txt" in refuse(project, "env", "gone.txt")


def test_after_the_network_went_away_half_way_the_next_run_goes_on(
    index: PackageIndex, project: Path
) -> None:
    index.away.add("coverage-1.0-py3-none-any.whl")
    assert "run make again" in refuse(project)
    index.away.clear()

    make(project)

    assert installed(project / "env") == THE_LOCK


def test_an_environment_that_was_moved_is_made_anew(project: Path) -> None:
    make(project)
    (project / "env").rename(project / "moved")

    make(project, "moved", "lock.txt")

    begin = (project / "moved" / "bin" / "pip").read_text()
    assert str(project / "moved") in begin
    assert installed(project / "moved") == THE_LOCK


def test_an_environment_of_a_python_that_is_gone_is_made_anew(project: Path) -> None:
    make(project)
    python = project / "env" / "bin" / "python"
    python.unlink()
    python.symlink_to("/no/python/here")

    make(project)

    assert subprocess.run([python, "-c", "import report"]).returncode == 0


def test_a_folder_that_is_no_environment_is_left_as_it_is(project: Path) -> None:
    (project / "env").mkdir()
    (project / "env" / "thesis.txt").write_text("years of work")

    assert "Move it away" in refuse(project)

    assert (project / "env" / "thesis.txt").read_text() == "years of work"


def test_a_set_up_that_was_killed_is_begun_anew(project: Path) -> None:
    process = start(project)
    assert process.stdout is not None
    assert process.stdout.readline() == "Creating env\n"
    process.kill()

    # The step that it was in may still be running.
    make(project)

    process.communicate(timeout=SECONDS)
    assert installed(project / "env") == THE_LOCK


@pytest.mark.parametrize("known", [True, False])
def test_an_environment_without_its_settings_is_made_anew(project: Path, known: bool) -> None:
    make(project)
    if not known:
        (project / "env" / ".installed").unlink()
    # Without it, the Python of the folder would install into the one that it was made with.
    (project / "env" / "pyvenv.cfg").unlink()

    said = make(project)

    assert "Creating env" in said
    assert installed(project / "env") == THE_LOCK
    assert (project / "env" / "pyvenv.cfg").exists()


def test_a_home_that_can_not_be_written_is_no_obstacle(project: Path) -> None:
    (project / "home").write_text("a file")

    make(project)

    assert installed(project / "env") == THE_LOCK


def test_settings_of_the_caller_change_nothing(project: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "pip.py").write_text("raise SystemExit('not this one')")
    (elsewhere / "constraints.txt").write_text("coverage==2.0\n")
    conf = project / "pip.conf"
    more = "[install]\nuser = true\nno-binary = :all:\npre = true\ntarget = /nowhere\n"
    conf.write_text(f"{conf.read_text()}find-links = /no/wheels/here\n{more}")

    make(
        project,
        PYTHONPATH=str(elsewhere),
        PYTHONSAFEPATH="1",
        PIP_TARGET=str(elsewhere),
        PIP_NO_INDEX="1",
        PIP_CONSTRAINT=str(elsewhere / "constraints.txt"),
        PIP_UPGRADE="1",
        UV_CONSTRAINT=str(elsewhere / "constraints.txt"),
        UV_OVERRIDE=str(elsewhere / "constraints.txt"),
        UV_PYTHON="3.99",
        UV_NO_BINARY="1",
        UV_RESOLUTION="highest",
        VIRTUAL_ENV=str(elsewhere),
        CONDA_PREFIX=str(elsewhere),
    )

    assert installed(project / "env") == THE_LOCK
    assert sorted(path.name for path in elsewhere.iterdir()) == ["constraints.txt", "pip.py"]


def test_two_at_once_make_one_environment(index: PackageIndex, project: Path) -> None:
    ends = [finish(each) for each in [start(project), start(project)]]

    assert [status for status, _ in ends] == [0, 0], ends
    assert sum("Creating env" in said for _, said in ends) == 1
    assert installed(project / "env") == THE_LOCK


# A disk of its own, which is full at the first set-up and has room at the second.
FULL_DISK = """
mount -t tmpfs -o size=200m none "$0" && cp -a "$1/." "$0" && cd "$0" || exit 9
shift
head -c 198m /dev/zero >ballast 2>/dev/null
"$@" && exit 8
rm ballast
"$@" && ls -d env/lib/python*/site-packages/report-1.0.dist-info
"""


@pytest.mark.needs("mounts")
def test_a_full_disk_is_told_and_the_next_run_goes_on(project: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = [sys.executable, "scripts/make-environment", "env", "lock.txt"]
    privately = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]

    status, said = finish(
        start(
            project, command=[*privately, "sh", "-c", FULL_DISK, str(disk), str(project), *command]
        )
    )

    assert status == 0, said
    assert "Traceback" not in said
    assert f"There is no space left on the disk of {disk}." in said
