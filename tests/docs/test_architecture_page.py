"""The map names files, classes and methods that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "wieldy"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## Modules")[0]
WORDS = re.findall(r"`([^`\n]+)`", PAGE)
FILES = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}


def members() -> set[str]:
    """Every method and attribute of the package's classes, as `Class.name`."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{name}" for name in _names(node)}
    return found


def _names(node: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            yield each.attr
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


def test_every_file_that_the_map_names_exists() -> None:
    named = {word for word in WORDS if word.endswith(".py") and "<" not in word}
    here = {word for word in named if "/" not in word}
    elsewhere = {word for word in named - here if (ROOT / word).is_file()}

    assert named - here - elsewhere - FILES - {"wieldy/__init__.py"} == set()
    assert here - {Path(path).name for path in FILES} == set()
    assert len(named) > 30


def test_every_member_that_the_map_names_exists() -> None:
    named = {word for word in WORDS if re.fullmatch(r"[A-Z]\w+\.[a-z]\w+", word)}

    assert named - members() == set()
    assert len(named) >= 5


def test_the_assets_that_the_map_names_exist() -> None:
    named = [word for word in WORDS if word.endswith(".js")]

    assert [word for word in named if not (SOURCE / word).is_file()] == []


def test_the_map_names_the_file_in_which_a_class_is() -> None:
    file, name = r"`([\w/]+\.py)`", r"`([A-Z]\w+)(?:\.\w+)?`"
    pairs = [(path, word) for word, path in re.findall(rf"{name}\s\({file}", PAGE)]
    pairs += re.findall(rf"{file} \({name}\)", PAGE)
    text = {path: (SOURCE / path).read_text(encoding="utf-8") for path, _ in pairs}
    defined = r"^(?:class {0}\b|{0}(?::.*)? = )"

    assert [
        pair for pair in pairs if not re.search(defined.format(pair[1]), text[pair[0]], re.M)
    ] == []
    assert len(pairs) > 15
