"""Each dialect stands alone: it knows nothing of the others and loads nothing heavy."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import wieldy.dialects

FOLDER = Path(wieldy.dialects.__file__).parent
DIALECTS = sorted(path.name for path in FOLDER.iterdir() if (path / "__init__.py").is_file())
HEAVY = {"mcp", "httpx2", "sqlalchemy", "starlette", "fastmcp"}


def imported(source: str) -> set[str]:
    """Every module that a source names in an import, wherever it stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_there_are_four() -> None:
    assert DIALECTS == ["agently", "agentscope", "artifactflow", "sage"]


@pytest.mark.parametrize("name", DIALECTS)
def test_no_dialect_names_another(name: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in (FOLDER / name).rglob("*.py")]
    found = set().union(*map(imported, sources))

    assert sources
    own = f"wieldy.dialects.{name}."
    named = [module for module in found if module.startswith("wieldy.dialects")]
    assert not [module for module in named if not module.startswith(own)]


def test_an_import_of_another_would_be_found() -> None:
    assert imported("def f():\n    from wieldy.dialects.sage import x") == {
        "wieldy.dialects.sage.x"
    }


@pytest.mark.parametrize("name", DIALECTS)
def test_importing_one_loads_no_other_and_nothing_heavy(name: str) -> None:
    program = f"import json, sys, wieldy.dialects.{name}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    loaded = json.loads(done.stdout)
    others = tuple(f"wieldy.dialects.{other}" for other in DIALECTS if other != name)

    assert f"wieldy.dialects.{name}" in loaded
    assert not [module for module in loaded if module.startswith(others)]
    assert not HEAVY.intersection(module.partition(".")[0] for module in loaded)
