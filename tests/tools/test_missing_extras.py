"""Without the package that it needs, each tool names the extra that brings it."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
for name in sys.argv[1].split():
    sys.modules[name] = None
from wieldy import Toolbox
try:
    exec(sys.argv[2])
except ImportError as error:
    print(error)
"""
SKILL = "---\nname: pdf\ndescription: Work with forms.\n---\nRead the form.\n"
READ_SKILLS = "from wieldy.tools.skills import find_skills; print(*find_skills('.'))"
MISSING = {
    "web": ("httpx2 httpcore2", "import wieldy.tools.web"),
    "agent": ("yaml", READ_SKILLS),
    "code-mode": (
        "pydantic_monty",
        "from wieldy.tools.code_mode import add_code_mode; add_code_mode(Toolbox())",
    ),
    "server": ("jwt", "import wieldy.server.oauth.issuer"),
}


def run_without(packages: str, statement: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, packages, statement],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf" / "SKILL.md").write_text(SKILL)
    return tmp_path


@pytest.mark.parametrize("extra", MISSING)
def test_a_tool_without_its_package_names_one_extra(extra: str, folder: Path) -> None:
    said = run_without(*MISSING[extra], folder)

    assert said.count("pip install") == 1
    assert f'pip install "wieldy[{extra}]"' in said


def test_skills_are_read_with_the_extra_that_they_name_alone(folder: Path) -> None:
    assert "pdf" in run_without("httpx2", READ_SKILLS, folder)
