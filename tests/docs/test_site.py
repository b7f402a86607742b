"""The documentation as a site: it builds without a warning, and its reference is complete."""

import os
import re
import subprocess
import sys
from pathlib import Path

import wieldy

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert "Toolbox" in (tmp_path / "reference" / "toolbox.html").read_text(encoding="utf-8")


def test_the_reference_has_every_public_name_once() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md")))
    named = re.findall(r"^::: wieldy\.(\w+)$", pages, re.MULTILINE)
    modules = {"mcp", "server"}

    assert sorted(set(named) - modules) == sorted(wieldy.__all__)
    assert len(named) == len(set(named))
