"""The wheel as a user gets it: its metadata, its readme and the pages inside it."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SECONDS = 240
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"`wieldy docs ([\w/-]+)`")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel of a clone was installed, and nothing else."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("src", "docs", "scripts"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone / name)
    _run(["git", "init", "-q", str(clone)])
    origin = "https://ann:secret@code.example/team/wieldy.git"
    _run(["git", "-C", str(clone), "remote", "add", "origin", origin])
    wheels = tmp_path_factory.mktemp("wheel")
    program = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    _run([sys.executable, "-c", program, str(wheels)], cwd=clone)
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--no-deps", "--no-index"]
    _run([*pip, "--target", str(target), *map(str, wheels.iterdir())], cwd=target)
    return target


def _run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(  # type: ignore[call-overload]
        command, capture_output=True, text=True, timeout=SECONDS, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: subprocess.CompletedProcess[str] = done
    return result


def _wieldy(target: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys, wieldy; from wieldy.cli import main; "
        "assert wieldy.__file__.startswith(sys.argv.pop(1)); main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}
    return subprocess.run(
        [sys.executable, "-c", program, str(target), *words],
        cwd=target,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.fixture(scope="module")
def metadata(installed: Path) -> Message:
    """What an index would show."""
    [path] = installed.glob("*.dist-info/METADATA")
    return Parser().parsestr(path.read_text(encoding="utf-8"))


def test_the_wheel_has_the_files_of_the_console(installed: Path) -> None:
    there = {each.name for each in (installed / "wieldy/server/console/assets").iterdir()}
    assert {"index.html", "main.js", "style.css"} <= there


def test_the_wheel_shows_its_pages(installed: Path) -> None:
    listed = json.loads(_wieldy(installed, "docs", "--json").stdout)
    pages = {page["page"]: page["title"] for page in listed}
    assert pages["first-tool"] == "Your first tool"
    assert pages["zh/index"] == "文档"
    assert next(iter(pages)) == "index"
    assert not [page for page in pages if page.startswith("reference")]
    shown = _wieldy(installed, "docs", "first-tool")
    expected = (ROOT / "docs" / "first-tool.md").read_text(encoding="utf-8")
    assert (shown.returncode, shown.stdout) == (0, expected)


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The module that writes the metadata."""
    path = ROOT / "scripts" / "package_metadata.py"
    spec = importlib.util.spec_from_file_location("package_metadata", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_without_an_address_has_no_link_that_leads_nowhere(
    installed: Path, metadata: Message, hook: ModuleType
) -> None:
    source = (ROOT / "README.md").read_text("utf-8")
    text = hook.package_readme(source, "")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "# Wieldy" in text
    assert [link for link in _LINK.findall(_FENCED.sub("", text)) if "://" not in link] == []
    pages = {page["page"] for page in json.loads(_wieldy(installed, "docs", "--json").stdout)}
    named = set(_COMMAND.findall(text))
    assert {"first-tool", "permissions", "performance"} <= named <= pages
    # Code is as it was.
    assert _FENCED.findall(text) == _FENCED.findall(source)


def test_the_addresses_of_the_project_are_those_that_it_has(
    metadata: Message, hook: ModuleType
) -> None:
    address = "https://code.example/team/wieldy"
    assert metadata.get_all("Project-URL") == [
        f"Source, {address}",
        f"Documentation, {address}/blob/main/docs/index.md",
        f"Changelog, {address}/blob/main/CHANGELOG.md",
    ]
    assert hook.project_urls("") == {}


def test_the_links_of_the_readme_lead_to_files_of_the_repository(metadata: Message) -> None:
    text = _FENCED.sub("", str(metadata.get_payload()))
    prefix = re.compile(r"https://code\.example/team/wieldy/(?:blob|raw)/main/([^#]+)")
    paths = [found[1] for link in _LINK.findall(text) if (found := prefix.match(link))]
    assert "docs/first-tool.md" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("https://code.example/team/wieldy.git\n", "https://code.example/team/wieldy"),
        ("https://ann:secret@code.example:8443/w/", "https://code.example/w"),
        ("git@code.example:team/wieldy.git", "https://code.example/team/wieldy"),
        ("ssh://git@code.example:22/team/wieldy", "https://code.example/team/wieldy"),
        ("https://builder/team/wieldy", ""),
        ("/srv/git/wieldy.git", ""),
        ("../wieldy", ""),
        ("file:///srv/wieldy", ""),
        ("https://code.example/a b", ""),
        ("https://code.example/", ""),
        ("", ""),
    ],
)
def test_the_public_address_has_neither_user_nor_password(
    hook: ModuleType, origin: str, address: str
) -> None:
    assert hook.public_address(origin) == address


@pytest.mark.parametrize(
    ("text", "alone", "public"),
    [
        ("[a](docs/a.md)", "a (`wieldy docs a`)", "[a](https://x/blob/main/docs/a.md)"),
        (
            "[a](docs/zh/a.md#b)",
            "a (`wieldy docs zh/a`)",
            "[a](https://x/blob/main/docs/zh/a.md#b)",
        ),
        ("[l](LICENSE)", "l", "[l](https://x/blob/main/LICENSE)"),
        ("![p](docs/p.svg)", "", "![p](https://x/raw/main/docs/p.svg)"),
        ("[e](https://e/f)", "[e](https://e/f)", "[e](https://e/f)"),
        ("```text\n[a](b.md)\n```", "```text\n[a](b.md)\n```", "```text\n[a](b.md)\n```"),
    ],
)
def test_relative_links_of_the_readme_are_replaced(
    hook: ModuleType, text: str, alone: str, public: str
) -> None:
    assert hook.package_readme(text, "") == alone
    assert hook.package_readme(text, "https://x") == public
