"""Wieldy without any extra: what it needs, how large that is, what works and what is refused."""

import subprocess
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

SECONDS = 240
# Without the bytecode that pip compiles.
MAX_SIZE = 50_000_000
ROOT = Path(__file__).parents[1]
WITH_A_STORE = """
import asyncio
from wieldy import Toolbox

def open_box():
    box = Toolbox(store="sqlite:///calls.db")
    @box.tool(permission="confirm")
    async def refund(order: str) -> str:
        return f"{order} is paid back"
    return box

async def main():
    async with open_box() as box:
        parked = await box.call("refund", {"order": "A7"})
        print(parked.status)
    async with open_box() as box:
        print((await box.approve(parked.call.id, by="ann")).value)

asyncio.run(main())
"""
# What needs the extra of that name, as a statement.
MISSING = {
    "agent": "from wieldy.agent import prompt_document",
    "anthropic": "from wieldy.models import find_model; find_model('anthropic:x')",
    "cli": "from wieldy.cli import main; main()",
    "code-mode": "from wieldy.tools.code_mode import add_code_mode; add_code_mode(Toolbox())",
    "gemini": "from wieldy.models import find_model; find_model('gemini:x')",
    "mcp": "from wieldy.mcp import serve",
    "openai": "from wieldy.models import find_model; find_model('openai:x')",
    "openapi": "import wieldy.openapi",
    "postgres": "asyncio.run(Toolbox(store='postgresql://x@127.0.0.1:1/x').sessions.list())",
    "prices": (
        "from wieldy.agent.prices import request_cost; from wieldy.models.model import Usage; "
        "request_cost(None, 'openai:x', Usage(1, 1, 0, 0, 0))"
    ),
    "process": (
        "box = Toolbox(); box.add(lambda: 1, name='one', isolation='process'); "
        "print(box.call_sync('one', {}).error)"
    ),
    "server": "import wieldy.server",
    "web": "import wieldy.tools.web",
}


def needed(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    """A package and all that it needs here without extras."""
    if name not in found:
        found[name] = distribution(name)
        for text in found[name].requires or []:
            each = Requirement(text)
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                needed(each.name, found)
    return found


def copy_files(package: Distribution, target: Path) -> None:
    """Copy what a package has installed into site-packages."""
    for file in package.files or []:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            copied = target / file
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(Path(str(file.locate())).read_bytes())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what `pip install wieldy` installs, and nothing else."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, with_pip=False)
    [target] = folder.glob("lib/python*/site-packages")
    for package in needed("wieldy", {}).values():
        copy_files(package, target)
    return folder


def run_in(base: Path, program: str, folder: Path) -> str:
    """Run a program with the base install; gives all that it printed."""
    done = subprocess.run(
        [base / "bin" / "python", "-c", program],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    return done.stdout


def test_the_base_install_keeps_calls_in_sqlite_and_approves_them(
    base: Path, tmp_path: Path
) -> None:
    assert run_in(base, WITH_A_STORE, tmp_path) == "pending\nA7 is paid back\n"


@pytest.mark.parametrize("extra", MISSING)
def test_what_needs_an_extra_names_it(extra: str, base: Path, tmp_path: Path) -> None:
    program = f"import asyncio\nfrom wieldy import Toolbox\n{MISSING[extra]}"

    said = run_in(base, program, tmp_path)

    assert f'pip install "wieldy[{extra}]"' in said


def test_every_extra_is_asked_for_by_something() -> None:
    extras = set(distribution("wieldy").metadata.get_all("Provides-Extra") or [])
    # `all` has no code of its own, and the browser is looked for by the web tools.
    assert extras - MISSING.keys() == {"all", "browser"}


def test_the_base_install_is_small(base: Path) -> None:
    [target] = base.glob("lib/python*/site-packages")
    places = [target, ROOT / "src" / "wieldy", ROOT / "docs"]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]

    sizes = [path.stat().st_size for path in files if "__pycache__" not in path.parts]

    assert sum(sizes) < MAX_SIZE
