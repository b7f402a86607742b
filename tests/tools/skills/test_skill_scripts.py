"""Scripts of skills in the real sandbox: what runs, where, and what is refused."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.code.test_code_tools import PNG
from wieldy import Image, Outcome, Permission, Status, Text, Toolbox
from wieldy.tools.code import SandboxLimits, add_code_tools
from wieldy.tools.files import FileService, MemoryFiles
from wieldy.tools.skills import SkillError, add_skills

EXAMPLE = Path(__file__).parents[3] / "examples" / "skills"
FRONT = "---\nname: {name}\ndescription: It works.\n---\nRun a script.\n"
FREE = {"/workspace/": ["list", "read", "write", "delete"]}


def make_skill(folder: Path, scripts: dict[str, str | bytes], name: str = "one") -> Path:
    skill = folder / name
    for path, content in {"SKILL.md": FRONT.format(name=name), **scripts}.items():
        (skill / path).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        (skill / path).write_bytes(data)
    return skill


@pytest.fixture(autouse=True)
def no_copy_left() -> Iterator[None]:
    """No run leaves a copy of its skill behind."""
    yield
    left = [path for path in Path("/tmp").glob("wieldy-code-*/*/SKILL.md") if _is_own(path)]
    assert left == []


NEEDS_SANDBOX = pytest.mark.needs("the sandbox")


def _is_own(path: Path) -> bool:
    return "It works." in path.read_text()


async def run(box: Toolbox, script: str, *arguments: str, **options: Any) -> Outcome:
    call = {"skill": "one", "script": script, "arguments": list(arguments), **options}
    return await box.view(session="ann").call("run_skill_script", call)


def make_box(folder: Path, **options: Any) -> Toolbox:
    box = Toolbox(permission_mode="bypass")
    add_skills(box, folder, **options)
    return box


@NEEDS_SANDBOX
async def test_a_script_asks_and_then_sees_its_skill_and_the_working_folder(
    tmp_path: Path,
) -> None:
    script = (
        "import os, sys\nfrom parts import word\n"
        "print(word.WORD, sys.argv, os.getcwd(), sorted(os.listdir('/skills/one')))\n"
        "open('made.txt', 'w').write('x')\n"
        "try:\n    open('/skills/one/new.txt', 'w')\nexcept OSError as error:\n"
        "    print(error.strerror)\n"
    )
    skill = make_skill(tmp_path, {"scripts/a.py": script, "scripts/parts/word.py": "WORD = 'hi'"})
    async with Toolbox() as box:
        reader, runner = add_skills(box, skill)
        asked = await run(box, "scripts/a.py", "entry.py", "{status}", "$(id) *")
        done = await box.approve(asked.call.id, by="test")

    assert (reader.permission, runner.permission) == (Permission.AUTO, Permission.CONFIRM)
    assert asked.status is Status.PENDING
    assert done.text == (
        "hi ['/skills/one/scripts/a.py', 'entry.py', '{status}', '$(id) *'] /workspace "
        "['SKILL.md', 'scripts']\nRead-only file system\n"
    )
    assert sorted(os.listdir(skill)) == ["SKILL.md", "scripts"]


@NEEDS_SANDBOX
@pytest.mark.parametrize(
    ("path", "content", "text"),
    [
        ("a.sh", "echo $0 $1", "/skills/one/a.sh x\n"),
        ("a.bash", "echo ${BASH_VERSION:+bash}", "bash\n"),
        ("a.sh", "#!/bin/bash\necho ${BASH_VERSION:+bash}", "bash\n"),
        ("plain", "#!/usr/bin/env -S A=1 bash -u\necho ${BASH_VERSION:+bash}", "bash\n"),
        ("plain", "#!/usr/bin/env python3\nimport pydantic; print(1)", "1\n"),
        ("a.PY", "#!/usr/bin/env -S uv run --script\nprint(1)", "1\n"),
        ("a.sh", "#!/nowhere/shell\necho", "/nowhere/shell: No such file or directory\n"),
        ("a.sh", "./../skills/one/b.sh", "b\n"),
        ("a.sh", "exit 3", "[exit code 3]\n"),
    ],
)
async def test_the_name_or_the_first_line_says_what_runs_a_script(
    tmp_path: Path, path: str, content: str, text: str
) -> None:
    skill = make_skill(tmp_path, {path: content, "b.sh": "#!/bin/sh\necho b"})
    async with make_box(skill) as box:
        outcome = await run(box, path, "x")

    assert outcome.ok
    assert outcome.text.removesuffix("[exit code 127]\n") == text


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        ("data.json", [], "it is no script"),
        ("SKILL.md", [], "it is no script"),
        ("b.py", [], "it has no such file; the nearest are a.py"),
        ("../one/../../etc/passwd", [], "it has no such file"),
        ("/etc/passwd", [], "it has no such file"),
        ("link.py", [], "it has no such file"),
        ("later.py", [], "it has no such file"),
        ("", [], "it has no such file"),
        ("a.py", ["\0"], "NUL"),
        ("a.py", ["\ud800"], "surrogate"),
        ("a.py", ["x" * 100_001], "Write data to a file"),
        ("a.py", ["x"] * 201, "arguments"),
    ],
)
async def test_what_is_no_script_of_the_skill_is_refused(
    tmp_path: Path, script: str, arguments: list[str], said: str
) -> None:
    skill = make_skill(tmp_path, {"a.py": "print(1)", "data.json": "{}"})
    (tmp_path / "out.py").write_text("print('out')")
    (skill / "link.py").symlink_to(tmp_path / "out.py")
    async with make_box(skill) as box:
        (skill / "later.py").write_text("print(2)")
        outcome = await run(box, script, *arguments)

    assert outcome.status is Status.ERROR
    assert said in outcome.text


@NEEDS_SANDBOX
@pytest.mark.parametrize("changed", ["a.py", "lib/b.py", "SKILL.md"])
async def test_a_skill_that_has_changed_does_not_run(tmp_path: Path, changed: str) -> None:
    skill = make_skill(tmp_path, {"a.py": "import lib.b", "lib/b.py": "print(1)"})
    async with make_box(skill) as box:
        before = await run(box, "a.py")
        (skill / "__pycache__").mkdir()
        (skill / "__pycache__" / "a.pyc").write_bytes(b"left by an interpreter")
        again = await run(box, "a.py")
        (skill / changed).write_text("print('changed')")
        after = await run(box, "a.py")

    assert (before.text, again.text) == ("1\n", "1\n")
    assert f"one/{changed}: it has changed since it was added" in after.text


async def test_an_approval_does_not_hold_for_a_changed_script(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, {"a.py": "print(1)"})
    store = f"sqlite:///{tmp_path}/calls.db"
    async with Toolbox(store=store) as box:
        add_skills(box, skill)
        asked = await run(box, "a.py")
    (skill / "a.py").write_text("print('changed')")
    async with Toolbox(store=store) as box:
        add_skills(box, skill)
        done = await box.approve(asked.call.id, by="test")

    assert done.status is not Status.OK
    assert "changed\n" not in done.text


@NEEDS_SANDBOX
async def test_output_streams_and_pictures_come_back(tmp_path: Path) -> None:
    script = "import shutil\nprint('begun', flush=True)\nshutil.copy('/skills/one/p.png', 'q.png')"
    skill = make_skill(tmp_path, {"a.py": script, "p.png": PNG})
    async with make_box(skill) as box:
        call = {"skill": "one", "script": "a.py"}
        items = [item async for item in box.stream("run_skill_script", call)]

    assert items[0] == Text("begun\n")
    outcome = items[-1]
    assert isinstance(outcome, Outcome)
    assert outcome.content == (Text("begun\n"), Image(PNG, "image/png"))
    assert outcome.metadata["meta"]["sandbox"] == "bubblewrap"


@NEEDS_SANDBOX
async def test_limits_end_a_script(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, {"a.sh": "while :; do :; done"})
    async with make_box(skill, limits=SandboxLimits(timeout=1)) as box:
        outcome = await run(box, "a.sh")

    assert "it took longer than 1 s" in outcome.text


@NEEDS_SANDBOX
async def test_scripts_work_where_the_code_tools_do_and_each_session_has_a_folder(
    tmp_path: Path,
) -> None:
    skill = make_skill(tmp_path, {"a.sh": "cat in.txt; echo made > out.txt"})
    async with make_box(skill) as box:
        alone = await run(box, "a.sh")
        add_code_tools(box)
        await box.view(session="ann").call("run_shell", {"command": "echo given > in.txt"})
        together = await run(box, "a.sh")
        made = await box.view(session="ann").call("run_shell", {"command": "cat out.txt"})
        call = {"skill": "one", "script": "a.sh"}
        other = await box.view(session="bob").call("run_skill_script", call)

    assert "No such file" in alone.text
    assert (together.text, made.text) == ("given\n", "made\n")
    assert "No such file" in other.text


@NEEDS_SANDBOX
async def test_a_file_service_is_the_working_folder(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, {"a.sh": "cat in.txt; echo made > out.txt"})
    service = FileService(MemoryFiles(), FREE)
    service.write("/workspace/in.txt", "given\n")
    async with make_box(skill, files=service) as box:
        outcome = await run(box, "a.sh")

    assert outcome.text == "given\n"
    assert service.read_text("/workspace/out.txt") == "made\n"


async def test_without_bubblewrap_skills_are_read_and_scripts_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = make_skill(tmp_path, {"a.py": "import os; print(__file__, os.getcwd())"})
    monkeypatch.setenv("PATH", str(tmp_path))
    async with make_box(skill) as box, make_box(skill, sandbox="unprotected") as open_box:
        read = await box.call("read_skill", {"skill": "one", "path": "a.py"})
        outcome = await run(box, "a.py")
        unprotected = await run(open_box, "a.py")

    assert read.ok
    assert "apt-get install bubblewrap" in outcome.text
    assert unprotected.ok
    assert "/a.py " in unprotected.text


async def test_scripts_can_be_left_out(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, {"a.py": "print(1)"})
    bare = make_skill(tmp_path / "bare", {"notes.md": "Notes."})
    box = Toolbox()

    assert [tool.name for tool in add_skills(box, skill, scripts=False)] == ["read_skill"]
    assert [tool.name for tool in add_skills(Toolbox(), bare)] == ["read_skill"]
    box.remove("read_skill")
    box.add(lambda: 1, name="run_skill_script", description="Taken.")
    with pytest.raises(ValueError, match="registered already"):
        add_skills(box, skill)
    assert box.names == ["run_skill_script"]


@NEEDS_SANDBOX
async def test_two_scripts_at_the_same_time_have_each_their_copy(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, {"a.py": "import sys; print(sys.argv[1])"})
    async with make_box(skill) as box:
        first, second = await asyncio.gather(run(box, "a.py", "1"), run(box, "a.py", "2"))

    assert (first.text, second.text) == ("1\n", "2\n")


@NEEDS_SANDBOX
async def test_a_skill_of_the_published_shape_is_read_and_run(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "skills")
    async with make_box(tmp_path / "skills") as box:
        view = box.view(session="ann")
        steps = await view.call("read_skill", {"skill": "csv-report"})
        linked = [
            await view.call("read_skill", {"skill": "csv-report", "path": path})
            for path in ("references/COLUMNS.md", "./references/deep/rounding.md", "LICENSE.txt")
        ]
        given = {"skill": "csv-report", "script": "${CLAUDE_SKILL_DIR}/scripts/make_report.py"}
        failed = await view.call("run_skill_script", given)

    assert steps.text.startswith("# Report on a CSV file\n")
    assert "- references/deep/rounding.md (" in steps.text
    assert [each.ok for each in linked] == [True] * 3
    assert "missing 2 required positional arguments" in failed.text


def test_a_hostile_folder_or_file_name_is_refused_with_the_reason(tmp_path: Path) -> None:
    make_skill(tmp_path / "a", {"b\u202eyp.exe": "x"})
    with pytest.raises(SkillError, match="nobody sees"):
        add_skills(Toolbox(), tmp_path / "a")
    make_skill(tmp_path / "b" / "w*ld", {"b.md": "x"})
    with pytest.raises(SkillError, match="wildcard"):
        add_skills(Toolbox(), tmp_path / "b")
